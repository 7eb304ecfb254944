"""Arrays of dynamic size, compiled: they mean what they mean to the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.values.arrays import DynamicArray
from hlo.values.shape_text import parse_shape
from hlo.values.types import ELEMENT_TYPES, ArrayShape
from tests.harness.oracle import assert_same
from tests.harness.run_compiled import compiled
from tests.ops.test_op_table import visible
from tests.ops.test_ops_dynamic import CASES, OURS, SIZES, arguments, program


def check(text: str, args: Sequence[Any]) -> None:
    """Compare results, sizes included, with what lies in the padding of arguments made NaN."""
    want = visible(interpret(parse(text), args))
    got = visible(compiled(text)(*args))
    for g, w in zip(got, want, strict=True):
        assert_same(g, w, rtol=1e-5, atol=1e-5)


MORE = {
    "add two sizes": "x = f32[<=6,4] add(d, e)",
    "select two sizes": "y = pred[<=6,4] compare(e, b), direction=LT\n"
    "  x = f32[<=6,4] select(y, d, e)",
    "slice part": "x = f32[2,4] slice(d), slice={[0:2], [0:4]}",
    "pad inside": "x = f32[<=15,4] pad(d, zero), padding=2_2_1x0_0",
    "pad cut": "x = f32[<=4,4] pad(d, zero), padding=-1_-1x0_0",
    "reverse both": "x = f32[6,<=4] reverse(c), dimensions={0,1}",
    "concatenate three": "x = f32[<=18,4] concatenate(d, b, e), dimensions={0}",
    "reduce maximum": "low = f32[] constant(-inf)\n  x = f32[4] reduce(d, low), dimensions={0}, "
    "to_apply=larger",
    "reduce any function": "x = f32[4] reduce(d, zero), dimensions={0}, to_apply=last",
    "reduce with a start": "two = f32[] constant(2)\n"
    "  x = f32[4] reduce(d, two), dimensions={0}, to_apply=add",
    "reduce-window padded": "x = f32[<=7,4] reduce-window(d, zero), "
    "window={size=2x1 pad=1_1x0_0}, to_apply=add",
    "reduce-window of any function": "x = f32[<=5,4] reduce-window(d, zero), window={size=2x1}, "
    "to_apply=last",
    "reshape moved": "x = f32[<=24] reshape(c)",
    "reshape twice": "y = f32[<=24] reshape(c)\n  x = f32[6,<=4] reshape(y)",
    "dynamic-reshape of columns": "six = s32[] constant(6)\n"
    "  x = f32[<=4,6] dynamic-reshape(c, m, six)",
    "sort columns": "x = f32[6,<=4] sort(c), dimensions={1}, to_apply=lt",
    "update": "y = f32[<=6,4] set-dimension-size(b, m), dimensions={0}\n"
    "  z = s32[] constant(0)\n  x = f32[<=6,4] dynamic-update-slice(a, y, z, z)",
    "gather of a row that may not be there": "one = s32[] constant(1)\n"
    "  some = s32[] minimum(n, one)\n  y = f32[1,4] slice(a), slice={[0:1], [0:4]}\n"
    "  z = f32[<=1,4] set-dimension-size(y, some), dimensions={0}\n  j = s32[3] constant({0,1,2})\n"
    "  x = f32[3,4] gather(z, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,4}",
    "bitcast-convert": "x = s32[<=6,4] bitcast-convert(d)",
    "bitcast-convert parts": "x = u8[<=6,4,4] bitcast-convert(d)",
    "copy": "x = f32[<=6,4]{0,1} copy(d)",
    "tuple": "t = (f32[<=6,4], f32[6,<=4]) tuple(d, c)\n"
    "  x = f32[6,<=4] get-tuple-element(t), index=1",
    "to static and back": "t = (f32[6,4], s32[], s32[]) custom-call(d), "
    'custom_call_target="PadToStatic"\n  y = f32[6,4] get-tuple-element(t), index=0\n'
    "  r = s32[] get-tuple-element(t), index=1\n  s = s32[] get-tuple-element(t), index=2\n"
    '  x = f32[<=6,<=4] custom-call(y, r, s), custom_call_target="SliceToDynamic"',
    "cholesky of some": "y = f32[6,2,2] reshape(b)\n  z = f32[6,2,2] dot(y, y), "
    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
    "  v = f32[<=6,2,2] set-dimension-size(z, n), dimensions={0}\n"
    "  x = f32[<=6,2,2] cholesky(v), lower=true",
    "loop that shrinks": "z = s32[] constant(0)\n  t = (s32[], f32[6,4]) tuple(z, a)\n"
    "  w = (s32[], f32[6,4]) while(t), condition=above, body=shrink\n"
    "  x = f32[6,4] get-tuple-element(w), index=1",
    "scan rows": "four = f32[4] constant({1,2,3,4})\n  t = (f32[<=6,4], f32[4]) scan(d, b, four), "
    "dimensions={0}, num_carries=1, to_apply=scanned\n"
    "  x = f32[<=6,4] get-tuple-element(t), index=0",
    "scan backwards, last": "four = f32[4] constant({1,2,3,4})\n  t = (f32[<=6,4], f32[4]) "
    "scan(d, e, four), dimensions={0}, num_carries=1, is_reverse=true, to_apply=scanned\n"
    "  x = f32[4] get-tuple-element(t), index=1",
    "scan columns of some rows": "y = f32[<=6] reduce(d, zero), dimensions={1}, to_apply=add\n"
    "  t = (f32[<=6,4], f32[<=6]) scan(d, d, y), dimensions={1}, num_carries=1, "
    "to_apply=scanned_column\n  x = f32[<=6,4] get-tuple-element(t), index=0",
    "all-reduce": "x = f32[<=6,4] all-reduce(d), replica_groups={}, to_apply=add",
    "topk": "t = (f32[6,1], s32[6,1]) topk(c), k=1, largest=true\n"
    "  x = f32[6,1] get-tuple-element(t), index=0",
}
ALL = {**CASES, **{name: lines for name, (lines, _) in OURS.items()}, **MORE}


@pytest.mark.parametrize("name", ALL)
def test_an_operation_on_dynamic_arrays(name: str) -> None:
    text = program(ALL[name])
    for n, m in SIZES:
        if (name == "topk" and m < 1) or (name == "pad cut" and n < 2):
            continue  # no value
        check(text, arguments(n, m))
    if "two sizes" in name:
        check(text, arguments(1, 4))
        check(text, arguments(4, 1))


def test_a_convolution_over_dynamic_dimensions() -> None:
    text = """HloModule conv
ENTRY main {
  a = f32[5,7,2] parameter(0)
  k = f32[3,2,4] parameter(1)
  n = s32[] parameter(2)
  m = s32[] parameter(3)
  b = f32[<=5,7,2] set-dimension-size(a, n), dimensions={0}
  c = f32[<=5,<=7,2] set-dimension-size(b, m), dimensions={1}
  ROOT x = f32[<=5,<=7,4] convolution(c, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
}
"""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 7, 2)).astype(np.float32)
    k = rng.standard_normal((3, 2, 4)).astype(np.float32)
    check(text, [a, k, np.int32(3), np.int32(5)])


_SOLVE = "triangular-solve(t, b), transpose_a=NO_TRANSPOSE"


@pytest.mark.parametrize(
    "b, line",
    [
        ("f32[2,5,<=5]", "cholesky(t), lower=true"),
        ("f32[2,5,<=5]", "cholesky(t), lower=false"),
        ("f32[2,<=5,3]", f"{_SOLVE}, left_side=true, lower=true"),
        ("f32[2,<=5,3]", f"{_SOLVE}, left_side=true, lower=false, unit_diagonal=true"),
        ("f32[2,3,<=5]", f"{_SOLVE}, left_side=false, lower=true"),
        ("f32[2,<=3,5]", "triangular-solve(a, b), left_side=false, lower=false, "
         "transpose_a=TRANSPOSE"),
    ],
)  # fmt: skip
def test_matrices_of_every_size(b: str, line: str) -> None:
    """What lies beyond them is NaN, and reaches nothing."""
    shape = parse_shape(b)
    assert isinstance(shape, ArrayShape)
    whole, dim = b.replace("<=", ""), shape.dynamic.index(True)
    result = "f32[2,<=5,<=5]" if "cholesky" in line else b
    text = f"""HloModule m
ENTRY main {{
  a = f32[2,5,5] parameter(0)  c = {whole} parameter(1)  n = s32[] parameter(2)
  s = f32[2,<=5,5] set-dimension-size(a, n), dimensions={{1}}
  t = f32[2,<=5,<=5] set-dimension-size(s, n), dimensions={{2}}
  b = {b} set-dimension-size(c, n), dimensions={{{dim}}}
  ROOT x = {result} {line}
}}
"""
    rng = np.random.default_rng(0)
    for n in range(shape.dims[dim] + 1):
        x = rng.standard_normal((2, 5, 5)).astype(np.float32)
        a, right = x @ x.swapaxes(1, 2) + 4 * np.eye(5, dtype=np.float32), np.ones(shape.dims)
        if "(t" in line:
            a[:, n:] = a[:, :, n:] = np.nan
        right[(slice(None),) * dim + (slice(n, None),)] = np.nan
        check(text, [a, right.astype(np.float32), np.int32(n)])


def test_sizes_that_vary_within_an_asynchronous_computation() -> None:
    text = """HloModule asynchronous
sized { x = s32[5] parameter(0)  n = s32[] parameter(1)
  y = s32[<=5] set-dimension-size(x, n), dimensions={0}
  ROOT m = s32[] get-dimension-size(y), dimensions={0} }
wrapped { x = s32[5] parameter(0)  n = s32[] parameter(1)
  ROOT m = s32[] call(x, n), to_apply=sized }
ENTRY main { x = s32[5] parameter(0)  n = s32[] parameter(1)
  start = ((s32[5], s32[]), s32[], u32[]) async-start(x, n), calls=wrapped
  ROOT m = s32[] async-done(start) }
"""
    check(text, [np.arange(5, dtype=np.int32), np.int32(3)])


def test_what_was_outside_of_a_size_is_zero_at_the_bounds() -> None:
    text = """HloModule padded
ENTRY main { x = s32[5] parameter(0)  n = s32[] parameter(1)
  z = s32[<=5] set-dimension-size(x, n), dimensions={0}
  y = s32[<=5] negate(z)
  ROOT r = (s32[5], s32[]) custom-call(y), custom_call_target="PadToStatic" }
"""
    args = [np.arange(1, 6, dtype=np.int32), np.int32(2)]
    check(text, args)
    assert compiled(text)(*args)[0].tolist() == [-1, -2, 0, 0, 0]


@pytest.mark.parametrize(
    "line",
    [
        "all-to-all(x), replica_groups={{0}}, dimensions={1}",
        "all-reduce(x), replica_groups={{0}}, to_apply=sum",
        "negate(x)",
    ],
)
def test_a_result_may_be_declared_at_its_bounds(line: str) -> None:
    text = f"""HloModule at_bounds
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{ x = f32[<=3,5] parameter(0)  ROOT r = f32[3,5] {line} }}
"""
    check(text, [np.arange(15, dtype=np.float32).reshape(3, 5)])


ARGUMENT = """HloModule bounded
ENTRY main {
  a = f32[<=5,<=2] parameter(0)
  p = (s32[3], f32[<=4]) parameter(1)
  b = f32[<=5,<=2] negate(a)
  q = f32[<=4] get-tuple-element(p), index=1
  n = s32[] get-dimension-size(b), dimensions={0}
  ROOT t = (f32[<=5,<=2], s32[], (f32[<=4])) tuple(b, n, u)
}
""".replace("  ROOT t", "  u = (f32[<=4]) tuple(q)\n  ROOT t")


def test_arguments_and_results_have_their_sizes() -> None:
    exe = compiled(ARGUMENT)
    a = np.arange(6, dtype=np.float32).reshape(3, 2)
    p = (np.zeros(3, np.int32), np.arange(3, dtype=np.float32))
    b, n, (q,) = exe(a, p)
    np.testing.assert_array_equal(b, -a)
    np.testing.assert_array_equal(q, p[1])
    assert int(n) == 3
    b, n, (q,) = exe(DynamicArray(np.ones((5, 2), np.float32), (0, 2)), p)
    assert b.shape == (0, 2)
    for shape in ((6, 2), (5, 3), (5,)):
        with pytest.raises(HloError, match="is needed"):
            exe(np.ones(shape, np.float32), p)


def test_what_has_no_bound_is_refused() -> None:
    text = """HloModule unbounded
ENTRY main {
  a = f32[?,2] parameter(0)
  ROOT b = f32[?,2] negate(a)
}
"""
    with pytest.raises(HloError, match="without a bound"):
        compiled(text)


GROWN = """HloModule grown
ENTRY e { a = f32[2,6] parameter(0)
  n = s32[] parameter(1)
  m = s32[] parameter(2)
  b = f32[2,<=6] set-dimension-size(a, n), dimensions={1}
  LINE
  ROOT d = f32[2,<=6] set-dimension-size(c, m), dimensions={1} }
"""
# Values, and memory as it is.
BETWEEN = {
    "nothing": "c = f32[2,<=6] copy(b)",
    "a sum": "c = f32[2,<=6] add(b, b)",
    "a loop": """t = (s32[], f32[2,<=6]) tuple(n, b)
  w = (s32[], f32[2,<=6]) while(t), condition=test, body=body
  c = f32[2,<=6] get-tuple-element(w), index=1""",
}
COUNTED = """test { p = (s32[], f32[2,<=6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  k = s32[] constant(5)
  ROOT go = pred[] compare(i, k), direction=LT }
body { p = (s32[], f32[2,<=6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[2,<=6] get-tuple-element(p), index=1
  y = f32[2,<=6] set-dimension-size(x, j), dimensions={1}
  ROOT t = (s32[], f32[2,<=6]) tuple(j, y) }
ENTRY"""


@pytest.mark.parametrize("passes", ["", "default"])
@pytest.mark.parametrize("between", BETWEEN)
def test_elements_that_come_back_are_zero(between: str, passes: str) -> None:
    text = GROWN.replace("LINE", BETWEEN[between])
    module = hlo.parse(text.replace("ENTRY", COUNTED) if between == "a loop" else text)
    exe = hlo.compile(module, cache=False, passes=passes)
    a = np.arange(1, 13, dtype=np.float32).reshape(2, 6)
    for n, m in [(3, 5), (3, 3), (5, 2), (0, 6), (6, 6), (3, 0)]:
        want = a[:, :m] * (2 if between == "a sum" else 1) * (np.arange(m) < n)
        args = a, np.int32(n), np.int32(m)
        np.testing.assert_array_equal(hlo.interpret(module, *args), want)
        np.testing.assert_array_equal(exe(*args), want)


@pytest.mark.parametrize("passes", ["", "default"])
@pytest.mark.parametrize(
    "line",
    [
        "ROOT r = f32[<=6] set-dimension-size(a, n), dimensions={0}",
        "b = f32[<=6] set-dimension-size(a, n), dimensions={0}\n"
        "  ROOT r = s32[] get-dimension-size(b), dimensions={0}",
        "ROOT r = f32[2,<=3] dynamic-reshape(a, n, n)",
        'ROOT r = f32[<=6] custom-call(a, n), custom_call_target="SliceToDynamic"',
    ],
)
def test_sizes_outside_their_bounds_are_one_error(line: str, passes: str) -> None:
    module = hlo.parse(
        "HloModule outside\nENTRY e { a = f32[6] parameter(0)\n  n = s32[] parameter(1)\n"
        f"  {line} }}"
    )
    exe, a = hlo.compile(module, cache=False, passes=passes), np.ones(6, np.float32)
    for n in (-1, 7, -(2**31)):
        for run in (hlo.interpret, exe):
            args = (module, a, np.int32(n)) if run is hlo.interpret else (a, np.int32(n))
            with pytest.raises(HloError, match=r"r: |b: ") as error:
                run(*args)
            assert error.value.code == "index-out-of-range"
    exe(a, np.int32(3))


@pytest.mark.parametrize("passes", ["", "default"])
@pytest.mark.parametrize(
    ("call", "sizes", "outside"),
    [
        ("f32[6] {}(a, n)", [6], [5, 7, 0, -1, -(2**31), 2**31 - 1]),
        ("f32[4] {}(a, n)", [4], [3, 5, 6]),
        ("f32[2,<=3] {}(b, m, n)", [0, 3], [-1, 4]),
        ("f32[2,3] {}(b, n, m)", [], [2, 3]),
    ],
)
def test_a_static_dimension_has_its_size(
    call: str, sizes: list[int], outside: list[int], passes: str
) -> None:
    """A `SliceToDynamic` may have a static result; both backends say so of any other size."""
    line = "ROOT r = " + call.format("custom-call") + ', custom_call_target="SliceToDynamic"'
    module = hlo.parse(
        "HloModule static\nENTRY e { a = f32[6] parameter(0)\n  n = s32[] parameter(1)\n"
        f"  b = f32[2,3] reshape(a)\n  m = s32[] constant(2)\n  {line} }}"
    )
    exe, a = hlo.compile(module, cache=False, passes=passes), np.arange(6, dtype=np.float32)
    for n in sizes:
        np.testing.assert_array_equal(exe(a, np.int32(n)), hlo.interpret(module, a, np.int32(n)))
    for n in outside:
        for run in (partial(hlo.interpret, module), exe):
            with pytest.raises(HloError, match="r: ") as error:
                run(a, np.int32(n))
            assert error.value.code == "index-out-of-range"


@pytest.mark.parametrize(
    "product",
    ["dot(a, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "convolution(a, k), dim_labels=bf_io->bf"],
)  # fmt: skip
def test_a_sparse_operand_of_dynamic_size_is_an_error(product: str) -> None:
    text = f"""HloModule m
ENTRY e {{ a = f32[1,4] parameter(0)  b = f32[<=1,1] parameter(1)  c = s32[1,1] parameter(2)
  k = (f32[<=1,1], s32[1,1]) tuple(b, c)
  ROOT r = f32[1,1] {product},
    sparsity_config={{rhs={{sparsity=1x4 dimension=0 stride=1}}}} }}"""
    with pytest.raises(HloError, match="sparse or scaled operands") as e:
        hlo.compile(parse(text), cache=False)
    assert e.value.code == "unsupported"


@pytest.mark.parametrize(
    ("et", "op"),
    [("f8e4m3fn", "maximum"), ("f8e4m3fn", "minimum"), ("f8e8m0fnu", "add"), ("f32", "multiply")],
)
def test_what_is_not_there_changes_no_reduction(et: str, op: str) -> None:
    # Not every type has infinities, or a zero, to stand for what is not there.
    text = f"""HloModule m
f {{ a = {et}[] parameter(0) b = {et}[] parameter(1) ROOT r = {et}[] {op}(a, b) }}
ENTRY e {{
  x = {et}[<=5] parameter(0)
  one = {et}[] constant(1)
  ROOT r = {et}[] reduce(x, one), dimensions={{0}}, to_apply=f
}}"""
    check(text, [np.array([2, 3]).astype(ELEMENT_TYPES[et].dtype)])
