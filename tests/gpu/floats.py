"""Formats of floating-point numbers, and numbers rounded to them exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np

from tests.gpu.instructions import floats, run

COUNT = 400
# Register, bits of the mantissa, least exponent of a normal number, numpy's type of bits.
FORMATS = {
    "f16": ("%rs", 10, -14, np.float16, np.uint16),
    "bf16": ("%rs", 7, -126, ml_dtypes.bfloat16, np.uint16),
    "f32": ("%r", 23, -126, np.float32, np.uint32),
    "f64": ("%rd", 52, -1022, np.float64, np.uint64),
}


def rounded(value: Fraction, mantissa: int, least: int, largest: int, mode: str = "rn") -> float:
    """Return a number rounded to a format. largest: the exponent that numbers stay below."""
    if not value:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(least, exponent - (size < Fraction(2) ** exponent))
    unit = Fraction(2) ** (exponent - mantissa)
    whole: dict[str, Callable[[Fraction], int]] = {
        "rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil,
    }  # fmt: skip
    found = whole[mode](value / unit) * unit
    limit = Fraction(2) ** largest
    if abs(found) < limit:
        return math.copysign(float(found), 1 if value > 0 else -1)
    stays = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
    biggest = float(limit - Fraction(2) ** (largest - 1 - mantissa))
    return math.copysign(biggest if stays else math.inf, 1 if value > 0 else -1)


def values_of(type_: str, rng: np.random.Generator, count: int = COUNT) -> np.ndarray:
    """Return numbers of a PTX type."""
    dtype = FORMATS[type_][3]
    if dtype is ml_dtypes.bfloat16:
        drawn = rng.integers(0, 1 << 16, count, np.uint16).view(dtype)
        near = (rng.integers(-512, 512, count) / 8.0).astype(dtype)
        return np.where(rng.random(count) < 0.5, drawn, near)
    return floats(rng, dtype, count)


def compute(name: str, type_: str, *operands: np.ndarray) -> np.ndarray:
    """Return what an instruction of a type does."""
    register, _, _, dtype, bits = FORMATS[type_]
    names = ", ".join(f"{register}{n}" for n in range(1, len(operands) + 2))
    found: np.ndarray = run(f"{name} {names}", *(o.view(bits) for o in operands))
    return found.view(dtype).astype(np.float64)


def same(got: float, expected: float) -> bool:
    """Return whether numbers are equal, with their signs; all NaN are."""
    if math.isnan(expected):
        return math.isnan(got)
    return got == expected and math.copysign(1, got) == math.copysign(1, expected)
