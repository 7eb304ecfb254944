"""What is in an array, in the numbers that show where a computation went wrong."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

from hlo.values.types import element_type_of

# The headings of `Statistics.cells`.
HEADINGS = ("min", "max", "mean", "NaN", "inf", "zero", "denormal")


@dataclass(frozen=True)
class Statistics:
    """What is in an array, or in several: `merged`.

    count: how many elements. min, max, mean: of those that are finite, None if there are none; of
    pred, of 0 and 1. nans, infs: elements that are not finite. zeros: of either sign. denormals:
    elements that are smaller than the type's smallest normal number, but not zero. The real and
    the imaginary part of a complex number are an element each, but for `count`.
    """

    count: int
    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    nans: int = 0
    infs: int = 0
    zeros: int = 0
    denormals: int = 0

    @property
    def is_finite(self) -> bool:
        """True without NaN and infinities."""
        return not self.nans and not self.infs

    def cells(self) -> list[str]:
        """Return the numbers as text, in the order of `HEADINGS`."""
        counts = (self.nans, self.infs, self.zeros, self.denormals)
        return [*map(_number, (self.min, self.max, self.mean)), *map(str, counts)]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return asdict(self)


def _number(n: float | None) -> str:
    return "-" if n is None else f"{n:.6g}"


def statistics_of(value: np.ndarray) -> Statistics:
    """Return what is in an array of any element type."""
    if not value.size:
        return Statistics(0)
    et = element_type_of(value.dtype)
    if et.is_pred or et.is_integer:
        # numpy adds up integers of its own types only.
        plain = value if value.dtype.isbuiltin == 1 and not et.is_pred else value.astype(np.int16)
        zeros = value.size - int(np.count_nonzero(plain))
        mean = float(plain.mean(dtype=np.float64))
        return Statistics(value.size, int(plain.min()), int(plain.max()), mean, zeros=zeros)
    parts = value.reshape(-1).view(value.real.dtype) if et.is_complex else value
    smallest = _smallest_normal(parts.dtype)
    with np.errstate(all="ignore"):
        if parts.dtype.isbuiltin != 1:
            parts = parts.astype(np.float32)
        magnitude = np.abs(parts)
        finite = np.isfinite(parts)
        nans = int(np.count_nonzero(np.isnan(parts)))
        infs = parts.size - int(np.count_nonzero(finite)) - nans
        zeros = parts.size - int(np.count_nonzero(parts))
        denormals = int(np.count_nonzero((magnitude < smallest) & (magnitude > 0)))
        kept = parts if not nans and not infs else parts[finite]
        if not kept.size:
            return Statistics(value.size, None, None, None, nans, infs, zeros, denormals)
        mean = float(kept.mean(dtype=np.float64))
    return Statistics(
        value.size, float(kept.min()), float(kept.max()), mean, nans, infs, zeros, denormals
    )


@functools.cache
def _smallest_normal(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_normal)


def merged(all_of: list[Statistics]) -> Statistics:
    """Return what is in several arrays together."""
    lows = [s.min for s in all_of if s.min is not None]
    highs = [s.max for s in all_of if s.max is not None]
    # What is finite, by which means are weighted.
    weights = [max(0, s.count - s.nans - s.infs) for s in all_of]
    means = [(s.mean, w) for s, w in zip(all_of, weights, strict=True) if s.mean is not None]
    total = sum(w for _, w in means)
    return Statistics(
        sum(s.count for s in all_of), min(lows, default=None), max(highs, default=None),
        sum(m * w for m, w in means) / total if total else None,
        *(sum(getattr(s, name) for s in all_of) for name in ("nans", "infs", "zeros", "denormals")),
    )  # fmt: skip
