"""Long or doubling input takes time in proportion to its length, or ends in an error.

Two checks, neither of them a race against a clock. Of Python code the calls are counted, which are
the same in every run: four times the text may make some four times as many. The steps inside
regular expressions cannot be counted, so a text at which anything quadratic would work for minutes
has to end before `watched` calls it a hang.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.analysis.devices import devices_of
from hlo.codegen.lower.relayout import plain, without_buffers
from hlo.errors import HloError
from hlo.frontends.text import parse, print_module
from hlo.verifier import verify
from tests.sweeps.fuzz import watched

Make = Callable[[int], str]


def line(text: str) -> str:
    return f"ENTRY e {{\n  p = f32[2] parameter(0)\n  ROOT {text}\n}}\n"


def lines(first: str, each: Callable[[int], str], n: int) -> str:
    body = "\n".join(each(i) for i in range(n))
    return f"ENTRY e {{\n  x0 = {first} parameter(0)\n{body}\n}}\n"


def calls(n: int) -> str:
    made = "".join(
        f"c{i + 1} {{ p = f32[2] parameter(0)\n  a = call(p), to_apply=c{i}\n"
        f"  ROOT b = call(a), to_apply=c{i} }}\n"
        for i in range(n)
    )
    last = f"ENTRY e {{ p = f32[2] parameter(0)\n  ROOT r = call(p), to_apply=c{n} }}\n"
    return "c0 { p = f32[2] parameter(0) }\n" + made + last


# One piece repeated, where regular expressions read it. Most are errors.
REPEATED: dict[str, Make] = {
    "line breaks in open operands": lambda n: line("r = f32[2] add(p, p" + "\n" * n),
    "line breaks in operands": lambda n: line("r = f32[2] add(p, p" + "\n" * n + "q)"),
    "line breaks in an attribute": lambda n: line("r = f32[2] negate(p), metadata={" + "\n" * n),
    "lines of blanks": lambda n: line("r = f32[2] negate(p), metadata={" + "\n \t" * n + "}"),
    "carriage returns": lambda n: line("r = f32[2] negate(p), metadata={" + "\r\n" * n),
    "line breaks in a literal": lambda n: line("r = f32[2] constant({1" + "\n" * n),
    "line breaks in a shape": lambda n: line("r = (f32[2]," + "\n" * n + ") tuple(p)"),
    "line breaks in the header": lambda n: "HloModule m, x=" + "\n" * n + line("r = tuple(p)"),
    "escaped quotes": lambda n: line('r = f32[2] negate(p), metadata={op_name="' + '\\"' * n),
    "escaped quotes on lines": lambda n: line('r = tuple(p), backend_config="' + '\\"\n' * n),
    "single quotes": lambda n: line("r = f32[2] negate(p), metadata={op_name='" + "\\'" * n),
    "both quotes": lambda n: line("r = f32[2] negate(p), backend_config={" + "\"'" * n),
    "open strings in braces": lambda n: line("r = tuple(p), backend_config=" + '{"' * (n // 4)),
    "open comments": lambda n: line("r = tuple(p), backend_config={" + "/* x " * n),
    "open comments in operands": lambda n: line("r = f32[2] negate(p" + "/* x " * n),
    "open comments in a literal": lambda n: line("r = f32[2] constant({" + "/* x " * n),
    "slashes": lambda n: line("r = f32[2] negate(p), backend_config={" + "/" * n),
    "comments": lambda n: "// x\n" * n + line("r = f32[2] negate(p)"),
    "blanks": lambda n: line("r = f32[2] negate(p" + " " * n + "q)"),
    "square brackets": lambda n: line("r = f32[2] negate(p), sharding=" + "[a]" * n + "["),
    "a long name": lambda n: line("r" + "a" * n + " = f32[2] negate(p)"),
    "a long opcode": lambda n: line("r = f32[2] " + "a" * n + "(p)"),
    "a long number": lambda n: line("r = f32[2] constant({" + "1" * n + ", 2})"),
    "a long exponent": lambda n: line("r = f32[2] constant({1e" + "1" * n + ", 2})"),
    "a long element": lambda n: line("r = f32[2] negate(p" + "#0" * n + ")"),
    "tiles": lambda n: line("r = f32[2]{0:" + "T(2)" * n + "} negate(p)"),
}

# Items in number, each of which Python code handles.
ITEMS: dict[str, Make] = {
    "lines": lambda n: lines("f32[2]", lambda i: f"x{i + 1} = negate(x{i})", n),
    "bad lines": lambda n: lines("f32[2]", lambda i: "?? = f32[2] negate(x0)", n),
    "roots": lambda n: lines("f32[2]", lambda i: f"ROOT r{i} = f32[2] negate(x0)", n),
    "elements": lambda n: lines("(f32[2],f32[2])", lambda i: f"y{i} = negate(x0#1)", n),
    "operations as operands": lambda n: lines("f32[2]", lambda i: f"y{i} = negate(abs(x0))", n),
    "computations in place": lambda n: lines(
        "f32[2]", lambda i: f"y{i} = call(x0), to_apply={{ a = f32[2] parameter(0) }}", n
    ),
    "operands": lambda n: line("r = tuple(" + "p, " * n + "p)"),
    "control edges": lambda n: line("r = negate(p), control-predecessors={" + "p, " * n + "p}"),
    "attributes": lambda n: line("r = f32[2] negate(p)" + ", a=b" * n),
    "replica groups": lambda n: line(
        f"r = all-reduce(p), replica_groups={{{','.join(f'{{{i}}}' for i in range(n))}}}, "
        "to_apply={ x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }"
    ),
    "calls that double": calls,
    "a call cycle": lambda n: "".join(
        f"c{i} {{ p = f32[2] parameter(0)\n ROOT r = f32[2] call(p), to_apply=c{(i + 1) % n} }}\n"
        for i in range(n)
    ),
}

# Text that would mean more than fits anywhere.
TOO_MUCH: dict[str, tuple[str, str]] = {
    "tuples that double": (
        lines("f32[]", lambda i: f"  x{i + 1} = tuple(x{i}, x{i})", 40),
        "bad-shape",
    ),
    "tuples that double late": (
        lines("f32[]", lambda i: f"  x{i + 1} = tuple({', '.join(f'x{min(i, 12)}' for _ in '12')})",
              400),
        "bad-shape",
    ),
    "tuples in tuples": (
        lines("f32[]", lambda i: f"  x{i + 1} = tuple(x{i})", 3000),
        "nesting-too-deep",
    ),
    "tuples in tuples that a call returns": (
        "".join(
            f"c{i} {{ p = f32[] parameter(0)\n  a = "
            + (f"call(p), to_apply=c{i - 1}" if i else "negate(p)")
            + "\n  ROOT t = tuple(a) }\n"
            for i in range(100)
        ),
        "nesting-too-deep",
    ),
}  # fmt: skip


def taken(text: str) -> str:
    """Read, verify, print and read a text; return the code of the error, if there is one."""
    try:
        module = parse(text)
        verify(module)
        printed = print_module(module)
        assert print_module(parse(printed)) == printed
    except HloError as e:
        assert len(str(e)) < 4 * len(text) + 20_000
        return e.code
    return ""


def ends_soon(text: str) -> str:
    """Return the code of the error that a text ends in, after checking that it does not hang."""
    codes: list[str] = []
    assert watched(lambda: codes.append(taken(text)), lambda e: str(e)) is None
    return codes[0]


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions are called, of Python and of C."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", REPEATED)
def test_a_repeated_piece_is_read_in_linear_time(name: str) -> None:
    ends_soon(REPEATED[name](100_000))


@pytest.mark.parametrize("name", ITEMS)
def test_calls_grow_with_the_number_of_items(name: str) -> None:
    texts = [ITEMS[name](n) for n in (50, 200)]
    taken(texts[0])  # what is made once is made now
    taken(texts[1])
    few, many = (calls_of(lambda t=text: taken(t)) for text in texts)
    assert many < 5 * few + 1000, f"{few} and {many} calls"


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_fits_nowhere_is_an_error(name: str) -> None:
    text, code = TOO_MUCH[name]
    assert ends_soon(text) == code


def test_billions_of_devices_are_not_listed() -> None:
    text = """HloModule m, replica_count=2000000000
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)
  y = f32[3] all-reduce(x), replica_groups={}, to_apply=add
  ROOT r = f32[3] all-reduce(x), replica_groups={}, to_apply=add }"""
    module = hlo.parse(text)
    hlo.verify(module)
    assert devices_of(module) == (2_000_000_000, 1)
    assert "all-reduce" in str(hlo.optimize(module))
    with pytest.raises(hlo.HloError, match="more than can be listed"):
        hlo.compile(module, cache=False)(np.zeros(3, np.float32))


def test_an_array_without_elements_becomes_no_long_constant() -> None:
    module = hlo.parse("pred[1,1,4294967296,0] reshape(pred[0] p)")
    assert "constant" not in str(hlo.optimize(module))


def maps(n: int) -> str:
    text = calls(n).replace("f32[2]", "f32[]").replace("call(", "map(")
    return text.replace("{ p = f32[] parameter(0) }", "{ p = f32[] parameter(0)\n n = negate(p) }")


def conditionals(n: int) -> str:
    text = calls(n).replace("parameter(0)\n", "parameter(0)\n  t = pred[] constant(true)\n")
    text = text.replace("call(", "conditional(t, ")
    branches = r"\1, \1), true_computation=\2, false_computation=\2"
    return re.sub(r"(\w)\), to_apply=(c\d+)", branches, text)


@pytest.mark.parametrize(
    ("make", "opcode", "inliner"),
    [
        (calls, "call", "call-inliner"),
        (maps, "map", "map-inline"),
        (conditionals, "conditional", "simplify-conditional"),
    ],
)
def test_calls_that_double_are_not_copied_without_end(
    make: Make, opcode: str, inliner: str
) -> None:
    module = parse(make(40))
    codes: list[str] = []

    def check() -> None:
        hlo.optimize(module, passes=inliner, inplace=True)
        hlo.compile(module, cache=False)

    assert watched(check, lambda e: codes.append(e.code)) is None
    assert codes == ["too-large"]
    assert any(i.opcode == opcode for i in module.entry)
    few = parse(make(8))
    few = hlo.optimize(few, passes=inliner)
    assert not any(i.opcode == opcode for i in few.entry)


@pytest.mark.parametrize("change", [plain, without_buffers])
def test_shapes_that_double_are_changed_once(change: Callable[[Any], Any]) -> None:
    text = lines("f32[2]", lambda i: f"  x{i + 1} = tuple(x{i}, x{i})", 16)
    shape = parse(text).entry.root.shape
    assert calls_of(lambda: change(shape)) < 1000 < shape.num_parts


@pytest.mark.parametrize("levels", [30, 40, 200])
def test_calls_that_double_are_not_interpreted_without_end(levels: int) -> None:
    with pytest.raises(HloError) as e:
        hlo.interpret(parse(calls(levels)), np.zeros(2, np.float32))
    assert e.value.code == "too-large"
