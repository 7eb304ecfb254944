"""Compiled reduce-window and select-and-scatter against the interpreter and XLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo.ops.attrs import WINDOW, Window
from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same, xla_run
from tests.harness.run_compiled import check, compiled_for

RNG = np.random.default_rng(4)

WINDOWS = {
    # dims of the operand, window
    "inside": ("9,8", "size=3x2 stride=2x2"),
    "padded": ("9,8", "size=3x3 stride=2x1 pad=1_1x2_0"),
    "negative padding": ("9,8", "size=2x2 pad=-2_-1x1_-3"),
    "holes in the operand": ("4,3", "size=3x4 stride=2x3 pad=2_1x0_5 lhs_dilate=3x2"),
    "holes in the window": ("9,8", "size=3x2 pad=4_1x0_1 rhs_dilate=2x5"),
    "holes in both": ("5,7", "size=4x3 stride=3x2 pad=5_-1x-1_6 lhs_dilate=4x2 rhs_dilate=2x3"),
    "only padding": ("2,2", "size=1x1 stride=1x1 pad=3_3x0_1"),
    "no windows": ("2,2", "size=5x1"),
    "no elements": ("0,3", "size=1x2 pad=2_1x0_0"),
    "pooling of columns": ("2,11,12,40", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x0_1x0_0"),
    "pooling of rows": ("2,3,11,40", "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x0_1"),
    "long in a row": ("3,200", "size=1x60 stride=1x3 pad=0_0x30_9"),
    "large in two dimensions": ("40,30", "size=12x9 stride=1x2 pad=5_6x3_0"),
    "wider than a strip": ("3,5000", "size=2x3 pad=1_0x1_1"),
    "rank 0": ("", ""),
    "rank 5": ("2,3,2,3,2", "size=2x1x2x2x1 stride=1x2x1x1x1 pad=1_0x0_0x0_1x0_0x0_0"),
}
RUNNING = {
    "rows": ("3,600", "size=1x600 pad=0_0x599_0"),
    "rows back": ("3,600", "size=1x600 pad=0_0x0_599"),
    "columns": ("70,9", "size=70x1 pad=69_0x0_0"),
    "columns back": ("70,9,2", "size=70x1x1 pad=0_69x0_0x0_0"),
    "one long row": ("40001", "size=40001 pad=40000_0"),
    "one long row back": ("40001", "size=40001 pad=0_40000"),
    "longer than the row": ("2,50", "size=1x55 pad=0_0x54_0"),
    "both": ("40,50", "size=40x50 pad=39_0x49_0"),
}


def dims_of(text: str) -> tuple[int, ...]:
    return tuple(int(d) for d in text.split(",") if d)


def out_of(dims: str, window: str) -> tuple[int, ...]:
    parsed: Window = WINDOW.parse("{" + window + "}") if window else ()
    return tuple(w.output_size(n) for n, w in zip(dims_of(dims), parsed, strict=True))


def pooling(op: str, t: str, dims: str, window: str, layout: str = "", result: str = "") -> str:
    out = ",".join(map(str, out_of(dims, window)))
    attr = f"window={{{window}}}, " if window else ""
    return (
        f"HloModule m\n"
        f"f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n"
        f"ENTRY e {{ x = {t}[{dims}]{layout} parameter(0) z = {t}[] parameter(1)\n"
        f"  ROOT r = {t}[{out}]{result} reduce-window(x, z), {attr}to_apply=f }}"
    )


def run(text: str, t: str, *dims: str, **tolerance: float) -> list[np.ndarray]:
    return check(text, [random_array(RNG, ELEMENT_TYPES[t], dims_of(d)) for d in dims], **tolerance)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(
    ("op", "t"), [("add", "f32"), ("maximum", "f64"), ("multiply", "s32"), ("multiply", "f32")]
)
def test_windows(name: str, op: str, t: str) -> None:
    dims, window = WINDOWS[name]
    run(pooling(op, t, dims, window), t, dims, "", rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize(
    ("op", "t"),
    [
        ("add", "f32"), ("maximum", "f32"), ("add", "s32"), ("minimum", "u8"), ("multiply", "s64"),
        ("add", "bf16"), ("or", "pred"), ("add", "c64"), ("xor", "s4"), ("multiply", "f64"),
    ],
)  # fmt: skip
def test_running_totals(name: str, op: str, t: str) -> None:
    dims, window = RUNNING[name]
    rtol, atol = (2e-2, 1e-1) if t == "bf16" else (1e-4, 1e-3)
    if op == "multiply" and t == "f64" and name in ("both", "one long row", "one long row back"):
        pytest.skip("products of many numbers are 0 or infinite")
    run(pooling(op, t, dims, window), t, dims, "", rtol=rtol, atol=atol)


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("result", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("name", ["padded", "inside", "holes in both"])
def test_layouts(name: str, layout: str, result: str) -> None:
    dims, window = WINDOWS[name]
    run(pooling("add", "s32", dims, window, layout, result), "s32", dims, "")
    dims, window = RUNNING["columns"]
    run(pooling("add", "s32", dims, window, layout, result), "s32", dims, "")


PAIRS = """HloModule m
f { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  ge = pred[] compare(a, b), direction=GE
  v = f32[] select(ge, a, b) k = s32[] select(ge, i, j) ROOT t = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[DIMS] parameter(0) i = s32[DIMS] iota(), iota_dimension=0
  low = f32[] constant(-inf) zero = s32[] constant(7)
  ROOT r = (f32[OUT], s32[OUT]) reduce-window(x, i, low, zero), window={WINDOW}, to_apply=f }"""


@pytest.mark.parametrize(
    ("dims", "window"),
    [WINDOWS["padded"], WINDOWS["holes in both"], *RUNNING.values()],
)
def test_windows_of_pairs(dims: str, window: str) -> None:
    if dims == "40,50":
        pytest.skip("a window of pairs that is large in two dimensions takes long here")
    out = ",".join(map(str, out_of(dims, window)))
    text = PAIRS.replace("DIMS", dims).replace("OUT", out).replace("WINDOW", window)
    x = RNG.integers(0, 30, dims_of(dims)).astype(np.float32)
    check(text, [x])


def test_a_function_that_is_not_commutative_goes_in_order() -> None:
    text = """HloModule m
f { a = s32[] parameter(0) b = s32[] parameter(1) k = s32[] constant(3)
  c = s32[] multiply(a, k) ROOT d = s32[] subtract(c, b) }
ENTRY e { x = s32[9,8]{0,1} parameter(0) z = s32[] constant(1)
  ROOT r = s32[4,4]{0,1} reduce-window(x, z), window={size=3x2 stride=2x2}, to_apply=f }"""
    run(text, "s32", "9,8")


def test_prefix_sums_agree_with_xla() -> None:
    dims, window = RUNNING["rows"]
    text = pooling("add", "s32", dims, window)
    # XLA takes it for granted that the initial value changes nothing.
    args = [random_array(RNG, ELEMENT_TYPES["s32"], (3, 600)), np.int32(0)]
    assert_same(check(text, args), xla_run(text, args))


def test_threads_do_not_change_running_totals() -> None:
    dims, window = RUNNING["one long row"]
    text = pooling("add", "f32", dims, window)
    x = random_array(RNG, ELEMENT_TYPES["f32"], dims_of(dims))
    one, two = (compiled_for(text, threads)(x, np.float32(0)) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


# --- select-and-scatter -------------------------------------------------------------------------


def choosing(t: str, direction: str, op: str, dims: str, window: str, layout: str = "") -> str:
    out = ",".join(map(str, out_of(dims, window)))
    attr = f"window={{{window}}}, " if window else ""
    return (
        f"HloModule m\n"
        f"s {{ a = {t}[] parameter(0) b = {t}[] parameter(1)\n"
        f"  ROOT c = pred[] compare(a, b), direction={direction} }}\n"
        f"f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n"
        f"ENTRY e {{ x = {t}[{dims}]{layout} parameter(0) y = {t}[{out}] parameter(1)\n"
        f"  z = {t}[] parameter(2)\n"
        f"  ROOT r = {t}[{dims}]{layout} select-and-scatter(x, y, z), {attr}select=s, scatter=f }}"
    )


def select_args(t: str, dims: str, window: str) -> list[Any]:
    et, out = ELEMENT_TYPES[t], out_of(dims, window)
    # Few different values: the first of equal ones has to be chosen, or the last.
    x = RNG.integers(0, 4, dims_of(dims)).astype(et.dtype)
    return [x, random_array(RNG, et, out), random_array(RNG, et, ())]


@pytest.mark.parametrize("name", [n for n in WINDOWS if n != "wider than a strip"])
@pytest.mark.parametrize(
    ("direction", "op", "t"),
    [("GE", "add", "f32"), ("GT", "add", "bf16"), ("LE", "maximum", "s32"), ("LT", "add", "u8")],
)
def test_select_and_scatter(name: str, direction: str, op: str, t: str) -> None:
    dims, window = WINDOWS[name]
    text = choosing(t, direction, op, dims, window)
    check(text, select_args(t, dims, window), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["{3,2,1,0}", "{0,1,2,3}", "{1,3,2,0}"])
def test_select_and_scatter_layouts(layout: str) -> None:
    dims, window = WINDOWS["pooling of columns"]
    text = choosing("f32", "GE", "add", dims, window, layout)
    check(text, select_args("f32", dims, window), rtol=1e-5, atol=1e-5)


def test_select_and_scatter_rounds_to_the_function_s_type() -> None:
    dims, window = WINDOWS["pooling of columns"]
    text = choosing("f32", "GE", "add", dims, window)
    start, end = text.index("\nf {"), text.index("\nENTRY")
    text = text[:start] + text[start:end].replace("f32", "f16") + text[end:]
    x, y, z = select_args("f32", dims, window)
    got = compiled_for(text, 1)(x, y, z)
    assert np.array_equal(got, got.astype(np.float16)) and not np.array_equal(
        y, y.astype(np.float16)
    )
    check(text, [x, y, z], rtol=1e-3, atol=1e-3)


def test_select_and_scatter_agrees_with_xla() -> None:
    dims, window = WINDOWS["pooling of columns"]
    text = choosing("f32", "GE", "add", dims, window)
    # Of equal elements XLA chooses any.
    x = RNG.permutation(int(np.prod(dims_of(dims)))).astype(np.float32).reshape(dims_of(dims))
    args = [x, select_args("f32", dims, window)[1], np.float32(0)]
    got = check(text, args, rtol=1e-5, atol=1e-5)
    assert_same(got, xla_run(text, args), rtol=1e-5, atol=1e-5)
