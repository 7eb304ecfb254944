"""reduce-window and select-and-scatter against XLA and against a walk over every window."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo.ops.attrs import WINDOW
from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same
from tests.harness.run_both import errors, run, run_both


def binary(op: str, t: str, name: str = "fn") -> str:
    return f"{name} {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n"


# Affine functions x -> a*x + b modulo 2^32 under composition: associative, not commutative, so that
# the order shows. A pair (a, b) is one number of 64 bits.
COMPOSE = """
fn {
  f = u64[] parameter(0)
  g = u64[] parameter(1)
  half = u64[] constant(32)
  low = u64[] constant(4294967295)
  fa = u64[] shift-right-logical(f, half)
  fb = u64[] and(f, low)
  ga = u64[] shift-right-logical(g, half)
  gb = u64[] and(g, low)
  a = u64[] multiply(fa, ga)
  x = u64[] multiply(fb, ga)
  y = u64[] add(x, gb)
  b = u64[] and(y, low)
  top = u64[] shift-left(a, half)
  ROOT r = u64[] or(top, b)
}
"""
IDENTITY = np.uint64(1 << 32)


def compose(f: int, g: int) -> int:
    low = (1 << 32) - 1
    a = (f >> 32) * (g >> 32) & low
    return a << 32 | ((f & low) * (g >> 32) + (g & low)) & low


WINDOWS = {
    # dims of the operand, window
    "pool": ("9,8", "size=3x2 stride=2x2"),
    "pad": ("9,8", "size=3x3 stride=2x1 pad=1_1x2_0"),
    "negative pad": ("9,8", "size=2x2 pad=-2_-1x1_-3"),
    "base dilation": ("4,3", "size=3x4 stride=2x3 pad=2_1x0_5 lhs_dilate=3x2"),
    "window dilation": ("9,8", "size=3x2 pad=4_1x0_1 rhs_dilate=2x5"),
    "all": ("5,7", "size=4x3 stride=3x2 pad=5_-1x-1_6 lhs_dilate=4x2 rhs_dilate=2x3"),
    "only padding": ("2,2", "size=1x1 stride=1x1 pad=3_3x0_1"),
    "no windows": ("2,2", "size=5x1"),
    "no elements": ("0,3", "size=1x2 pad=2_1x0_0"),
    "running": ("3,70", "size=1x70 pad=0_0x69_0"),
    "running back": ("3,70", "size=1x70 pad=0_0x0_69"),
    "running both": ("12,11", "size=12x11 pad=11_0x10_0"),
    "long and strided": ("130,2", "size=100x1 stride=3x1 pad=60_10x0_0 rhs_dilate=2x1"),
    "long and dilated": ("60,2", "size=150x2 stride=5x1 pad=70_40x0_0 lhs_dilate=2x1"),
    "rank 0": ("", ""),
    "rank 5": ("2,3,2,3,2", "size=2x1x2x2x1 stride=1x2x1x1x1 pad=1_0x0_0x0_1x0_0x0_0"),
}


def dims_of(text: str) -> tuple[int, ...]:
    return tuple(int(d) for d in text.split(",") if d)


def window_of(text: str) -> Any:
    return WINDOW.parse("{" + text + "}")


def output_of(dims: str, window: str) -> str:
    sizes = (d.output_size(n) for n, d in zip(dims_of(dims), window_of(window), strict=True))
    return ",".join(map(str, sizes))


def windows(dims: tuple[int, ...], window: Any) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """Yield the place of every window, and the places of its elements in order."""
    out = [d.output_size(n) for n, d in zip(dims, window, strict=True)]
    for place in np.ndindex(*out):
        found = []
        for offset in np.ndindex(*(d.size for d in window)):
            at = [
                o * d.stride + w * d.rhs_dilate - d.pad_low
                for o, w, d in zip(place, offset, window, strict=True)
            ]
            if all(
                p % d.lhs_dilate == 0 and 0 <= p // d.lhs_dilate < n
                for p, d, n in zip(at, window, dims, strict=True)
            ):
                found.append(tuple(p // d.lhs_dilate for p, d in zip(at, window, strict=True)))
        yield place, found


def reduce_window(t: str, function: str, init: str, dims: str, window: str) -> str:
    attr = f", window={{{window}}}" if window else ""
    return (
        f"HloModule m\n{function}ENTRY e {{ x = {t}[{dims}] parameter(0) "
        f"i = {t}[] constant({init})\n"
        f"  ROOT r = {t}[{output_of(dims, window)}] reduce-window(x, i){attr}, to_apply=fn }}"
    )


@pytest.mark.parametrize("case", WINDOWS)
def test_every_window_is_reduced_in_order(case: str) -> None:
    dims, window = WINDOWS[case]
    rng = np.random.default_rng(len(case))
    x = rng.integers(0, 1 << 63, dims_of(dims), np.uint64)
    got = run(reduce_window("u64", COMPOSE, str(IDENTITY), dims, window), [x])
    seen = 0
    for place, elements in windows(dims_of(dims), window_of(window)):
        want = int(IDENTITY)
        for at in elements:
            want = compose(want, int(x[at]))
        assert got[place] == want, place
        seen += 1
    assert seen == got.size


@pytest.mark.parametrize("case", WINDOWS)
def test_sums_and_maxima_agree_with_xla(case: str) -> None:
    dims, window = WINDOWS[case]
    rng = np.random.default_rng(len(case))
    whole = rng.integers(-9, 9, dims_of(dims))
    for t, op, init in (("s32", "add", "0"), ("f32", "add", "0"), ("bf16", "maximum", "-1")):
        x = np.asarray(whole).astype(ELEMENT_TYPES[t].dtype)
        run_both(reduce_window(t, binary(op, t), init, dims, window), [x], what=f"{op} {t}")


def test_the_initial_value_takes_part_once_and_padding_does_not() -> None:
    """The specification asks for an identity, so that padding with it changes nothing."""
    window = "size=3x2 stride=2x1 pad=2_1x1_0 lhs_dilate=2x1"
    text = reduce_window("s32", binary("add", "s32"), "1000", "3,4", window)
    (low, *_), *_ = run_both(text, [np.arange(12, dtype=np.int32).reshape(3, 4)])
    assert low == 1000


def test_nan_reaches_the_windows_that_hold_it() -> None:
    x = random_array(np.random.default_rng(1), ELEMENT_TYPES["f32"], (6, 7), edges=True)
    for op, init in (("maximum", "-inf"), ("minimum", "inf")):
        run_both(reduce_window("f32", binary(op, "f32"), init, "6,7", "size=2x3 pad=1_0x1_1"), [x])


def test_several_arrays_share_a_window() -> None:
    pick = (
        "fn { a = f32[] parameter(0) i = s32[] parameter(1)"
        " b = f32[] parameter(2) j = s32[] parameter(3)\n"
        "  ge = pred[] compare(a, b), direction=GE v = f32[] select(ge, a, b)"
        " k = s32[] select(ge, i, j) ROOT t = (f32[], s32[]) tuple(v, k) }\n"
    )
    x = np.random.default_rng(2).integers(0, 5, (8, 9)).astype(np.float32)
    k = np.arange(72, dtype=np.int32).reshape(8, 9)
    for window in ("size=3x3 stride=2x2 pad=1_1x1_1", "size=8x9 pad=7_0x8_0"):
        out = output_of("8,9", window)
        text = (
            f"HloModule m\n{pick}ENTRY e {{ x = f32[8,9] parameter(0) k = s32[8,9] parameter(1)\n"
            "  a = f32[] constant(-inf) b = s32[] constant(-1)\n"
            f"  ROOT r = (f32[{out}], s32[{out}]) reduce-window(x, k, a, b), window={{{window}}}, "
            "to_apply=fn }"
        )
        run_both(text, [x, k])


def test_running_sums_of_long_rows_are_quick() -> None:
    x = np.random.default_rng(3).standard_normal((64, 16384)).astype(np.float32)
    text = reduce_window(
        "f32", binary("add", "f32"), "0", "64,16384", "size=1x16384 pad=0_0x16383_0"
    )
    start = time.process_time()
    got = run(text, [x])
    # Window by window this takes minutes.
    assert time.process_time() - start < 60
    assert_same(got, np.cumsum(x, axis=1, dtype=np.float64).astype(np.float32), atol=1e-5)


def test_a_window_may_be_far_larger_than_its_operand() -> None:
    size, stride = 10**12, 10**11
    window = f"size={size} stride={stride} pad={size}_{size}"
    text = reduce_window("s32", binary("add", "s32"), "0", "3", window)
    got = run(text, [np.array([1, 10, 100], np.int32)])
    # The first window ends before the elements, the last one begins with them.
    assert_same(got, np.array([0] + [111] * 10, np.int32))


# --- select-and-scatter -------------------------------------------------------------------------

GE = (
    "ge { a = t[] parameter(0) b = t[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }\n"
)
GT = GE.replace("direction=GE", "direction=GT")


def select_and_scatter(
    t: str, dims: str, window: str, init: str, select: str = GE, scatter: str = ""
) -> str:
    attr = f", window={{{window}}}" if window else ""
    return (
        f"HloModule m\n{select.replace('t[]', f'{t}[]')}{scatter or binary('add', t)}"
        f"ENTRY e {{ x = {t}[{dims}] parameter(0) "
        f"y = {t}[{output_of(dims, window)}] parameter(1) i = {t}[] constant({init})\n"
        f"  ROOT r = {t}[{dims}] select-and-scatter(x, y, i){attr}, select=ge, scatter=fn }}"
    )


# XLA aborts on rank 0.
PLAIN = ["pool", "pad", "running", "rank 5"]


@pytest.mark.parametrize("select", [GE, GT], ids=["ge", "gt"])
@pytest.mark.parametrize("case", PLAIN)
def test_selected_places_agree_with_xla(case: str, select: str) -> None:
    dims, window = WINDOWS[case]
    out = dims_of(output_of(dims, window))
    rng = np.random.default_rng(len(case))
    for t in ("f32", "s32"):
        dtype = ELEMENT_TYPES[t].dtype
        # Few values: ties in every window. XLA breaks ties in no particular order in rank 5.
        x = rng.integers(-2, 3, dims_of(dims)) if case != "rank 5" else rng.permutation(72)
        x = x.reshape(dims_of(dims)).astype(dtype)
        y = rng.integers(-2, 3, out).astype(dtype)
        run_both(select_and_scatter(t, dims, window, "2", select), [x, y], what=t)


def test_nan_is_selected_as_the_comparison_says() -> None:
    x = random_array(np.random.default_rng(4), ELEMENT_TYPES["f32"], (7, 9), edges=True)
    y = np.random.default_rng(5).integers(1, 9, (4, 4)).astype(np.float32)
    window = "size=3x3 stride=2x2 pad=1_1x0_0"
    for select in (GE, GT):
        run_both(select_and_scatter("f32", "7,9", window, "0", select), [x, y])


@pytest.mark.parametrize(
    "case", ["base dilation", "window dilation", "all", "negative pad", "rank 5", "rank 0"]
)
def test_updates_of_one_place_come_in_order(case: str) -> None:
    """XLA:CPU has no dilation here. The function shows the order in which it is applied."""
    dims, window = WINDOWS[case]
    scatter = (
        "fn { a = s64[] parameter(0) b = s64[] parameter(1) ten = s64[] constant(7) "
        "c = s64[] multiply(a, ten) ROOT d = s64[] add(c, b) }\n"
    )
    rng = np.random.default_rng(6)
    x = rng.integers(0, 3, dims_of(dims))
    y = rng.integers(1, 9, dims_of(output_of(dims, window)))
    got = run(select_and_scatter("s64", dims, window, "1", GE, scatter), [x, y])
    want = np.ones(x.shape, np.int64)
    for place, elements in windows(x.shape, window_of(window)):
        if elements:
            best = elements[0]
            for at in elements[1:]:
                best = best if x[best] >= x[at] else at
            want[best] = want[best] * 7 + y[place]
    assert_same(got, want)


def test_scattered_float_sums_round_once() -> None:
    bf16 = ml_dtypes.bfloat16
    text = select_and_scatter("bf16", "1,300", "size=1x300 pad=0_0x299_299", "1")
    x = np.zeros((1, 300), bf16)
    x[0, 100] = 1
    got = run(text, [x, np.full((1, 599), 2.0**-9, bf16)])
    # 300 windows hold element 100; one by one, 1 + 2^-9 is 1 in bf16 for ever.
    assert got[0, 100] == np.asarray(1 + 300 * 2.0**-9).astype(bf16)


OK = "window={size=2x2}, to_apply=fn"
BAD = {
    "window of another rank": (
        "reduce-window(x, i), window={size=2}, to_apply=fn", "bad-dimension",
    ),
    "no window": ("reduce-window(x, i), to_apply=fn", "bad-dimension"),
    "size zero": ("reduce-window(x, i), window={size=2x0}, to_apply=fn", "bad-value"),
    "stride zero": ("reduce-window(x, i), window={size=2x2 stride=0x1}, to_apply=fn", "bad-value"),
    "dilation zero": (
        "reduce-window(x, i), window={size=2x2 lhs_dilate=1x0}, to_apply=fn", "bad-value",
    ),
    "padding beyond all numbers": (
        "reduce-window(x, i), window={size=2x2 pad=0_0x0_9000000000000000000}, to_apply=fn",
        "bad-value",
    ),
    "more memory than there is": (
        "reduce-window(x, i), window={size=2x2 pad=0_99999999999x0_999999}, to_apply=fn",
        "out-of-memory",
    ),
    "initial value of another type": (f"reduce-window(x, k), {OK}", "bad-computation"),
    "operands of different sizes": (f"reduce-window(x, z, i, i), {OK}", "shape-mismatch"),
    "function that returns no number": (
        "reduce-window(x, i), window={size=2x2}, to_apply=ge", "bad-computation",
    ),
    "select that returns no pred": (
        "select-and-scatter(x, z, i), window={size=2x1}, select=fn, scatter=fn",
        "bad-computation",
    ),
    "source of another shape": (
        "select-and-scatter(x, z, i), window={size=1x1}, select=ge, scatter=fn", "shape-mismatch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_broken_rules_are_named(case: str) -> None:
    line, code = BAD[case]
    text = (
        f"HloModule m\n{GE.replace('t[]', 'f32[]')}{binary('add', 'f32')}"
        "ENTRY e { x = f32[2,3] parameter(0) z = f32[1,3] parameter(1)\n"
        f"  i = f32[] parameter(2) k = s32[] parameter(3)\n  ROOT r = {line} }}"
    )
    if code == "out-of-memory":
        with pytest.raises(Exception, match=code):
            run(text, [np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32), 0, 0])
        return
    found = errors(text)
    assert [c for c, _ in found] == [code], found
