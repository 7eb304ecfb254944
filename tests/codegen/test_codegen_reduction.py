"""Compiled reductions, scans and batch normalization against the interpreter and XLA."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.frontends.text import parse
from hlo.ops import OPS
from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES, ArrayShape
from tests.harness.oracle import assert_same, xla_run
from tests.harness.run_compiled import check, compiled, compiled_for

RNG = np.random.default_rng(3)


def shape(t: str, dims: list[int], layout: str = "") -> str:
    return f"{t}[{','.join(map(str, dims))}]{layout}"


def reduction(
    op: str,
    t: str,
    dims: list[int],
    over: list[int],
    *,
    layout: str = "",
    result_layout: str = "",
    prologue: str = "copy(x)",
) -> str:
    source = shape(t, dims, layout)
    result = shape(t, [n for d, n in enumerate(dims) if d not in over], result_layout)
    return (
        f"HloModule m\n"
        f"f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n"
        f"ENTRY e {{ x = {source} parameter(0) z = {t}[] parameter(1)\n"
        f"  y = {source} {prologue}\n"
        f"  ROOT r = {result} reduce(y, z), dimensions={{{','.join(map(str, over))}}}, "
        f"to_apply=f }}"
    )


def run(text: str, **tolerance: float) -> None:
    args = []
    for p in parse(text).entry.parameters:
        assert isinstance(p.shape, ArrayShape)
        args.append(random_array(RNG, p.shape.element_type, p.shape.dims))
    check(text, args, **tolerance)


# Every way through the planner: dims, dimensions to reduce.
SHAPES = {
    "scalar": ([], []),
    "one": ([1], [0]),
    "nothing reduced": ([3, 5], []),
    "everything": ([7, 5, 3], [0, 1, 2]),
    "short rows": ([40, 3], [1]),
    "rows": ([9, 100], [1]),
    "rows of rows": ([6, 7, 40], [1, 2]),
    "split rows": ([5, 30, 4, 20], [1, 3]),
    "columns": ([100, 70], [0]),
    "columns of strips": ([33, 5000], [0]),
    "columns between": ([4, 30, 6, 40], [1]),
    "narrow columns": ([700, 3], [0]),
    "narrow columns in lines": ([5, 300, 7], [1]),
    "short columns": ([50, 4, 5], [1]),
    "long row": ([40000], [0]),
    "long rows in parts": ([3, 30, 1000], [1, 2]),
    "long columns in parts": ([9000, 33], [0]),
    "no elements": ([0, 4], [0]),
    "no results": ([4, 0], [0]),
    "size one": ([1, 6, 1, 20], [0, 3]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("op", "t"), [("add", "f32"), ("maximum", "s32"), ("multiply", "f64")])
def test_reduce_shapes(name: str, op: str, t: str) -> None:
    dims, over = SHAPES[name]
    run(reduction(op, t, dims, over), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", ["rows", "columns", "short rows", "narrow columns"])
@pytest.mark.parametrize(
    ("op", "t"),
    [
        ("add", "bf16"), ("add", "s8"), ("add", "u4"), ("multiply", "u16"), ("minimum", "f64"),
        ("maximum", "bf16"), ("and", "pred"), ("or", "u8"), ("xor", "s64"), ("minimum", "u32"),
        ("add", "c64"),
    ],
)  # fmt: skip
def test_reduce_types(name: str, op: str, t: str) -> None:
    dims, over = SHAPES[name]
    run(reduction(op, t, dims, over), rtol=1e-2 if t == "bf16" else 1e-5, atol=1e-2)


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}", "{0,2,1}"])
@pytest.mark.parametrize("result_layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("over", [0, 1, 2])
def test_reduce_layouts(layout: str, result_layout: str, over: int) -> None:
    text = reduction(
        "add", "f32", [17, 20, 40], [over], layout=layout, result_layout=result_layout,
        prologue="negate(x)",
    )  # fmt: skip
    run(text, rtol=1e-5, atol=1e-4)


def test_sum_of_narrow_floats_rounds_once() -> None:
    # Rounded at every step, this sum would stay at 256.
    text = reduction("add", "bf16", [1000], [0])
    one = np.ones(1000, ELEMENT_TYPES["bf16"].dtype)
    (total,) = check(text, [one, one[0] * 0])
    assert float(total) == 1000


def test_reduce_keeps_nan_and_signed_zero() -> None:
    x = np.array([[1, np.nan, 3], [-0.0, -0.0, -0.0], [np.inf, -np.inf, 1]], np.float32)
    check(reduction("add", "f32", [3, 3], [1]), [x, np.float32(-0.0)], signed_zero=True)
    check(reduction("maximum", "f32", [3, 3], [1]), [x, np.float32(-np.inf)], signed_zero=True)
    check(reduction("minimum", "f32", [3, 3], [0]), [x, np.float32(np.inf)], signed_zero=True)


ARGMAX = """HloModule m
f { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  ge = pred[] compare(a, b), direction=GE
  v = f32[] select(ge, a, b) k = s32[] select(ge, i, j) ROOT t = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[DIMS] parameter(0) i = s32[DIMS] iota(), iota_dimension=OVER
  low = f32[] constant(-inf) zero = s32[] constant(0)
  ROOT r = (f32[KEPT], s32[KEPT]) reduce(x, i, low, zero), dimensions={OVER}, to_apply=f }"""


@pytest.mark.parametrize(
    ("dims", "over"), [([9, 50], 1), ([50, 9], 0), ([20000], 0), ([3, 9000], 1), ([9000, 3], 0)]
)
def test_reduce_of_pairs(dims: list[int], over: int) -> None:
    kept = ",".join(str(n) for d, n in enumerate(dims) if d != over)
    text = ARGMAX.replace("DIMS", ",".join(map(str, dims)))
    text = text.replace("OVER", str(over)).replace("KEPT", kept)
    # Few different values: the first of equal ones has to win.
    x = RNG.integers(0, 40, dims).astype(np.float32)
    assert_same(check(text, [x]), xla_run(text, [x]))


# How argmax and argmin spell which element is taken: the first or the last of equal ones.
PICKS = {
    "first of the largest": "GT",
    "last of the largest": "GE",
    "first of the smallest": "LT",
}
# Which of equal elements it is, positions tell: the first argument's compared with the second's, or
# not the second's with the first's.
TOLD = {"first": ("LT", "LE"), "last": ("GT", "GE")}


@pytest.mark.parametrize("pick", PICKS)
@pytest.mark.parametrize("types", [("f32", "s32"), ("bf16", "s64"), ("f64", "u16"), ("s8", "s32")])
@pytest.mark.parametrize("dims", [[3, 127], [3, 128], [5, 1000], [2, 331], [40_970]])
def test_argmax_of_equal_elements_and_nan(
    pick: str, types: tuple[str, str], dims: list[int]
) -> None:
    t, index = types
    last, kept = len(dims) - 1, shape("", dims[:-1])
    text = f"""HloModule m
      f {{ a = {t}[] parameter(0) i = {index}[] parameter(1)
        b = {t}[] parameter(2) j = {index}[] parameter(3)
        better = pred[] compare(a, b), direction={PICKS[pick]}
        unordered = pred[] compare(a, a), direction=NE
        take = pred[] or(better, unordered)
        v = {t}[] select(take, a, b)
        k = {index}[] select(take, i, j)
        ROOT r = ({t}[], {index}[]) tuple(v, k) }}
      ENTRY e {{ x = {shape(t, dims)} parameter(0)
        n = {shape(index, dims)} iota(), iota_dimension={last}
        v = {t}[] parameter(1) z = {index}[] constant(0)
        ROOT r = ({t}{kept}, {index}{kept}) reduce(x, n, v, z),
          dimensions={{{last}}}, to_apply=f }}"""
    et = ELEMENT_TYPES[t]
    few, start = RNG.integers(-3, 3, dims), np.asarray(-2, et.dtype)
    unordered = [[], [-5, -4], np.flatnonzero(few < 2)] if et.is_float else [[]]
    for places in unordered:
        x = few.astype(et.dtype)
        x.reshape(-1)[places] = np.nan if et.is_float else 0
        check(text, [x, start])


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("dims", [[3, 127], [3, 128], [3, 129], [2, 700], [66_000]])
def test_argmax_of_elements_that_positions_tell(told: str, dims: list[int]) -> None:
    one, other = TOLD[told]
    last, kept = len(dims) - 1, shape("", dims[:-1])
    x = RNG.integers(-3, 3, dims).astype(np.float32)
    for test in (f"compare(i, j), direction={one}", "not(swapped)"):
        text = f"""HloModule m
          f {{ a = f32[] parameter(0) i = s32[] parameter(1)
            b = f32[] parameter(2) j = s32[] parameter(3)
            better = pred[] compare(a, b), direction=GT
            equal = pred[] compare(a, b), direction=EQ
            swapped = pred[] compare(j, i), direction={other}
            told = pred[] {test}
            tie = pred[] and(equal, told)
            take = pred[] or(better, tie)
            v = f32[] select(better, a, b)
            k = s32[] select(take, i, j)
            ROOT r = (f32[], s32[]) tuple(v, k) }}
          ENTRY e {{ x = {shape("f32", dims)} parameter(0)
            n = {shape("s32", dims)} iota(), iota_dimension={last}
            v = f32[] constant(-inf) z = s32[] constant(0)
            ROOT r = (f32{kept}, s32{kept}) reduce(x, n, v, z),
              dimensions={{{last}}}, to_apply=f }}"""
        assert_same(check(text, [x]), xla_run(text, [x]))


@pytest.mark.parametrize("dims", [[3, 127], [3, 128], [3, 129], [5, 256], [2, 700], [66_001]])
def test_argmax_of_long_elements(dims: list[int]) -> None:
    """What takes many operations is computed in one place, and compared afterwards."""
    last, kept, s = len(dims) - 1, shape("", dims[:-1]), shape("s32", dims)
    steps = "\n".join(
        f"x{n + 1} = {s} {('xor', 'multiply', 'add')[n % 3]}(x{n}, x0)" for n in range(9)
    )
    text = f"""HloModule m
      f {{ a = s32[] parameter(0) i = s32[] parameter(1) b = s32[] parameter(2)
        j = s32[] parameter(3) better = pred[] compare(a, b), direction=GT
        equal = pred[] compare(a, b), direction=EQ first = pred[] compare(i, j), direction=LT
        tie = pred[] and(equal, first) take = pred[] or(better, tie)
        v = s32[] select(better, a, b) k = s32[] select(take, i, j)
        ROOT r = (s32[], s32[]) tuple(v, k) }}
      ENTRY e {{ x0 = {s} parameter(0)
        {steps}
        n = {s} iota(), iota_dimension={last} v = s32[] constant(-2147483648)
        z = s32[] constant(0)
        ROOT r = (s32{kept}, s32{kept}) reduce(x9, n, v, z), dimensions={{{last}}}, to_apply=f }}"""
    check(text, [RNG.integers(-9, 9, dims).astype(np.int32)])


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 9, 127, 1024, 1031, 4096, 4099])
@pytest.mark.parametrize("width", [3, 17, 64, 100, 2500])
def test_columns_of_any_number_of_rows(rows: int, width: int) -> None:
    """Parts of equal length have no rows left over, nor have passes over several rows."""
    text = f"""HloModule m
      f {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }}
      ENTRY e {{ x = s32[{rows},{width}] parameter(0) s = s32[] constant(5)
        ROOT r = s32[{width}] reduce(x, s), dimensions={{0}}, to_apply=f }}"""
    check(text, [RNG.integers(-99, 99, (rows, width)).astype(np.int32)])


def test_a_function_that_is_not_commutative_goes_in_order() -> None:
    text = """HloModule m
f { a = s32[] parameter(0) b = s32[] parameter(1) k = s32[] constant(3)
  c = s32[] multiply(a, k) ROOT d = s32[] subtract(c, b) }
ENTRY e { x = s32[6,7,8]{0,2,1} parameter(0) z = s32[] constant(1)
  ROOT r = s32[7] reduce(x, z), dimensions={0,2}, to_apply=f }"""
    check(text, [random_array(RNG, ELEMENT_TYPES["s32"], (6, 7, 8))])


def test_functions_with_loops_branches_and_calls() -> None:
    text = """HloModule m
halve { p = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0 v = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1) m = s32[] subtract(n, one) w = s32[] add(v, v)
  ROOT t = (s32[], s32[]) tuple(m, w) }
more { p = (s32[], s32[]) parameter(0) n = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0) ROOT c = pred[] compare(n, zero), direction=GT }
minus { a = s32[] parameter(0) ROOT n = s32[] negate(a) }
thrice { a = s32[] parameter(0) k = s32[] constant(3) ROOT n = s32[] multiply(a, k) }
sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
f { a = s32[] parameter(0) b = s32[] parameter(1)
  five = s32[] constant(5) n = s32[] and(b, five) start = (s32[], s32[]) tuple(n, a)
  loop = (s32[], s32[]) while(start), condition=more, body=halve
  v = s32[] get-tuple-element(loop), index=1
  big = pred[] compare(v, b), direction=GT
  p = s32[] conditional(big, v, b), true_computation=minus, false_computation=thrice
  q = s32[] map(p, b), to_apply=sum
  r = s32[] conditional(n, q, b, q), branch_computations={minus,thrice,minus}
  ROOT s = s32[] call(r, five), to_apply=sum }
ENTRY e { x = s32[7,40] parameter(0) z = s32[] constant(3)
  ROOT r = s32[7] reduce(x, z), dimensions={1}, to_apply=f }"""
    check(text, [RNG.integers(-9, 9, (7, 40)).astype(np.int32)])


@pytest.mark.parametrize(
    ("dims", "over"), [([300000], [0]), ([5000, 40], [0]), ([700, 600], [1]), ([90000, 3], [0])]
)
def test_threads_do_not_change_a_sum(dims: list[int], over: list[int]) -> None:
    text = reduction("add", "f32", dims, over)
    x = random_array(RNG, ELEMENT_TYPES["f32"], tuple(dims))
    one, two = (compiled_for(text, threads)(x, np.float32(0)) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize(("dims", "over"), [([300000], 0), ([20, 20001], 1), ([20000, 20], 0)])
def test_long_sums_are_exact_to_two_units(dims: list[int], over: int) -> None:
    """Added one by one, they are off by ten or more."""
    text = reduction("add", "f32", dims, [over])
    x = RNG.random(dims).astype(np.float32)
    want = x.sum(over, dtype=np.float64)
    got = compiled(text)(x, np.float32(0))
    assert np.max(np.abs(got / want - 1)) < 2 * np.finfo(np.float32).eps


@pytest.mark.parametrize("op", ["scan", "batch-norm-training", "batch-norm-inference",
                                "batch-norm-grad"])  # fmt: skip
def test_expansions(op: str) -> None:
    for example in OPS[op].examples:
        args = []
        for p in parse(example).entry.parameters:
            assert isinstance(p.shape, ArrayShape)
            args.append(np.abs(random_array(RNG, p.shape.element_type, p.shape.dims)))
        check(example, args, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("t", ["bf16", "f64"])
def test_batch_norm_types(t: str) -> None:
    text = f"({t}[8,5,3], {t}[5], {t}[5]) batch-norm-training({t}[8,5,3] x, {t}[5] s, {t}[5] o)"
    text += ", epsilon=0.001, feature_index=1"
    args = [random_array(RNG, ELEMENT_TYPES[t], d) for d in ((8, 5, 3), (5,), (5,))]
    check(text, args, rtol=1e-2 if t == "bf16" else 1e-12, atol=1e-2 if t == "bf16" else 1e-12)


def test_scan_of_one_value_backwards_with_a_layout() -> None:
    text = """HloModule m
f { x = f32[3]{0} parameter(0) c = f32[3]{0} parameter(1)
  s = f32[3]{0} subtract(c, x) ROOT t = (f32[3]{0}, f32[3]{0}) tuple(s, s) }
ENTRY e { x = f32[3,6]{0,1} parameter(0) c = f32[3] parameter(1)
  ROOT r = (f32[3,6]{0,1}, f32[3]) scan(x, c), dimensions={1}, num_carries=1, is_reverse=true,
    is_associative=false, to_apply=f }"""
    run(text)
