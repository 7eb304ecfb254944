"""Quantized StableHLO: its results are those of the specification's formulas, in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.values.types import ELEMENT_TYPES

BOUNDS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "i4": (-8, 7),
          "i32": (-(2**31), 2**31 - 1)}  # fmt: skip


@dataclass(frozen=True)
class Quantized:
    """A quantized type. axis: of the scales and zero points, None for one of each."""

    storage: str
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int | None = None

    def __str__(self) -> str:
        pairs = [f"{s}:{z}" for s, z in zip(self.scales, self.zeros, strict=True)]
        axis = "" if self.axis is None else f":{self.axis}"
        listed = pairs[0] if self.axis is None else f"{{{', '.join(pairs)}}}"
        return f"!quant.uniform<{self.storage}:f32{axis}, {listed}>"

    def _along(self, values: Any, rank: int, dtype: Any) -> np.ndarray:
        shape = [1] * rank
        if self.axis is not None:
            shape[self.axis] = -1
        return np.array(values, dtype).reshape(shape)

    def numbers(self, stored: np.ndarray) -> np.ndarray:
        offset = stored.astype(np.int64) - self._along(self.zeros, stored.ndim, np.int64)
        return offset.astype(np.float32) * self._along(self.scales, stored.ndim, np.float32)

    def stored(self, numbers: np.ndarray) -> np.ndarray:
        low, high = BOUNDS[self.storage]
        moved = numbers / self._along(self.scales, numbers.ndim, np.float32)
        moved = moved + self._along(self.zeros, numbers.ndim, np.float32)
        return np.rint(np.clip(moved, np.float32(low), np.float32(high))).astype(np.int64)


I8 = Quantized("i8", (0.5,), (3,))
U8 = Quantized("u8", (0.25,), (128,))
I16 = Quantized("i16", (0.01,), (-7,))
I4 = Quantized("i4", (1.5,), (1,))
ROWS = Quantized("i8", (0.1, 0.2), (0, 5), axis=0)
COLUMNS = Quantized("i8", (0.1, 0.5, 0.75), (1, -2, 3), axis=1)


def run(text: str, *args: Any) -> np.ndarray:
    module = hlo.from_stablehlo(text)
    hlo.verify(module)
    interpreted = np.asarray(hlo.interpret(module, *args)).astype(np.float64)
    compiled = np.asarray(hlo.compile(module, cache=False)(*args)).astype(np.float64)
    np.testing.assert_allclose(interpreted, compiled, rtol=1e-6)
    return interpreted


def integers(q: Quantized, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    low, high = BOUNDS[q.storage]
    found = np.random.default_rng(seed).integers(max(low, -128), min(high, 255) + 1, shape)
    return found


def argument(q: Quantized, values: np.ndarray) -> np.ndarray:
    name = q.storage.replace("i", "s") if q.storage[0] == "i" else q.storage
    return values.astype(ELEMENT_TYPES[name].dtype)


@pytest.mark.parametrize("q", [I8, U8, I16, I4, ROWS, COLUMNS], ids=str)
def test_quantize_and_dequantize(q: Quantized) -> None:
    x = np.random.default_rng(1).normal(scale=20, size=(2, 3)).astype(np.float32)
    x[0] = (0.75, -1e30, 1e30)
    text = (
        f"func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3x{q}> {{\n"
        f"  %0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>) -> tensor<2x3x{q}>\n"
        f"  return %0 : tensor<2x3x{q}>\n}}"
    )
    np.testing.assert_array_equal(run(text, x), q.stored(x))
    stored = q.stored(x)
    back = (
        f"func.func @main(%a: tensor<2x3x{q}>) -> tensor<2x3xf32> {{\n"
        f"  %0 = stablehlo.uniform_dequantize %a : (tensor<2x3x{q}>) -> tensor<2x3xf32>\n"
        "  return %0 : tensor<2x3xf32>\n}"
    )
    np.testing.assert_array_equal(run(back, argument(q, stored)), q.numbers(stored))


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("types", [(I8, I8, I8), (I8, U8, I16), (U8, I16, I4)], ids=str)
def test_elementwise_operations(name: str, types: tuple[Quantized, ...]) -> None:
    x, y = (integers(q, (2, 3), seed) for seed, q in enumerate(types[:2]))
    p, q, r = types
    text = (
        f"func.func @main(%a: tensor<2x3x{p}>, %b: tensor<2x3x{q}>) -> tensor<2x3x{r}> {{\n"
        f"  %0 = stablehlo.{name} %a, %b : (tensor<2x3x{p}>, tensor<2x3x{q}>) -> "
        f"tensor<2x3x{r}>\n  return %0 : tensor<2x3x{r}>\n}}"
    )
    want = r.stored(BINARY[name](p.numbers(x), q.numbers(y)))
    np.testing.assert_array_equal(run(text, argument(p, x), argument(q, y)), want)


@pytest.mark.parametrize("weights", [I8, Quantized("i8", (0.1, 0.2, 0.3, 0.4), (0,) * 4, axis=1)])
@pytest.mark.parametrize("left", [I8, None], ids=["quantized", "hybrid"])
def test_products(weights: Quantized, left: Quantized | None) -> None:
    y = integers(weights, (3, 4), 2)
    result = Quantized("i32", (0.01,), (0,))
    first, last = (f"tensor<2x3x{left}>", f"tensor<2x4x{result}>") if left else (
        "tensor<2x3xf32>", "tensor<2x4xf32>")  # fmt: skip
    x = integers(I8, (2, 3), 1)
    text = (
        f"func.func @main(%a: {first}, %b: tensor<3x4x{weights}>) -> {last} {{\n"
        f"  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
        f"({first}, tensor<3x4x{weights}>) -> {last}\n  return %0 : {last}\n}}"
    )
    values = left.numbers(x) if left else x.astype(np.float32)
    got = run(text, argument(I8, x) if left else values, argument(weights, y))
    want = values @ weights.numbers(y)
    np.testing.assert_allclose(got, result.stored(want) if left else want, rtol=1e-6, atol=1)


def test_convolutions_comparisons_and_sums() -> None:
    x, w = integers(I8, (1, 5, 2), 1), integers(COLUMNS, (3, 3), 2)
    text = f"""
func.func @main(%a: tensor<1x5x2x{I8}>, %b: tensor<3x2x4x{I8}>) -> tensor<1x3x4x{I16}> {{
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x5x2x{I8}>, tensor<3x2x4x{I8}>) -> tensor<1x3x4x{I16}>
  return %0 : tensor<1x3x4x{I16}>
}}"""  # noqa: E501
    k = integers(I8, (3, 2, 4), 3)
    a, b = I8.numbers(x)[0], I8.numbers(k)
    want = np.stack([np.einsum("ti,tio->o", a[n : n + 3], b) for n in range(3)])[None]
    got = run(text, argument(I8, x), argument(I8, k))
    np.testing.assert_allclose(got, I16.stored(want), atol=1)
    kind = f"tensor<3x3x{COLUMNS}>"
    compared = (
        f"func.func @main(%a: {kind}, %b: {kind}) -> tensor<3x3xi1> {{\n"
        f"  %0 = stablehlo.compare LT, %a, %b : ({kind}, {kind}) -> tensor<3x3xi1>\n"
        "  return %0 : tensor<3x3xi1>\n}"
    )
    got = run(compared, argument(COLUMNS, w), argument(COLUMNS, w.T))
    np.testing.assert_array_equal(got, COLUMNS.numbers(w) < COLUMNS.numbers(w.T))


def test_what_only_moves_has_no_rounding() -> None:
    """Integers of 32 bits are more than f32 has digits for."""
    q = Quantized("i32", (0.5,), (0,))
    x = np.array([[2**31 - 1, -(2**31) + 1, 16777217]])
    text = (
        f"func.func @main(%a: tensor<1x3x{q}>) -> tensor<3x1x{q}> {{\n"
        f"  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<1x3x{q}>) -> tensor<3x1x{q}>\n"
        f"  %1 = stablehlo.reverse %0, dims = [0] : tensor<3x1x{q}>\n"
        f"  return %1 : tensor<3x1x{q}>\n}}"
    )
    np.testing.assert_array_equal(run(text, argument(q, x)), x.T[::-1])
