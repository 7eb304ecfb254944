"""Random values for shapes: seeded, and with the values that break things among them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hlo.values.arrays import TOKEN_VALUE, DynamicArray
from hlo.values.types import ArrayShape, ElementType, Shape, TokenShape, TupleShape


def random_value(rng: np.random.Generator, shape: Shape, *, edges: bool = False) -> Any:
    """Return a value of a shape; with `edges`, some elements are NaN, infinite, extreme or -0."""
    if isinstance(shape, TupleShape):
        return tuple(random_value(rng, s, edges=edges) for s in shape.elements)
    if isinstance(shape, TokenShape):
        return TOKEN_VALUE
    assert isinstance(shape, ArrayShape), f"no values of {shape}"
    data = random_array(rng, shape.element_type, shape.dims, edges=edges)
    if not shape.is_dynamic:
        return data
    sizes = [
        int(rng.integers(0, d + 1)) if shape.is_dynamic_dim(i) else d
        for i, d in enumerate(shape.dims)
    ]
    return DynamicArray(data, tuple(sizes))


def random_array(
    rng: np.random.Generator, et: ElementType, dims: tuple[int, ...], *, edges: bool = False
) -> np.ndarray:
    """Return a random array of an element type in the given dimensions."""
    if et.is_pred:
        return np.asarray(rng.integers(0, 2, dims).astype(np.bool_))
    if et.is_integer:
        return _integers(rng, et, dims, edges)
    if et.is_complex:
        parts = rng.standard_normal((2, *dims))
        return np.asarray(parts[0] + 1j * parts[1]).astype(et.dtype)
    values = np.asarray(rng.standard_normal(dims)).astype(et.dtype)
    if edges:
        _scatter_edges(rng, values, _float_edges(et))
    return values


def _integers(
    rng: np.random.Generator, et: ElementType, dims: tuple[int, ...], edges: bool
) -> np.ndarray:
    low = -(1 << (et.bits - 1)) if et.is_signed else 0
    high = (1 << (et.bits - 1)) - 1 if et.is_signed else (1 << et.bits) - 1
    values = np.asarray(rng.integers(max(low, -8), min(high, 8) + 1, dims)).astype(et.dtype)
    if edges:
        _scatter_edges(rng, values, np.array([low, high, 0, min(1, high)], object).astype(et.dtype))
    return values


def _float_edges(et: ElementType) -> np.ndarray:
    info = ml_dtypes.finfo(et.dtype)
    denormal = float(info.smallest_subnormal)
    words = [
        np.inf, -np.inf, np.nan, 0.0, -0.0, float(info.max), float(info.smallest_normal), denormal,
    ]  # fmt: skip
    return np.array(words, np.float64).astype(et.dtype)


def _scatter_edges(rng: np.random.Generator, values: np.ndarray, edges: np.ndarray) -> None:
    """Put edge values at about a third of the places."""
    flat = values.reshape(-1)
    places = rng.random(flat.shape) < 0.3
    flat[places] = rng.choice(edges, int(places.sum()))
