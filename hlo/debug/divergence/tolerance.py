"""Are two values of one instruction the same but for rounding?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.testing.compare import Comparison, compare, is_inexact, spread
from hlo.values.arrays import DynamicArray


@dataclass(frozen=True)
class Tolerance:
    """What floats may be off by, relative and absolute; by their types where both are None."""

    relative: float | None = None
    absolute: float | None = None

    @property
    def is_given(self) -> bool:
        return self.relative is not None or self.absolute is not None

    def compare(self, got: Any, want: Any, moves: Callable[[], float] | None = None) -> Comparison:
        """Compare two arrays of one shape and type.

        moves: how far the value moves when its operands differ in their last places, asked for
        where the arrays differ: they may be off by a few times that.
        """
        a, b = _plain(got), _plain(want)
        if a.shape != b.shape or a.dtype != b.dtype:  # of dynamic size: as good as nothing in it
            return Comparison(b.size, max(a.size, b.size, 1), 0.0, 0.0)
        relative, absolute = self.relative, self.absolute
        if self.is_given:
            relative, absolute = relative or 0.0, absolute or 0.0
        found = compare(a, b, relative, absolute)
        if found.same or self.is_given or moves is None or not is_inexact(a.dtype):
            return found
        sensitivity = moves()
        return compare(a, b, sensitivity=sensitivity) if sensitivity else found


def moved(value: Any, nearby: Any) -> float:
    """Return how far apart two arrays of one shape and type are at most; 0 for others."""
    a, b = _plain(value), _plain(nearby)
    return spread(a, b) if a.dtype == b.dtype else 0.0


def _plain(value: Any) -> np.ndarray:
    return np.asarray(value.actual if isinstance(value, DynamicArray) else value)
