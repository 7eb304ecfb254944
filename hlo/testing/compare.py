"""Are two results the same within what their types can hold?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from hlo.testing.ulps import ulps_between

# A float may be off by this power of its type's epsilon: 7e-5 for f32, 0.05 for bf16. Two orders of
# the same long sum differ by that much, a wrong program by more.
_POWER = 0.6


# How many of the elements that differ are kept.
_KEPT = 5


@dataclass(frozen=True)
class Mismatch:
    """An element that differs: its index, what was found there, and what was wanted.

    difference: how far it is off; infinite or NaN where one of them is. relative: that by the
    wanted value. ulps: how many numbers of the type lie between, None for those that are no floats
    and next to NaN.
    """

    index: tuple[int, ...]
    got: Any
    want: Any

    @property
    def difference(self) -> float:
        if not is_inexact(self.want.dtype):
            return abs(int(self.got) - int(self.want))
        with np.errstate(all="ignore"):
            return float(abs(_wide(self.got) - _wide(self.want)))

    @property
    def relative(self) -> float:
        size = float(abs(_wide(self.want)))
        if size:
            return self.difference / size
        return math.inf if self.difference else 0.0

    @property
    def ulps(self) -> int | None:
        return ulps_between(self.got, self.want) if is_inexact(self.want.dtype) else None


@dataclass(frozen=True)
class Comparison:
    """How two arrays compare.

    worst: those elements that are furthest off, the first of them most. relative, absolute: what an
    element may be off by, of itself and in all. error, relative_error: the largest that an element
    is off by, among those that are finite in both arrays, and the largest such share of the wanted
    element. nans: how many of the wanted elements are NaN. sensitivity: how far results are off
    when the inputs differ in their last places, if that was looked at.
    """

    elements: int
    mismatches: int
    relative: float
    absolute: float
    worst: tuple[Mismatch, ...] = ()
    error: float = 0.0
    relative_error: float = 0.0
    nans: int = 0
    sensitivity: float = 0.0

    @property
    def same(self) -> bool:
        return self.mismatches == 0

    @property
    def is_all_nan(self) -> bool:
        """True where every element is NaN on both sides, so that they agree on nothing."""
        return self.same and 0 < self.elements == self.nans

    def __str__(self) -> str:
        nans = f", {self.nans} are NaN" if self.nans else ""
        allowed = f"{self.relative:.3g} of the value + {self.absolute:.3g}"
        if self.worst:
            worst = self.worst[0]
            place = ",".join(map(str, worst.index))
            by = f" by more than {allowed}" if self.relative or self.absolute else ""
            return (
                f"{self.mismatches} of {self.elements} elements differ{by}{nans}; "
                f"worst at [{place}]: {worst.got!s}, {worst.want!s} expected"
            )
        count = f"{self.elements} element{'' if self.elements == 1 else 's'}"
        if not (self.relative or self.absolute):
            return f"{count} equal{nans}"
        text = (
            f"{count} within tolerance, largest error {self.error:.3g} "
            f"(relative {self.relative_error:.3g}), allowed {allowed}{nans}"
        )
        if self.sensitivity:
            text += (
                f"; perturbing the inputs in their last bits changes it by {self.sensitivity:.3g}"
            )
        return text


def tolerance(dtype: np.dtype) -> float:
    """Return the relative error that two correct programs may differ by in a type; 0 if none."""
    if not is_inexact(dtype):
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps) ** _POWER


def is_inexact(dtype: np.dtype) -> bool:
    """True for the floating-point and complex types, those of ml_dtypes included."""
    if np.issubdtype(dtype, np.inexact):
        return True
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


# Rounding on the way is as good as several differences in the last places of the inputs.
_PER_NUDGE = 8.0
_NUDGED = ("bfloat16", "float16", "float32", "float64")


def nudged(value: Any, digits: int | None = None) -> Any:
    """Return an argument whose floats of 16 bits or more differ in their last places, at random.

    digits: how many binary digits of fractions count, where values are rounded to so many on the
    way; all of a type without it, or if it has no more.
    """
    if isinstance(value, tuple):
        return tuple(nudged(v, digits) for v in value)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "c":
        parts = np.ascontiguousarray(value).reshape(-1).view(value.real.dtype)
        return nudged(parts, digits).view(value.dtype).reshape(value.shape)
    if value.dtype.name not in _NUDGED:
        return value
    bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    held = int(ml_dtypes.finfo(value.dtype).nmant)
    step = bits.dtype.type(1 << max(0, held - (held if digits is None else digits)))
    # Towards zero: there is always such a number, and none becomes infinite.
    magnitude = bits & bits.dtype.type((1 << 8 * value.dtype.itemsize - 1) - 1)
    can = np.asarray(np.isfinite(value) & (magnitude >= step))
    half = np.random.default_rng(0).integers(0, 2, value.shape, np.uint8).astype(np.bool_) & can
    chosen = half if half.any() else can
    return (bits - step * chosen).view(value.dtype).reshape(value.shape)


def spread(a: np.ndarray, b: np.ndarray) -> float:
    """Return how far apart results of one shape are at most, where both are finite."""
    if not is_inexact(a.dtype) or a.shape != b.shape:
        return 0.0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(wide) - b.astype(wide))
    return float(np.max(apart, initial=0.0, where=np.isfinite(apart)))


def compare(
    got: np.ndarray,
    want: np.ndarray,
    relative: float | None = None,
    absolute: float | None = None,
    *,
    sensitivity: float = 0.0,
) -> Comparison:
    """Compare two arrays of one shape and dtype, element by element.

    Integers and pred agree exactly, NaN with NaN, an infinity with itself. Other floats may be off
    by `relative` of the wanted value plus `absolute`: by default what `tolerance` says, of the
    value and of the mean magnitude in the array, since sums that cancel are as inexact as what
    they sum, and at least of the smallest normal number of the type. Complex numbers are compared
    by their distance. sensitivity: the `spread` of results for inputs and `nudged` inputs; floats
    may be off by a few times that, too.
    """
    assert got.shape == want.shape and got.dtype == want.dtype
    if not is_inexact(want.dtype):
        wrong = np.asarray(got != want)
        # In doubles, where integers of 64 bits are near enough to find the worst.
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
        return _result(got, want, wrong, off, 0.0, 0.0)
    wide = np.complex128 if np.issubdtype(want.dtype, np.complexfloating) else np.float64
    with np.errstate(all="ignore"):
        g, w = got.astype(wide), want.astype(wide)
        finite = np.isfinite(g) & np.isfinite(w)
        size = np.where(finite, np.abs(w), 0.0)
        if relative is None:
            relative = tolerance(want.dtype)
        if absolute is None:
            # A subnormal number is as inexact as the smallest normal one.
            normal = float(ml_dtypes.finfo(want.dtype).smallest_normal)
            absolute = relative * max(float(size.mean()), normal) if size.size else 0.0
        absolute += _PER_NUDGE * sensitivity
        off = np.where(finite, np.abs(g - w), np.inf)
        same = (off <= relative * size + absolute) | (g == w) | (_nan(g) & _nan(w))
        errors = np.where(finite, off, 0.0)
        shares = np.divide(errors, size, out=np.zeros_like(errors), where=size > 0)
    found = _result(got, want, np.asarray(~same), off, relative, absolute)
    return replace(
        found, error=float(errors.max(initial=0.0)),
        relative_error=float(shares.max(initial=0.0)), nans=int(np.count_nonzero(_nan(w))),
        sensitivity=sensitivity,
    )  # fmt: skip


def judged(
    got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray],
    nearby: Callable[[], Mapping[str, np.ndarray]], relative: float | None = None,
    absolute: float | None = None, *, agree: Callable[[Sequence[bool]], bool] = all,
) -> dict[str, Comparison]:  # fmt: skip
    """Compare results with those that are wanted, by name, each pair as `compare` does.

    nearby: the wanted results for `nudged` inputs, asked for where results differ and no tolerance
    is given: they may be off by a few times what that changes. agree: whether all are the same,
    here and wherever else that is asked.
    """
    found = {name: compare(got[name], w, relative, absolute) for name, w in want.items()}
    if (relative, absolute) != (None, None) or agree([c.same for c in found.values()]):
        return found
    near = nearby()
    for name, c in found.items():
        if not c.same:
            moves = spread(want[name], near[name])
            found[name] = compare(got[name], want[name], sensitivity=moves)
    return found


def nan_count(a: np.ndarray) -> int:
    """Return how many elements of an array are NaN, or have a part that is."""
    return int(np.count_nonzero(_nan(a))) if is_inexact(a.dtype) else 0


def _nan(a: np.ndarray) -> np.ndarray:
    return np.isnan(a.real) | np.isnan(a.imag) if np.iscomplexobj(a) else np.isnan(a)


def _result(
    got: np.ndarray, want: np.ndarray, wrong: np.ndarray, off: np.ndarray,
    relative: float, absolute: float,
) -> Comparison:  # fmt: skip
    count = int(np.count_nonzero(wrong))
    if not count:
        return Comparison(wrong.size, 0, relative, absolute)
    key = np.where(wrong, off, -1).reshape(-1)
    if key.size > _KEPT:
        least = np.partition(key, key.size - _KEPT)[key.size - _KEPT]
        flat = np.flatnonzero((key >= least) & wrong.reshape(-1))
    else:
        flat = np.flatnonzero(wrong)
    # The first of those that are equally far off, by their places.
    flat = flat[np.argsort(-key[flat], kind="stable")][:_KEPT]
    places = (tuple(int(i) for i in np.unravel_index(n, wrong.shape)) for n in flat)
    worst = tuple(Mismatch(at, got[at], want[at]) for at in places)
    return Comparison(wrong.size, count, relative, absolute, worst)


def _wide(value: Any) -> Any:
    """Return an element as a double, or two."""
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
