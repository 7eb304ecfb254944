"""sort and topk against XLA, and where it leaves the order open, against what sorting means."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same
from tests.harness.run_both import errors, run, run_both

SORTED = ["pred", "s4", "u4", "s8", "u16", "s32", "u64", "s64",
          "f8e4m3fn", "f8e5m2", "bf16", "f16", "f32", "f64"]  # fmt: skip


def values_of(t: str, seed: int, dims: tuple[int, ...]) -> np.ndarray:
    """Return random values, also special ones, in an order of which XLA:CPU has no other opinion.

    Where the processor converts bf16 itself, XLA's sort takes its denormals for zeros.
    """
    x = random_array(np.random.default_rng(seed), ELEMENT_TYPES[t], dims, edges=True)
    if t == "bf16":
        least = np.float32(np.finfo(np.float32).tiny)
        x[(x != 0) & (np.abs(x).astype(np.float32) < least)] = least
    return x


def comparator(t: str, direction: str, kind: str = "", more: str = "") -> str:
    return (
        f"fn {{ a = {t}[] parameter(0) b = {t}[] parameter(1) {more}\n"
        f"  ROOT c = pred[] compare(a, b), direction={direction}{kind} }}\n"
    )


def sort(function: str, shapes: list[str], dim: int, stable: bool = True) -> str:
    params = " ".join(f"x{i} = {s} parameter({i})" for i, s in enumerate(shapes))
    names = ", ".join(f"x{i}" for i in range(len(shapes)))
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    flag = ", is_stable=true" if stable else ""
    return (
        f"HloModule m\n{function}ENTRY e {{ {params}\n"
        f"  ROOT r = {result} sort({names}), dimensions={{{dim}}}{flag}, to_apply=fn }}"
    )


@pytest.mark.parametrize("t", SORTED)
def test_a_key_and_its_companion_agree_with_xla(t: str) -> None:
    et = ELEMENT_TYPES[t]
    x = values_of(t, 1, (5, 40))
    k = np.arange(200, dtype=np.int32).reshape(5, 40)
    kind = ", type=TOTALORDER" if et.is_float else ""
    for direction, dim in (("LT", 1), ("GT", 0)):
        fn = comparator(t, direction, kind, "i = s32[] parameter(2) j = s32[] parameter(3)")
        got = run_both(sort(fn, [f"{t}[5,40]", "s32[5,40]"], dim), [x, k])
        assert_same(got[0], x.reshape(-1)[got[1]], signed_zero=True)


def test_shapes_without_anything_to_sort() -> None:
    for dims in ((0,), (1,), (3, 0), (0, 3)):
        text = sort(comparator("f32", "LT"), [f"f32[{','.join(map(str, dims))}]"], 0)
        run_both(text, [np.zeros(dims, np.float32)])


FRONTEND = """fn {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  c = f32[] parameter(4)
  d = f32[] parameter(5)
  zero = f32[] constant(0)
  qnan = f32[] constant(nan)
  a0 = pred[] compare(a, zero), direction=EQ
  a1 = f32[] select(a0, zero, a)
  a2 = pred[] compare(a, a), direction=NE
  a3 = f32[] select(a2, qnan, a1)
  b0 = pred[] compare(b, zero), direction=EQ
  b1 = f32[] select(b0, zero, b)
  b2 = pred[] compare(b, b), direction=NE
  b3 = f32[] select(b2, qnan, b1)
  first = pred[] compare(a3, b3), direction=LT, type=TOTALORDER
  same = pred[] compare(a3, b3), direction=EQ, type=TOTALORDER
  second = pred[] compare(j, i), direction=LT
  tie = pred[] and(same, second)
  ROOT r = pred[] or(first, tie)
}
"""


def test_keys_of_frontends_agree_with_xla() -> None:
    """NaN and zeros made one of a kind, then a second key, descending."""
    rng = np.random.default_rng(2)
    x = random_array(rng, ELEMENT_TYPES["f32"], (6, 50), edges=True)
    x[np.abs(x) < np.finfo(np.float32).smallest_normal] = 0  # XLA:CPU takes these for zero
    i = rng.integers(0, 9, (6, 50)).astype(np.int32)
    payload = rng.standard_normal((6, 50)).astype(np.float32)
    text = sort(FRONTEND, ["f32[6,50]", "s32[6,50]", "f32[6,50]"], 1)
    run_both(text, [x, i, payload], signed_zero=True)


# By the distance from 10 with ties by the lower bits of the second: not one key a side.
STRANGE = """fn {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ten = s32[] constant(10)
  x = s32[] subtract(a, ten)
  y = s32[] subtract(b, ten)
  d = s32[] abs(x)
  e = s32[] abs(y)
  diff = s32[] subtract(d, e)
  zero = s32[] constant(0)
  less = pred[] compare(diff, zero), direction=LT
  ROOT r = pred[] copy(less)
}
"""


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 65, 100])
def test_any_comparator_sorts_stably(n: int) -> None:
    x = np.random.default_rng(n).integers(-10, 30, (4, n)).astype(np.int32)
    k = np.tile(np.arange(n, dtype=np.int32), (4, 1))
    got = run_both(sort(STRANGE, [f"s32[4,{n}]", f"s32[4,{n}]"], 1), [x, k])
    order = np.argsort(np.abs(x - 10), axis=1, kind="stable")
    assert_same(got, (np.take_along_axis(x, order, 1), order.astype(np.int32)))


@pytest.mark.parametrize("direction", ["LT", "GT", "LE", "GE", "EQ", "NE"])
def test_a_comparator_that_is_no_order_gives_a_permutation(direction: str) -> None:
    x = random_array(np.random.default_rng(3), ELEMENT_TYPES["f32"], (3, 101), edges=True)
    got = run(sort(comparator("f32", direction), ["f32[3,101]"], 1), [x])
    assert_same(np.sort(got, axis=1), np.sort(x, axis=1))


def test_floats_compared_by_value_keep_equal_zeros_in_place() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, -0.0, 0.0], np.float32)
    got = run_both(sort(comparator("f32", "LT"), ["f32[6]"], 0), [x], signed_zero=True)
    assert list(np.signbit(got)) == [True, False, True, True, False, False]


def test_an_expression_of_both_sides_is_no_key() -> None:
    # a < b + 0 * a: the right side depends on both.
    fn = (
        "fn { a = s32[] parameter(0) b = s32[] parameter(1) zero = s32[] constant(0)\n"
        "  z = s32[] multiply(a, zero) y = s32[] add(b, z)\n"
        "  ROOT c = pred[] compare(a, y), direction=LT }\n"
    )
    x = np.random.default_rng(4).integers(0, 99, 77).astype(np.int32)
    assert_same(run(sort(fn, ["s32[77]"], 0), [x]), np.sort(x))


def test_a_million_elements_take_seconds() -> None:
    x = np.random.default_rng(5).standard_normal((1000, 1000)).astype(np.float32)
    start = time.process_time()
    got = run(sort(comparator("f32", "GT"), ["f32[1000,1000]"], 0), [x])
    # Comparison by comparison this takes minutes.
    assert time.process_time() - start < 60
    assert_same(got, -np.sort(-x, axis=0))


def test_a_total_order_expanded_to_bits_is_an_order_of_keys() -> None:
    """What XLA makes of a comparison by total order: bits as integers, by bitcast."""
    sides = "".join(
        f"  i{p} = s32[] bitcast({p}) f{p} = s32[] xor(i{p}, top)\n"
        f"  n{p} = pred[] compare(i{p}, zero), direction=LT k{p} = s32[] select(n{p}, f{p}, i{p})\n"
        for p in "ab"
    )
    fn = (
        "fn { a = f32[] parameter(0) b = f32[] parameter(1)\n"
        "  zero = s32[] constant(0) top = s32[] constant(2147483647)\n"
        f"{sides}  ROOT c = pred[] compare(ka, kb), direction=LT }}\n"
    )
    # One run of the comparator an element would take minutes.
    x = np.random.default_rng(7).standard_normal(100_000).astype(np.float32)
    x[:3] = 0.0, -0.0, np.nan
    assert_same(run(sort(fn, ["f32[100000]"], 0), [x]), np.sort(x))


def test_without_stability_asked_for_it_is_stable_still() -> None:
    fn = comparator("s32", "LT", "", "i = s32[] parameter(2) j = s32[] parameter(3)")
    x = np.random.default_rng(6).integers(0, 3, 500).astype(np.int32)
    _, order = run(
        sort(fn, ["s32[500]", "s32[500]"], 0, stable=False), [x, np.arange(500, dtype="i4")]
    )
    assert_same(order, np.argsort(x, kind="stable").astype(np.int32))


# --- topk ---------------------------------------------------------------------------------------


def topk(t: str, dims: tuple[int, ...], k: int, largest: bool) -> str:
    out = ",".join(map(str, (*dims[:-1], k)))
    flag = "true" if largest else "false"
    return (
        f"HloModule m\nENTRY e {{ x = {t}[{','.join(map(str, dims))}] parameter(0)\n"
        f"  ROOT r = ({t}[{out}], s32[{out}]) topk(x), k={k}, largest={flag} }}"
    )


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("t", ["s32", "u8", "bf16", "f32"])
def test_topk_agrees_with_xla(t: str, largest: bool) -> None:
    x = values_of(t, 7, (3, 30))
    if ELEMENT_TYPES[t].is_float:
        x[0, 3], x[0, 4] = -np.float32(np.nan), np.float32(np.nan)
    for k in (0, 5, 30):
        values, indices = run_both(topk(t, (3, 30), k, largest), [x], signed_zero=True)
        assert_same(values, np.take_along_axis(x, indices.astype(int), 1))


def test_topk_in_one_dimension_and_in_four() -> None:
    rng = np.random.default_rng(8)
    for dims in ((9,), (2, 1, 3, 8)):
        run_both(topk("f32", dims, 4, True), [rng.integers(0, 4, dims).astype(np.float32)])


BAD = {
    "dimension out of range": ("f32[4] sort(x), dimensions={1}, to_apply=lt", "bad-dimension"),
    "two dimensions": ("f32[4] sort(x), dimensions={0,0}, to_apply=lt", "bad-dimension"),
    "scalar": ("f32[] sort(s), dimensions={0}, to_apply=lt", "bad-dimension"),
    "operands of different sizes": (
        "(f32[4], f32[5]) sort(x, y), dimensions={0}, to_apply=lt", "shape-mismatch",
    ),
    "comparator of too few": (
        "(f32[4], f32[4]) sort(x, x), dimensions={0}, to_apply=lt", "bad-computation",
    ),
    "comparator of another type": (
        "s32[4] sort(k), dimensions={0}, to_apply=lt", "bad-computation",
    ),
    "comparator that is none": ("f32[4] sort(x), dimensions={0}, to_apply=add", "bad-computation"),
    "k too large": ("(f32[5], s32[5]) topk(x), k=5, largest=true", "bad-value"),
    "k negative": ("(f32[4], s32[4]) topk(x), k=-1, largest=true", "bad-value"),
    "topk of a scalar": ("(f32[], s32[]) topk(s), k=0, largest=true", "shape-mismatch"),
    "topk of complex numbers": ("(c64[1], s32[1]) topk(c), k=1, largest=true", "type-mismatch"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_broken_rules_are_named(case: str) -> None:
    line, code = BAD[case]
    text = (
        f"HloModule m\n{comparator('f32', 'LT').replace('fn', 'lt')}"
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[4] parameter(0) y = f32[5] parameter(1) k = s32[4] parameter(2)\n"
        f"  s = f32[] parameter(3) c = c64[3] parameter(4)\n  ROOT r = {line} }}"
    )
    found = errors(text)
    assert [c for c, _ in found] == [code], found
