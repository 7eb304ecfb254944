"""No text crashes the parser, hangs it, or makes it raise anything but HloError."""

from __future__ import annotations

import random
import time

import pytest

from hlo.errors import HloError
from hlo.frontends.text import parse, print_module

N = 50_000


def body(line: str) -> str:
    return f"ENTRY e {{\n  p = f32[2] parameter(0)\n  ROOT {line}\n}}\n"


DEEP = {
    "braces": body("q = f32[2] negate(p), sharding=" + "{" * N + "}" * N),
    "open braces": body("q = f32[2] negate(p), backend_config=" + "{" * N),
    "tuple shape": body("q = " + "(" * N + "f32[]" + ")" * N + " tuple(p)"),
    "open tuple shape": body("q = " + "(" * N + "f32[]"),
    "operations": body("q = f32[2] " + "negate(" * N + "p" + ")" * N),
    "open operations": body("q = f32[2] " + "negate(" * N + "p"),
    "parentheses": body("q = f32[2] negate(" + "(" * N + ")" * N + ")"),
    "literal braces": body("q = f32[2] constant(" + "{" * N + "}" * N + ")"),
    "literal tuple": body("q = f32[2] constant(" + "(" * N + ")" * N + ")"),
    "computations": body(
        "q = f32[2] call(p), to_apply=" + "{ x = f32[2] call(y), to_apply=" * N + "}" * N
    ),
    "lists": body(
        "q = f32[2] conditional(p), branch_computations="
        + "{{ x = f32[2] conditional(y), branch_computations=" * N
    ),
    "nothing but braces": "{" * N,
    "nothing but parentheses": "(" * N,
    "nothing but quotes": '"' * N,
    "nothing but comments": "/*" * N,
    "commas": body("q = f32[2] negate(p" + "," * N + ")"),
    "attributes": body("q = f32[2] negate(p)" + ", a={" * N),
    "dimensions": body("q = f32[" + "2," * N + "2] negate(p)"),
    "digits": body("q = f32[" + "9" * N + "] negate(p)"),
    "parameter digits": body("q = f32[2] parameter(" + "9" * N + ")"),
    "undefined names": body("q = f32[2] negate(" + ", ".join(f"x{i}" for i in range(N)) + ")"),
    "bad lines": "ENTRY e {\n" + "q = = f32[2] negate(p)\n" * (N // 10) + "}",
    "open computations": "".join(f"c{i} {{\n a = f32[] parameter(0)\n" for i in range(N // 10)),
    "backslashes": body('q = f32[2] negate(p), metadata={op_name="' + "\\" * N + "}"),
    "control characters": body("q = f32[2] negate(\0p\x7f)"),
    "surrogates": body("q = f32[2] negate(\ud800p)"),
    "signature": "ENTRY e (p: " + "(" * N + ") -> f32[] { a = f32[] parameter(0) }",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_or_long_nonsense_is_an_error_soon(name: str) -> None:
    begin = time.process_time()
    with pytest.raises(HloError) as caught:
        parse(DEEP[name])
    assert all(d.span is not None for d in caught.value.diagnostics)
    assert len(str(caught.value)) < 20_000
    # A few hundred milliseconds at most; quadratic work would take minutes.
    assert time.process_time() - begin < 20


def test_nesting_that_programs_have_is_read() -> None:
    shape = "(" * 20 + "f32[2]" + ")" * 20
    operand = "negate(" * 20 + "p" + ")" * 20
    config = '{"a":' * 20 + "1" + "}" * 20
    inline = "q = f32[2] call(p), to_apply={ p = f32[2] parameter(0)\n " * 300
    for line in (
        f'q = {shape} custom-call(p), custom_call_target="t"',
        f"q = {operand}",
        f"q = f32[2] negate(p), backend_config={config}",
        inline + "q = f32[2] negate(p)" + "}" * 300,
    ):
        module = parse(body(line))
        assert print_module(parse(print_module(module))) == print_module(module)


MODEL = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }

add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }

ENTRY %e (p: f32[2,3]) -> (f32[2], f32[2]) {
  %p = f32[2,3]{1,0:T(2,128)} parameter(0), sharding={devices=[2,1]<=[2]}
  c = f32[] constant(-1.5e-3), metadata={op_name="a\\"b" source_line=3}
  k = (f32[2,1], c64[]) constant(({{1}, {nan}}, (0, 1)))
  r = f32[2]{0} reduce(f32[2,3] p, c), dimensions={1}, to_apply=add
  i = f32[2] map(r), dimensions={0}, to_apply={ x = f32[] parameter(0) /* y */
    ROOT y = f32[] negate(x) }, backend_config={"a": {"b": "}"}}
  ROOT t = (f32[2], f32[2]) tuple(r, add(i, i)), frontend_attributes={a="1"}
}
"""


def mutate(rng: random.Random, text: str) -> str:
    """Return the text with a few characters, words or lines changed, doubled or cut."""
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:at] + rng.choice("{}()[],=%\"'#/*\\ \n-0aé\0") + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 5) :]
        elif kind == 2:
            text = text[:at]
        elif kind == 3:
            low, high = sorted((at, min(other, at + 60)))
            text = text[:high] + text[low:high] + text[high:]
        elif kind == 4:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            text = "\n".join(lines)
        else:
            lines = text.split("\n")
            del lines[rng.randrange(len(lines))]
            text = "\n".join(lines) or "x"
    return text


def test_mutations_raise_nothing_else() -> None:
    rng = random.Random(7)
    fine = 0
    for _ in range(1500):
        text = mutate(rng, MODEL)
        try:
            module = parse(text)
        except HloError as e:
            assert all(d.span is not None for d in e.diagnostics), text
            str(e)
            continue
        fine += 1
        assert print_module(parse(print_module(module))) == print_module(module), text
    assert fine > 20
