"""Sorts and selections on GPUs: tiles in shared memory, merges, radix sorts."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.codegen.targets.gpu.kernels.sort import sort
from tests.gpu.emulated import check_emulated, program

# Rows of one record, of parts of tiles, of a tile, of a tile and one, of some.
LENGTHS = (1, 2, 7, 8, 9, 100, 513, 2048, 2049, 5000)
TYPES = (
    "pred s4 u4 s8 u8 s16 u16 s32 u32 s64 u64 f8e4m3fn f8e5m2fnuz f8e8m0fnu bf16 f16 f32 f64"
).split()
# Comparators of two operands that are no order of keys, but for the first.
BY_KEY = "ROOT r = pred[] compare(a, b), direction=LT"
BY_SQUARE = """x = s32[] multiply(a, a) y = s32[] multiply(b, b)
  z = s32[] subtract(x, y) w = s32[] constant(0) ROOT r = pred[] compare(z, w), direction=LT"""
NO_ORDER = """x = s32[] remainder(a, b) y = s32[] constant(1)
  ROOT r = pred[] compare(x, y), direction=NE"""


def of_one(shape: str, dim: int, how: str = "LT") -> str:
    et = shape.split("[", maxsplit=1)[0]
    return f"""
HloModule m
less {{ a = {et}[] parameter(0) b = {et}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction={how} }}
ENTRY e {{ x = {shape} parameter(0)
  ROOT s = {shape} sort(x), dimensions={{{dim}}}, to_apply=less }}"""


def of_two(shape: str, values: str, body: str) -> str:
    """Return a sort of s32 with other values; the comparator sees the s32."""
    return f"""
HloModule m
less {{ a = s32[] parameter(0) b = s32[] parameter(1)
  p = {values}[] parameter(2) q = {values}[] parameter(3) {body} }}
ENTRY e {{ x = s32[{shape}] parameter(0) v = {values}[{shape}] parameter(1)
  ROOT s = (s32[{shape}], {values}[{shape}]) sort(x, v), dimensions={{1}}, to_apply=less }}"""


@pytest.mark.parametrize("n", LENGTHS)
def test_rows(n: int) -> None:
    rows = 3 if n < 1000 else 1
    check_emulated(of_one(f"f32[{rows},{n}]", 1))
    check_emulated(of_one(f"f32[{n},{rows}]", 0, "GT"))


@pytest.mark.parametrize("et", TYPES)
def test_every_type_in_total_order(et: str) -> None:
    total = ", type=TOTALORDER" if et.startswith(("f", "b")) else ""
    check_emulated(of_one(f"{et}[2,77]", 1, "LT" + total), edges=True)
    check_emulated(of_one(f"{et}[77,2]", 0, "GT" + total), edges=True)


@pytest.mark.parametrize("values", ["f64", "s8", "c64"])
@pytest.mark.parametrize("n", [5, 300, 3000])
def test_equal_keys_stay_in_order(n: int, values: str) -> None:
    keys = np.random.default_rng(n).integers(-5, 5, (1, n), dtype=np.int32)
    other = np.arange(n).reshape(1, n).astype({"f64": "f8", "s8": "i1", "c64": "c8"}[values])
    check_emulated(of_two(f"1,{n}", values, BY_KEY), keys, other)
    check_emulated(of_two(f"1,{n}", values, BY_SQUARE), keys, other)


@pytest.mark.parametrize("n", [60, 5000])
def test_a_comparator_that_is_no_order_gives_a_permutation(n: int) -> None:
    import hlo

    text = of_two(f"1,{n}", "s32", NO_ORDER)
    keys = np.random.default_rng(1).integers(1, 50, (1, n), dtype=np.int32)
    numbers = np.arange(n, dtype=np.int32).reshape(1, n)
    found, order = hlo.compile(hlo.parse(text), backend="gpu-emulated")(keys, numbers)
    assert sorted(np.asarray(order)[0]) == list(range(n))
    assert (keys[0][np.asarray(order)[0]] == np.asarray(found)[0]).all()


@pytest.mark.parametrize("et", ["u8", "s16", "f32", "s64"])
def test_long_rows_are_sorted_by_digits(et: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "RADIX_FROM", 1)
    check_emulated(of_one(f"{et}[2,2500]", 1))
    check_emulated(of_one(f"{et}[6001,1]", 0, "GT"))
    keys = np.random.default_rng(2).integers(-9, 9, (1, 4100), dtype=np.int32)
    check_emulated(of_two("1,4100", "f64", BY_KEY), keys, np.arange(4100.0).reshape(1, 4100))


def test_launches() -> None:
    """Short rows take one; a merge takes one, a digit three, and all of a kind are one kernel."""
    short, _ = program(of_one("f32[100,700]", 1))
    assert len(short.plan.launches) == 1
    merged, _ = program(of_one("f32[60000]", 0))
    assert len(merged.plan.launches) == 6
    assert len({launch.kernel for launch in merged.plan.launches}) == 4
    by_digits, text = program(of_one("f32[1000000]", 0))
    assert len(by_digits.plan.launches) == 12
    assert "match.any.sync.b32" in text and "atom.shared" in text.replace(".relaxed.cta", "")


def test_many_numbers() -> None:
    check_emulated(of_one("s32[140000]", 0))


@pytest.mark.parametrize("et", ["f32", "f64", "s8", "bf16"])
@pytest.mark.parametrize(
    ("rows", "n", "k"), [(1, 1, 1), (3, 7, 7), (2, 100, 5), (1, 2049, 10), (1, 30000, 32)]
)
def test_selection(et: str, rows: int, n: int, k: int) -> None:
    for largest in ("true", "false"):
        check_emulated(f"""
HloModule m
ENTRY e {{ x = {et}[{rows},{n}] parameter(0)
  ROOT t = ({et}[{rows},{k}], s32[{rows},{k}]) topk(x), k={k}, largest={largest} }}""")


@pytest.mark.parametrize("k", [500, 515])
def test_selection_of_many(k: int) -> None:
    """A few hundred go through several steps; more than a quarter of a tile are sorted whole."""
    check_emulated(f"""
HloModule m
ENTRY e {{ x = f32[1,33000] parameter(0)
  ROOT t = (f32[1,{k}], s32[1,{k}]) topk(x), k={k}, largest=true }}""")
