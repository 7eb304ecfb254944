"""Run-time values of the reference interpreter.

An array is a numpy array in logical (row-major) order, in the numpy dtype of its element type, also
when it is a scalar (rank 0). A tuple is a Python tuple. A token is `TOKEN_VALUE`. An array with
dynamic dimensions is a `DynamicArray`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class _Token:
    """The value of every token: order is kept by evaluating in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "token"


TOKEN_VALUE = _Token()


@dataclass(frozen=True, slots=True, eq=False)
class DynamicArray:
    """An array stored at its bounds of which the leading `sizes` of each dimension are meant.

    data: array with the shape's bounds. Elements outside `sizes` are padding of no stated value.
    """

    data: np.ndarray
    sizes: tuple[int, ...]

    @property
    def actual(self) -> np.ndarray:
        """The elements that are meant: a view of `data`."""
        return self.data[tuple(slice(0, n) for n in self.sizes)]
