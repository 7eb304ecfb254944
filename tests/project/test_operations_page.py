"""`docs/operations.md` is what `make operations` writes, has no empty cell, and is true."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import hlo
from docs import operations as page
from hlo.frontends.builder import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaOp,
)
from hlo.frontends.builder.core import operations
from hlo.ops import OPS
from tests.harness.builder_cases import all_cases, plus
from tests.harness.oracle import XlaError, assert_same, leaves, xla_parse, xla_run
from tests.harness.paths import DOCS, ROOT, TESTS
from tests.ops.test_op_table import arguments

ROWS = page.read_rows()


def test_the_page_is_up_to_date() -> None:
    text = (DOCS / "operations.md").read_text()
    assert text == page.render(), "run `make operations`"


def test_no_cell_is_empty() -> None:
    lines = [x for x in (DOCS / "operations.md").read_text().splitlines() if x.startswith("|")]
    widths = {}
    for line in lines:
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert all(cells), line
        widths.setdefault(len(cells), []).append(line)
    assert max(widths) == 12 and len(widths[12]) > 165


def test_every_name_of_a_document_has_a_row() -> None:
    named = {pair for row in ROWS["operations"] for pair in row.names.items()}
    # Of `X and the like`, X.
    names = [name for row in ROWS["interface"] for name in row.name.split(", ")]
    named |= {("004", name.split()[0]) for name in names}
    assert named == page.read_names()


def test_every_operation_is_interpreted_and_compiled() -> None:
    for row in ROWS["operations"]:
        name, *_, reference, compiled, _, _, _ = page.cells(row)
        assert (reference, compiled[:5]) == ("yes", "yes: "), name


def test_every_method_is_on_the_page() -> None:
    listed = {row.method for rows in ROWS.values() for row in rows}
    assert set(operations(XlaBuilder)) <= listed
    for section in ("operations", "beyond"):
        assert all(hasattr(XlaBuilder, row.method) for row in ROWS[section])


def test_a_methods_docstring_names_its_arguments_and_its_section() -> None:
    """An argument that many methods have may be in a docstring of their class instead."""
    classes = " ".join(inspect.getdoc(c) or "" for c in XlaBuilder.__mro__[:-1])
    documented = {row.method for row in ROWS["operations"]}
    for name, method in operations(XlaBuilder).items():
        said = inspect.getdoc(method) or ""
        assert name not in documented or "Source:" in said, name
        if "as for" not in said and "the arguments" not in said:
            wanted = set(inspect.signature(method).parameters)
            wanted -= {"self", "builder", "operand", "operands", "lhs", "rhs"}
            words = set(re.findall(r"\w+", said + classes))
            assert wanted <= words, (name, wanted - words)


@pytest.mark.parametrize("row", ROWS["operations"], ids=lambda row: row.name)
def test_a_method_appends_the_opcodes_of_its_row(row: Any) -> None:
    found: set[str] = set()
    for name, case in all_cases().items():
        if name.split(":")[0] == row.method:
            b = XlaBuilder("opcodes")
            numbers = iter(range(20))
            case(b, lambda shape, b=b, numbers=numbers: b.parameter(next(numbers), shape))
            found |= {inst.opcode for inst in b.build().computation}
    assert set(row.opcodes) <= found | {"tuple"}


def test_a_deviation_names_a_test_and_every_test_named_exists() -> None:
    deviations = [d for rows in ROWS.values() for row in rows for d in row.deviations]
    for deviation in deviations:
        assert deviation.test, f"which test shows that {deviation.text}?"
    named = {d.test for d in deviations}
    named |= {test for row in ROWS["operations"] for test in page.tests_of(row)}
    assert named - collected(named) == set()


def collected(names: Iterable[str]) -> set[str]:
    """Return those of some names, `file[id]` and `file::function`, that pytest finds tests for."""
    stems = sorted({re.sub(r"\W.*", "", name) for name in names})
    files = [str(path) for stem in stems for path in TESTS.glob(f"*/{stem}.py")]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = set()
    for line in out.splitlines():
        if match := re.match(r"(?:tests/)?(?:\w+/)?(\w+)\.py::(\w+)(\[.*\])?$", line):
            found |= {f"{match[1]}::{match[2]}", f"{match[1]}{match[3]}"}
    return found


# --- where XLA does other than a page says, or does what a page leaves open ---------------------

_LEAST = -(2**31)
_NAN = float("nan")

# method: (program of its arguments, arguments, result)
Claim = tuple[Callable[..., XlaOp], list[Any], Any]
CLAIMS: dict[str, Claim] = {
    "abs_": (lambda b, x: b.abs_(x), [np.int32([_LEAST])], np.int32([_LEAST])),
    "add": (lambda b, x: x + x, [np.uint8([200])], np.uint8([144])),
    "cholesky": (
        lambda b, x: b.cholesky(x, True), [np.float32([[4, 9], [2, 5]])],
        np.float32([[2, 0], [1, 2]]),
    ),
    "clamp": (
        lambda b, low, x: b.clamp(low, x, 2.0), [np.float32([0, _NAN]), np.float32([_NAN, 1])],
        np.float32([_NAN, _NAN]),
    ),
    "concat_in_dim": (
        lambda b, x: b.concat_in_dim([x], 1), [np.int32([[1, 2]])], np.int32([[1, 2]])),
    "convert_element_type:complex": (
        lambda b, x: b.convert_element_type(x, "f32"), [np.complex64([1 + 2j])], np.float32([1])),
    "convert_element_type": (
        lambda b, x: b.convert_element_type(x, "s32"), [np.float32([-1.9, 3e9, _NAN])],
        np.int32([-1, 2**31 - 1, 0]),
    ),
    "div": (
        lambda b, x, y: x / y, [np.int32([7, _LEAST]), np.int32([0, -1])], np.int32([-1, _LEAST])),
    "dot": (
        lambda b, x, y: b.dot(x, y), [np.float32([1, 2.5]), np.int32([3, 4])], np.float32(13)),
    "dot_general": (
        lambda b, x, y: b.dot_general(x, y, DotDimensionNumbers((0, 2), (2, 1), (1,), (0,))),
        [np.ones((2, 3, 4), np.float32), np.ones((3, 4, 2), np.float32)], np.float32([8, 8, 8])),
    "dynamic_slice": (
        lambda b, x, i: b.dynamic_slice(x, [i], (2,)), [np.int32([1, 2, 3]), np.int32(-5)],
        np.int32([1, 2]),
    ),
    "dynamic_slice:nothing": (
        lambda b, x, i: b.dynamic_slice(x, [i], (0,)), [np.int32([1, 2, 3]), np.int32(1)],
        np.zeros(0, np.int32),
    ),
    "dynamic_update_slice": (
        lambda b, x, i: b.dynamic_update_slice(x, b.constant([9, 9]), [i]),
        [np.int32([1, 2, 3]), np.int32(7)], np.int32([1, 9, 9]),
    ),
    "dynamic_update_slice:nothing": (
        lambda b, x, y: b.dynamic_update_slice(x, y, [1]),
        [np.int32([1, 2]), np.zeros(0, np.int32)], np.int32([1, 2]),
    ),
    "dynamic_update_slice:everything": (
        lambda b, x: b.dynamic_update_slice(x, b.constant([3, 4]), [0]), [np.int32([1, 2])],
        np.int32([3, 4]),
    ),
    "gather": (
        lambda b, x, i: b.gather(x, i, GatherDimensionNumbers((), (0,), (0,), 1), (1,)),
        [np.int32([1, 2, 3]), np.int32([[-4], [9]])], np.int32([1, 3]),
    ),
    "logical_and": (
        lambda b, x, y: b.logical_and(x, y), [np.int32([5]), np.int32([3])], np.int32([1])),
    "logical_not": (lambda b, x: b.logical_not(x), [np.int32([5, 0])], np.int32([-6, -1])),
    "logical_or": (
        lambda b, x, y: b.logical_or(x, y), [np.int32([5]), np.int32([2])], np.int32([7])),
    "max_": (lambda b, x, y: b.max_(x, y), [np.float32([1, _NAN]), np.float32([_NAN, 1])],
             np.float32([_NAN, _NAN])),
    "min_": (lambda b, x, y: b.min_(x, y), [np.float32([1, _NAN]), np.float32([_NAN, 1])],
             np.float32([_NAN, _NAN])),
    "mul": (lambda b, x: x * x, [np.uint8([20])], np.uint8([144])),
    "neg": (lambda b, x: -x, [np.int32([_LEAST])], np.int32([_LEAST])),
    "pow_": (
        lambda b, x, y: b.pow_(x, y), [np.int32([2, 1, -1, -3, 0]), np.int32([-1, -3, -3, -2, 0])],
        np.int32([0, 1, -1, 0, 1]),
    ),
    "reduce": (lambda b, x: b.reduce_all(x, 5, plus), [np.int32([1, 2])], np.int32(8)),
    "reduce_window": (
        lambda b, x: b.reduce_window(x, 100, plus, (2,), (1,), [(1, 0)]), [np.int32([1, 2])],
        np.int32([101, 103]),
    ),
    "rem": (
        lambda b, x, y: b.rem(x, y), [np.int32([7, _LEAST]), np.int32([0, -1])], np.int32([7, 0])),
    "rng_uniform": (lambda b, low, high: b.rng_uniform(low, high, "s32[9]"),
                    [np.int32(1), np.int32(2)], np.int32([1] * 9)),
    "scatter": (
        lambda b, x, i, u: b.scatter(
            x, i, u, lambda old, new: new, ScatterDimensionNumbers((), (0,), (0,), 1)),
        [np.int32([0, 0]), np.int32([[1], [1], [5]]), np.int32([3, 4, 5])], np.int32([0, 4]),
    ),
    "scatter:window": (
        lambda b, x, i, u: b.scatter(
            x, i, u, lambda old, new: new, ScatterDimensionNumbers((1,), (), (0,), 1)),
        [np.int32([0, 0, 0, 0]), np.int32([[3], [1], [-1]]), np.int32([[3, 4], [5, 6], [7, 8]])],
        np.int32([0, 5, 6, 0]),
    ),
    "shift_left": (
        lambda b, x, y: x << y, [np.int32([1, 1]), np.int32([32, 31])], np.int32([0, _LEAST])),
    "shift_right_arithmetic": (
        lambda b, x, y: x >> y, [np.int32([-8]), np.int32([40])], np.int32([-1])),
    "sign": (lambda b, x: b.sign(x), [np.float32([_NAN, -0.0, -2])], np.float32([_NAN, -0.0, -1])),
    "shift_right_logical": (
        lambda b, x, y: b.shift_right_logical(x, y), [np.int32([-8, -8]), np.int32([32, 28])],
        np.int32([0, 15])),
    "top_k": (
        lambda b, x: b.top_k(x, 2)[0], [np.float32([1, np.nan, np.inf])],
        np.float32([np.nan, np.inf])),
    "slice_": (lambda b, x: b.slice_(x, (1,), (1,)), [np.int32([1, 2])], np.zeros(0, np.int32)),
    "sqrt_f32": (
        lambda b, x: b.sqrt_f32(x), [np.float32([-0.0, -np.inf])], np.float32([-0.0, _NAN])),
    "sub": (lambda b, x, y: x - y, [np.uint8([2]), np.uint8([3])], np.uint8([255])),
    "triangular_solve": (
        lambda b, a, x: b.triangular_solve(a, x, True, True, False),
        [np.float32([[2, 9], [0, 4]]), np.float32([[2], [8]])], np.float32([[1], [2]]),
    ),
    "while_": (
        lambda b, x: b.while_(
            lambda i: i < 10,
            lambda i: i.builder.while_(lambda j: j < 3, lambda j: j + 1, i) + 1, x),
        [np.int32(0)], np.int32(10),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def programs() -> tuple[str, list[Any], list[Any]]:
    """One module of all claims, with its arguments, and what XLA:CPU makes of them."""
    b, roots, args = XlaBuilder("claims"), [], []
    for program, values, _ in CLAIMS.values():
        handles = []
        for value in values:
            handles.append(b.parameter(len(args), hlo.Literal.of(value).shape))
            args.append(value)
        roots.append(program(b, *handles))
    text = str(b.build(b.tuple_(roots)))
    return text, args, xla_run(text, args)


@pytest.mark.parametrize("name", CLAIMS)
def test_what_the_page_says_of_xla_is_so(name: str, programs: Any) -> None:
    text, args, theirs = programs
    at = list(CLAIMS).index(name)
    ours = leaves(hlo.interpret(hlo.parse(text), *args))
    want = CLAIMS[name][2]
    assert_same(ours[at], want)
    assert_same(theirs[at], want)


# What XLA cannot do with an example of the op table, and what it says.
UNIMPLEMENTED: dict[str, str] = {
    "cosh": "UNIMPLEMENTED",
    **dict.fromkeys(
        ["collective-broadcast", "copy-start", "copy-done", "ragged-dot", "recv", "recv-done",
         "send", "send-done"], "not supported by XLA:CPU",
    ),
    "bitcast": "layout minor_to_major field",
    "ragged-all-to-all": "crashed",
    "scaled-dot": "unregistered operation",
}  # fmt: skip


@pytest.mark.parametrize("name", UNIMPLEMENTED)
def test_xla_cannot_run_it(name: str) -> None:
    text = OPS[name].examples[0]
    args = arguments(hlo.parse(text), name)
    with pytest.raises(XlaError, match=UNIMPLEMENTED[name]):
        xla_run(text, leaves(tuple(args)))


def test_xla_gathers_by_indices_that_may_be_equal() -> None:
    text = """HloModule gather
ENTRY e {
  x = f32[5] parameter(0)
  i = s32[2,1] parameter(1)
  ROOT r = f32[2] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1}, unique_indices=true
}
"""
    with pytest.raises(XlaError, match="unique_indices"):
        xla_parse(text)


def test_xla_may_leave_out_the_initial_value() -> None:
    """Where a reduction is over dimensions of size 1 only, whatever the function does with it."""
    b = XlaBuilder("ones")
    b.reduce(b.parameter(0, "s32[1,2]"), 5, lambda a, x: x - a, (0,))
    module, x = b.build().module(), np.int32([[1, 2]])
    assert hlo.interpret(module, x).tolist() == [-4, -3]
    assert hlo.compile(module, cache=False)(x).tolist() == [-4, -3]
    [theirs] = xla_run(str(module), [x])
    assert theirs.tolist() == [1, 2]


def test_xla_selects_no_tuples() -> None:
    text = """HloModule select
ENTRY e {
  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  t = (f32[2]) tuple(x)
  ROOT r = (f32[2]) select(p, t, t)
}
"""
    with pytest.raises(XlaError, match="select"):
        xla_run(text, [np.bool_(True), np.float32([1, 2])])


@pytest.mark.parametrize(
    ("method", "element_type"),
    [
        *((m, t) for m in ("rng_normal", "rng_uniform") for t in ("f16", "bf16", "f64")),
        *(("rng_uniform", t) for t in ("pred", "s8", "u16", "s64", "u64")),
    ],
)
def test_random_numbers_are_of_other_types_too(method: str, element_type: str) -> None:
    b = XlaBuilder("random")
    limits = (False, True) if element_type == "pred" else (0, 1)
    low, high = (b.constant(n, element_type) for n in limits)
    getattr(b, method)(low, high, f"{element_type}[50]")
    module = b.build().module()
    values = [hlo.interpret(module), hlo.compile(module, cache=False)()]
    if element_type not in ("pred", "s8", "u16"):  # on which XLA:CPU crashes
        values += xla_run(str(module))
    for found in values:
        assert found.shape == (50,) and found.dtype == values[0].dtype
        if method == "rng_uniform":
            assert ((found >= 0) & (found.astype(float) < 1)).all()
        else:
            assert len(set(found.tolist())) > 20
