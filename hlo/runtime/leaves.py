"""Values of parameters and results as the array leaves that a program takes and gives.

An array of dynamic size is one at its bounds, followed by the sizes that vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.io.arguments import Parameter
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.types import ArrayShape, Shape, TokenShape, TupleShape


def leaf_arrays(parameters: Sequence[Parameter], values: Sequence[Any]) -> list[np.ndarray]:
    """Return the array leaves of a checked value for each parameter."""
    leaves: list[np.ndarray] = []
    for p, value in zip(parameters, values, strict=True):
        for path, shape in p.shape.leaves():
            if isinstance(shape, ArrayShape):
                leaf = value
                for i in path:
                    leaf = leaf[i]
                leaves += [leaf] if not shape.dynamic else _with_sizes(leaf, shape)
    return leaves


def wrapper(shape: Shape) -> Callable[[list[Any]], Any]:
    """Return the function that makes a value of a shape from its array leaves."""
    if _is_one(shape):
        return only
    if isinstance(shape, TupleShape) and all(_is_one(s) for s in shape.elements):
        return tuple
    return lambda leaves: _nested(shape, iter(leaves))


def _is_one(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and not shape.dynamic


def _with_sizes(array: np.ndarray, shape: ArrayShape) -> list[np.ndarray]:
    """Return an array at the bounds of its shape, and the sizes that vary."""
    data = np.zeros(shape.dims, array.dtype)
    data[tuple(slice(0, n) for n in array.shape)] = array
    sizes = [np.asarray(n, np.int32) for d, n in enumerate(array.shape) if shape.dynamic[d]]
    return [data, *sizes]


def _meant(data: np.ndarray, shape: ArrayShape, leaves: Any) -> np.ndarray:
    """Return the valid part of an array at its bounds, given the dynamic sizes."""
    sizes = [
        int(next(leaves)) if varies else n
        for n, varies in zip(shape.dims, shape.dynamic, strict=True)
    ]
    return data[tuple(slice(0, n) for n in sizes)]


def only(leaves: list[Any]) -> Any:
    """Return the value of a program with one result leaf."""
    return leaves[0]


def _nested(shape: Shape, leaves: Any) -> Any:
    if isinstance(shape, TupleShape):
        return tuple(_nested(s, leaves) for s in shape.elements)
    if isinstance(shape, TokenShape):
        return TOKEN_VALUE
    data = next(leaves)
    return _meant(data, shape, leaves) if isinstance(shape, ArrayShape) and shape.dynamic else data
