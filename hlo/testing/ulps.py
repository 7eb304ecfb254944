"""How many numbers of a floating-point type lie between two of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

# Of all types that there are the only one without a sign: its bits count up as they are.
_UNSIGNED = "float8_e8m0fnu"


def ulps_between(a: Any, b: Any) -> int | None:
    """Return how many steps to the next number lead from one element to the other.

    a, b: scalars of one floating-point or complex type; of complex ones the part that is further
    off counts. None where one of them is NaN. Zeros of either sign are one number, infinity comes
    after the largest finite one.
    """
    if a.dtype.kind == "c":
        parts = [ulps_between(a.real, b.real), ulps_between(a.imag, b.imag)]
        known = [n for n in parts if n is not None]
        return max(known) if len(known) == len(parts) else None
    if np.isnan(a) or np.isnan(b):
        return None
    return abs(_place(a) - _place(b))


def _place(value: Any) -> int:
    """Return the number of a value when all those of its type are counted from zero."""
    bits = int(np.asarray(value).view(f"u{value.dtype.itemsize}"))
    if value.dtype.name == _UNSIGNED:
        return bits
    sign = 1 << int(ml_dtypes.finfo(value.dtype).bits) - 1
    magnitude = bits & (sign - 1)
    return -magnitude if bits & sign else magnitude
