"""Run-time values of the reference interpreter.

An array is a numpy array in logical (row-major) order, in the numpy dtype of its element type, also
when it is a scalar (rank 0). A tuple is a Python tuple. A token is `TOKEN_VALUE`. An array with
dynamic dimensions is a `DynamicArray`, unless its sizes are its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.values.types import UNBOUNDED


class _Token:
    """The value of every token: the interpreter executes in order, so it carries nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "token"


TOKEN_VALUE = _Token()


@dataclass(frozen=True, slots=True, eq=False)
class DynamicArray:
    """An array stored at its bounds, of which the leading `sizes` of each dimension are valid.

    data: array with the shape's bounds. Elements outside `sizes` are padding of unspecified value.
    """

    data: np.ndarray
    sizes: tuple[int, ...]

    @property
    def actual(self) -> np.ndarray:
        """The valid elements: a view of `data`."""
        return self.data[tuple(slice(0, n) for n in self.sizes)]


@dataclass(frozen=True, slots=True, eq=False)
class OnDevice:
    """An argument that stays in the memory of a device, where its program runs.

    array: what the device's backend takes; `numpy.asarray` of it is a copy.
    """

    array: Any
    shape: tuple[int, ...]
    dtype: np.dtype


def with_sizes(data: np.ndarray, sizes: Sequence[int]) -> np.ndarray | DynamicArray:
    """Return an array at its bounds of which only the leading `sizes` are valid.

    That is `data` itself when the sizes are the bounds.
    """
    return data if data.shape == tuple(sizes) else DynamicArray(data, tuple(sizes))


def bounded(array: np.ndarray, bounds: Sequence[int]) -> np.ndarray | DynamicArray:
    """Return a dynamic array, stored at its bounds; an unbounded one as is."""
    dims = tuple(n if b == UNBOUNDED else b for n, b in zip(array.shape, bounds, strict=True))
    if array.shape == dims:
        return array
    data = np.zeros(dims, array.dtype)
    data[tuple(slice(0, n) for n in array.shape)] = array
    return DynamicArray(data, array.shape)


def actual(value: np.ndarray | DynamicArray) -> np.ndarray:
    """Return the valid elements of an array."""
    return value.actual if isinstance(value, DynamicArray) else value


def zero_padded(value: np.ndarray | DynamicArray) -> np.ndarray:
    """Return an array at its bounds, with zeros in place of padding."""
    if isinstance(value, DynamicArray):
        return at_bounds(bounded(value.actual, value.data.shape))
    return value


def at_bounds(value: np.ndarray | DynamicArray) -> np.ndarray:
    """Return an array at its bounds, with its padding."""
    return value.data if isinstance(value, DynamicArray) else value
