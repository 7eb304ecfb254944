"""Reductions on GPUs: all types, dimensions and functions, and how many launches they take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import hlo
from hlo.codegen.targets.gpu.kernels.division import Way, divide
from hlo.compiler.gpu import emulated
from hlo.gpu.execute import LoadedProgram
from hlo.gpu.simt import SimtDevice
from hlo.testing.sampling import random_value
from tests.gpu.emulated import check_emulated, program

TYPES = (
    "pred s4 u4 s8 u8 s16 u16 s32 u32 s64 u64 f4e2m1fn f8e4m3fn f8e5m2 f8e4m3b11fnuz f8e4m3fnuz "
    "f8e5m2fnuz f8e3m4 bf16 f16 f32 f64 c64 c128"
).split()
# Dimensions, and those that are reduced.
SHAPES = {
    "one": ([1], [0]),
    "everything": ([7, 5, 3], [0, 1, 2]),
    "rows of a few": ([40, 3], [1]),
    "rows of lanes": ([9, 100], [1]),
    "rows of blocks": ([3, 3001], [1]),
    "split rows": ([5, 30, 4, 20], [1, 3]),
    "columns": ([100, 70], [0]),
    "columns between": ([4, 30, 6, 40], [1]),
    "narrow columns": ([700, 3], [0]),
    "narrow columns in lines": ([5, 300, 7], [1]),
    "a row in parts": ([40001], [0]),
    "rows in parts": ([3, 34, 1000], [1, 2]),
    "columns in parts": ([9001, 33], [0]),
    "no elements": ([0, 4], [0]),
    "no results": ([4, 0], [0]),
    "nothing reduced": ([3, 5], []),
}


def shape(t: str, dims: Sequence[int], layout: str = "") -> str:
    return f"{t}[{','.join(map(str, dims))}]{layout}"


def reduction(
    t: str, dims: Sequence[int], over: Sequence[int], op: str = "add", layout: str = "",
    prologue: str = "copy(x)",
) -> str:  # fmt: skip
    source = shape(t, dims, layout)
    result = shape(t, [n for d, n in enumerate(dims) if d not in over])
    return f"""HloModule m
f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}
ENTRY e {{ x = {source} parameter(0) z = {t}[] parameter(1) y = {source} {prologue}
  ROOT r = {result} reduce(y, z), dimensions={{{",".join(map(str, over))}}}, to_apply=f }}"""


def launches(text: str) -> list[tuple[int, int]]:
    """Return the blocks and threads of the kernels of a reduction."""
    found = program(text)[0].plan.launches
    return [(x.blocks, x.threads) for x in found if x.instruction]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    dims, over = SHAPES[name]
    check_emulated(reduction("f32", dims, over))
    check_emulated(reduction("s32", dims, over, "maximum", prologue="negate(x)"))


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", ["rows of lanes", "columns"])
def test_types(t: str, name: str) -> None:
    dims, over = SHAPES[name]
    check_emulated(reduction(t, dims, over, "or" if t == "pred" else "add"))


@pytest.mark.parametrize("op", ["multiply", "minimum", "maximum", "add"])
@pytest.mark.parametrize("t", ["f32", "f16"])
def test_special_values(op: str, t: str) -> None:
    check_emulated(reduction(t, [40, 6], [1], op), edges=True)
    check_emulated(reduction(t, [6, 40], [0], op), edges=True)


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}", "{0,2,1}"])
@pytest.mark.parametrize("over", [[0], [1], [2], [0, 2]])
def test_layouts(layout: str, over: list[int]) -> None:
    check_emulated(reduction("f32", [17, 20, 40], over, layout=layout))


def test_the_initial_value_is_used_once() -> None:
    for dims, over in SHAPES.values():
        x = np.ones(dims, np.int32)
        check_emulated(reduction("s32", dims, over), x, np.int32(100))


@pytest.mark.parametrize(
    ("dims", "over"),
    [([128, 1024], [1]), ([1024, 128], [0]), ([1 << 20], [0]), ([1 << 16, 32], [0]),
     ([32, 1 << 17], [1]), ([64, 56, 56, 32], [0, 1, 2]), ([1 << 14], [0]), ([4096, 4096], [0])],
)  # fmt: skip
def test_one_launch(dims: list[int], over: list[int]) -> None:
    [(blocks, threads)] = launches(reduction("f32", dims, over))
    if math.prod(dims) >= 1 << 20:
        assert blocks * threads >= 1 << 15


# Of blocks: the last of those with a result in common ends first, or in the middle.
ORDERS = {
    "backwards": lambda count: np.arange(count)[::-1],
    "any": lambda count: np.random.default_rng(count).permutation(count),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("dims", "over", "t", "op"),
    [([300000], [0], "f32", "add"), ([3, 34, 1000], [1, 2], "bf16", "add"),
     ([20001, 33], [0], "f32", "add"), ([40001, 5], [0], "c64", "multiply"),
     ([9, 40000], [1], "s4", "add"), ([200000], [0], "pred", "xor")],
)  # fmt: skip
def test_which_block_is_last_does_not_matter(
    dims: list[int], over: list[int], t: str, op: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = hlo.parse(reduction(t, dims, over, op))
    rng = np.random.default_rng(0)
    arguments = [random_value(rng, s) for s in module.entry.parameter_shapes]
    compiled = hlo.compile(module, backend="gpu-emulated")
    want = np.asarray(compiled(*arguments))
    monkeypatch.setattr(emulated().device.machine, "order", ORDERS[order])
    assert np.asarray(compiled(*arguments)).tobytes() == want.tobytes()
    check_emulated(reduction(t, dims, over, op))


def test_counters_are_cleared_after_a_run_that_failed() -> None:
    found, ptx = program(reduction("f32", [1 << 20], [0]))
    assert found.plan.counter_bytes == 4
    device = SimtDevice()
    loaded = LoadedProgram(device, found.plan, ptx)
    x = [np.ones(1 << 20, np.float32).view(np.uint8), np.zeros(4, np.uint8)]
    result = np.zeros(4, np.uint8)

    def run() -> np.float32:
        loaded.run(x, [result], lambda *_: [], lambda: None)
        return result.view(np.float32)[0]

    device.machine.limit = 250  # when half of the blocks have counted
    with pytest.raises(hlo.HloError, match="still runs"):
        run()
    device.machine.limit = 1 << 20
    assert run() == run() == 1 << 20


def test_rows_are_read_in_vectors_and_combined_by_lanes() -> None:
    code = program(reduction("f32", [128, 1024], [1]))[1]
    assert "ld.global.v4.b32" in code or "ld.global.v4.f32" in code
    assert "shfl.sync.bfly" in code
    assert ".local" not in code


@pytest.mark.parametrize(("dims", "over"), [([300000], 0), ([3, 20001], 1), ([20000, 5], 0)])
def test_long_sums_are_exact_to_two_units(dims: list[int], over: int) -> None:
    module = hlo.parse(reduction("f32", dims, [over]))
    x = np.random.default_rng(1).random(dims).astype(np.float32)
    got = hlo.compile(module, backend="gpu-emulated")(x, np.float32(0))
    want = x.sum(over, dtype=np.float64)
    assert np.max(np.abs(np.asarray(got) / want - 1)) < 2 * np.finfo(np.float32).eps


# --- other functions ----------------------------------------------------------------------------


def argmax(t: str, dims: Sequence[int], over: int, *, told: bool, iota: bool = True) -> str:
    """Return an argmax. told: of equal elements, positions tell which one it is."""
    positions = f"iota(), iota_dimension={over}" if iota else "parameter(1)"
    kept = [n for d, n in enumerate(dims) if d != over]
    take = "or(better, tie)" if told else "or(better, better)"
    return f"""HloModule m
f {{ a = {t}[] parameter(0) i = s32[] parameter(1) b = {t}[] parameter(2) j = s32[] parameter(3)
  better = pred[] compare(a, b), direction={"GT" if told else "GE"}
  equal = pred[] compare(a, b), direction=EQ first = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, first) take = pred[] {take}
  v = {t}[] select(take, a, b) k = s32[] select(take, i, j) ROOT t = ({t}[], s32[]) tuple(v, k) }}
ENTRY e {{ x = {shape(t, dims)} parameter(0) i = {shape("s32", dims)} {positions}
  low = {t}[] constant(-9) zero = s32[] constant(0)
  ROOT r = ({shape(t, kept)}, {shape("s32", kept)}) reduce(x, i, low, zero),
    dimensions={{{over}}}, to_apply=f }}"""


@pytest.mark.parametrize(
    ("dims", "over"),
    [([9, 50], 1), ([3, 127], 1), ([5, 1000], 1), ([50, 9], 0), ([20000], 0), ([3, 9000], 1),
     ([9000, 3], 0), ([70000], 0), ([6, 300, 40], 1)],
)  # fmt: skip
@pytest.mark.parametrize("told", [False, True])
def test_argmax(dims: list[int], over: int, told: bool) -> None:
    rng = np.random.default_rng(2)
    # Few different values: which of equal ones it is matters.
    x = rng.integers(-3, 3, dims).astype(np.float32)
    check_emulated(argmax("f32", dims, over, told=told), x)
    positions = rng.integers(0, 9, dims).astype(np.int32)
    check_emulated(argmax("f32", dims, over, told=told, iota=False), x, positions)


NOT_COMMUTATIVE = """HloModule m
f { a = s32[] parameter(0) b = s32[] parameter(1) k = s32[] constant(3)
  c = s32[] multiply(a, k) ROOT d = s32[] subtract(c, b) }
ENTRY e { x = s32[DIMS]{0,2,1} parameter(0) z = s32[] constant(1)
  ROOT r = s32[7] reduce(x, z), dimensions={0,2}, to_apply=f }"""


@pytest.mark.parametrize("dims", ["6,7,8", "60,7,33", "1,7,1"])
def test_a_function_that_is_not_commutative_goes_in_order(dims: str) -> None:
    check_emulated(NOT_COMMUTATIVE.replace("DIMS", dims))


def test_products_of_floats_are_in_order() -> None:
    # In another order it would overflow.
    x = np.array([[1e30, 1e-30] * 300, [1e-30, 1e30] * 300], np.float32)
    check_emulated(reduction("f32", [2, 600], [1], "multiply"), x, np.float32(1))


# --- several reductions -------------------------------------------------------------------------


def moments(t: str, dims: Sequence[int], over: Sequence[int]) -> str:
    """Return a sum, a sum of squares and a maximum."""
    x, r = shape(t, dims), shape(t, [n for d, n in enumerate(dims) if d not in over])
    along = ",".join(map(str, over))
    return f"""HloModule m
s {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] add(a, b) }}
m {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] maximum(a, b) }}
ENTRY e {{ x = {x} parameter(0) z = {t}[] constant(1)
  q = {x} multiply(x, x)
  sum = {r} reduce(x, z), dimensions={{{along}}}, to_apply=s
  squares = {r} reduce(q, z), dimensions={{{along}}}, to_apply=s
  most = {r} reduce(x, z), dimensions={{{along}}}, to_apply=m
  ROOT t = ({r}, {r}, {r}) tuple(sum, squares, most) }}"""


@pytest.mark.parametrize(
    ("dims", "over"),
    [([8, 14, 14, 32], [0, 1, 2]), ([100, 200], [1]), ([20000, 5], [0])],
)
@pytest.mark.parametrize("t", ["f32", "bf16", "s32"])
def test_reductions_of_the_same_array_are_one(t: str, dims: list[int], over: list[int]) -> None:
    text = moments(t, dims, over)
    check_emulated(text)
    assert len(launches(text)) == 1


def test_how_a_reduction_is_divided() -> None:
    rows = divide(Way.SPREAD, 1000, 1, 1024, 4)
    assert (rows.group, rows.parts, rows.blocks) == (128, 1, 1000)
    many = divide(Way.SPREAD, 1 << 16, 1, 1024, 4)
    assert (many.group, many.lines_at_once) == (32, 4)
    columns = divide(Way.SPREAD, 1, 4096, 4096)
    assert (columns.columns, columns.group, columns.parts) == (32, 16, 4)
    whole = divide(Way.WHOLE, 10, 1, 100)
    assert (whole.group, whole.parts) == (1, 1)


@pytest.mark.parametrize("over", [[0], [1], [2], [0, 2]])
def test_loops_follow_the_memory_that_is_read(over: list[int]) -> None:
    kept = ",".join(str(n) for d, n in enumerate([30, 40, 50]) if d not in over)
    text = f"""HloModule m
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[50,30,40] parameter(0) z = f32[] constant(1)
  n = f32[50,30,40] negate(x) t = f32[30,40,50] transpose(n), dimensions={{1,2,0}}
  ROOT r = f32[{kept}] reduce(t, z), dimensions={{{",".join(map(str, over))}}}, to_apply=f }}"""
    check_emulated(text)


ENDINGS = {
    "elementwise": "g = bf16[60] parameter(1) c = f32[60] convert(g) m = f32[60] multiply(r, c)"
    " ROOT o = bf16[60] convert(m)",
    "twice": "n = f32[60] negate(r) ROOT o = f32[60] multiply(n, r)",
    "other dimensions": "n = f32[60] negate(r) q = f32[1,4,15] reshape(n)"
    " ROOT o = f32[1,4,15] exponential(q)",
}


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("dims", [[60, 100], [60, 70000]])
def test_what_is_computed_of_results_is_part_of_the_launch(name: str, dims: list[int]) -> None:
    n, k = dims
    text = f"""HloModule m
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[{n},{k}] parameter(0) z = f32[] constant(1)
  r = f32[60] reduce(x, z), dimensions={{1}}, to_apply=f
  {ENDINGS[name]} }}"""
    count = 1 if name != "other dimensions" else 2
    assert len(launches(text)) == count
    if k < 60000:
        check_emulated(text)
