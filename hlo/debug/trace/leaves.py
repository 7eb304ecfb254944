"""The arrays of a value: those of a tuple one by one, without tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hlo.values.arrays import DynamicArray


def leaves(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield the arrays of a value with their index paths, those of dynamic size as they are."""
    if isinstance(value, tuple):
        for n, part in enumerate(value):
            yield from leaves(part, (*path, n))
    elif isinstance(value, DynamicArray):
        yield path, value.actual
    elif isinstance(value, (np.ndarray, np.generic)):
        yield path, np.asarray(value)
