"""What is in a large array, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.values.types import array, element_type_of


@dataclass(frozen=True)
class Summary:
    """What is in an array.

    shape: its type and dimensions. low, high, mean: of those elements that are finite, None if
    there are none; of complex numbers, of their absolute values; of pred, of 0 and 1. nans,
    infinities: how many elements are not finite.
    """

    shape: str
    elements: int
    low: int | float | None = None
    high: int | float | None = None
    mean: float | None = None
    nans: int = 0
    infinities: int = 0


def summarize(value: np.ndarray) -> Summary:
    """Return what is in an array."""
    et = element_type_of(value.dtype)
    shape = array(et, value.shape).to_string(False)
    if not value.size:
        return Summary(shape, 0)
    if et.is_pred or et.is_integer:
        whole = value if et.dtype.isbuiltin == 1 and not et.is_pred else value.astype(np.int8)
        if et.bits < 8 and not et.is_signed and not et.is_pred:
            whole = value.astype(np.uint8)
        mean = float(whole.mean(dtype=np.float64))
        return Summary(shape, value.size, int(whole.min()), int(whole.max()), mean)
    with np.errstate(all="ignore"):
        if et.is_complex:
            value = np.abs(value)
        elif et.dtype.isbuiltin != 1:
            value = value.astype(np.float32)
        nans = np.isnan(value)
        infinite = np.isinf(value)
        finite = value[~(nans | infinite)] if nans.any() or infinite.any() else value
        counts = int(np.count_nonzero(nans)), int(np.count_nonzero(infinite))
        if not finite.size:
            return Summary(shape, value.size, None, None, None, *counts)
        mean = float(finite.mean(dtype=np.float64))
        return Summary(shape, value.size, float(finite.min()), float(finite.max()), mean, *counts)
