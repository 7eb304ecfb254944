"""Windows on GPUs: pooling, and its gradient by select-and-scatter."""

from __future__ import annotations

import pytest

from hlo.ops.attrs import WINDOW
from tests.gpu.emulated import check_emulated, program

# Dimensions of the operand, and the window.
WINDOWS = {
    "pooling": ("2,9,8,3", "size=1x3x2x1 stride=1x2x2x1"),
    "padding": ("2,9,8,3", "size=1x3x3x1 stride=1x2x1x1 pad=0_0x1_1x2_0x0_0"),
    "negative padding": ("20,9", "size=3x2 stride=2x1 pad=-2_-1x1_-3"),
    "large": ("5,50", "size=1x40 stride=1x3"),
    "everything": ("6,7", "size=6x7"),
    "one element": ("1,5", "size=1x1 stride=1x2"),
    "no windows": ("3,4", "size=5x1"),
}
DILATED = {
    "dilated window": ("20,9", "size=3x2 pad=1_1x0_2 rhs_dilate=2x3"),
    "dilated operand": ("12,9", "size=3x2 pad=1_1x0_2 lhs_dilate=2x3"),
    "both": ("5,7", "size=4x3 stride=3x2 pad=5_-1x-1_6 lhs_dilate=4x2 rhs_dilate=2x3"),
}


def results(dims: str, window: str) -> str:
    parsed = WINDOW.parse("{" + window + "}")
    return ",".join(
        str(w.output_size(n)) for n, w in zip(map(int, dims.split(",")), parsed, strict=True)
    )


def pooling(t: str, dims: str, window: str, op: str = "add", layout: str = "") -> str:
    out = results(dims, window)
    return f"""HloModule m
f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}
ENTRY e {{ x = {t}[{dims}]{layout} parameter(0) z = {t}[] parameter(1)
  ROOT r = {t}[{out}] reduce-window(x, z), window={{{window}}}, to_apply=f }}"""


def gradient(t: str, dims: str, window: str, select: str = "GE", op: str = "add") -> str:
    out = results(dims, window)
    return f"""HloModule m
f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}
s {{ a = {t}[] parameter(0) b = {t}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction={select} }}
ENTRY e {{ x = {t}[{dims}] parameter(0) y = {t}[{out}] parameter(1) z = {t}[] parameter(2)
  ROOT r = {t}[{dims}] select-and-scatter(x, y, z), window={{{window}}}, select=s, scatter=f }}"""


@pytest.mark.parametrize("name", WINDOWS | DILATED)
def test_windows(name: str) -> None:
    dims, window = (WINDOWS | DILATED)[name]
    check_emulated(pooling("f32", dims, window))
    check_emulated(pooling("f32", dims, window, "maximum"), edges=True)
    layout = "{" + ",".join(map(str, range(dims.count(",") + 1))) + "}"
    check_emulated(pooling("s32", dims, window, layout=layout))


@pytest.mark.parametrize("t", "s4 u8 s64 f8e4m3fn bf16 f16 f64".split())
def test_types(t: str) -> None:
    check_emulated(pooling(t, *WINDOWS["padding"]))
    check_emulated(gradient(t, *WINDOWS["padding"]))


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("select", ["GE", "GT", "LE"])
def test_select_and_scatter(name: str, select: str) -> None:
    dims, window = WINDOWS[name]
    check_emulated(gradient("f32", dims, window, select))
    check_emulated(gradient("s32", dims, window, select, "multiply"))


def test_special_values_select_as_they_compare() -> None:
    check_emulated(gradient("f32", *WINDOWS["pooling"]), edges=True)
    check_emulated(gradient("f32", *WINDOWS["large"]), edges=True)


def test_dilated_windows_select_too() -> None:
    check_emulated(gradient("f32", *DILATED["dilated window"]))


def test_what_large_windows_select_is_computed_once() -> None:
    small = gradient("f32", "1,16,16,4", "size=1x2x2x1 stride=1x2x2x1")
    large = gradient("f32", "1,16,16,4", "size=1x9x9x1 stride=1x1x1x1")
    assert len(program(small)[0].plan.launches) == 1
    assert len(program(large)[0].plan.launches) == 2
    check_emulated(large)
