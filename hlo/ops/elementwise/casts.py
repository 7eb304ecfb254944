"""Conversions between element types, on numpy arrays: the one place where values are rounded.

Arithmetic runs in a *working* type that numpy computes well: bf16, f16, f8 and f4 in f32, sub-byte
integers in a byte. `widen` goes there exactly, `narrow` comes back, rounding floats to nearest even
and wrapping integers. `convert` is the `convert` operation. Source: "ConvertElementType" (003) and,
for what it leaves open (saturation, NaN), XLA's CPU backend.
"""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np

from hlo.values.types import (
    ELEMENT_TYPES,
    FINITE_TYPES,
    ElementType,
    complex_part,
    element_type_of,
    integer_range,
)

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_I8, _U8 = np.dtype(np.int8), np.dtype(np.uint8)


@functools.cache
def working_dtype(et: ElementType) -> np.dtype:
    """Return the numpy type that arithmetic on `et` runs in."""
    if et.is_float and et.bits < 32:
        return _F32
    if et.is_integer and et.bits < 8:
        return _I8 if et.is_signed else _U8
    return et.dtype


@functools.cache
def _byte_values(dtype: np.dtype) -> np.ndarray:
    """Return the f32 value of each of the 256 bytes of a float type of one byte."""
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)


def widen(a: np.ndarray) -> np.ndarray:
    """Return the same values in the working type; the array itself when it is in it already."""
    et = element_type_of(a.dtype)
    if et.is_float and a.dtype.itemsize == 1:
        return np.asarray(_byte_values(a.dtype)[a.view(np.uint8)])
    return a.astype(working_dtype(et), copy=False)


def narrow(a: np.ndarray, et: ElementType) -> np.ndarray:
    """Return `a` in type `et`: floats rounded once to nearest even, integers wrapped.

    `a` is a float array for a float type, an integer array for an integer type, and so on.
    """
    a = np.asarray(a)
    if a.dtype == et.dtype:
        return a
    with np.errstate(all="ignore"):
        if et.is_float and et.bits < 32 and a.dtype == _F64:
            a = _round_to_odd(a)
        if et.name in FINITE_TYPES:
            # They have no NaN; ml_dtypes makes a zero of it whose sign depends on the NaN's.
            a = np.where(np.isnan(a), np.float32(np.nan), a)
        return a.astype(et.dtype)


def _round_to_odd(a: np.ndarray) -> np.ndarray:
    """Return f64 values as f32 such that a second rounding, to a narrower type, is the only one.

    An inexact value takes the neighbour with an odd significand, which no halfway point has.
    """
    near = np.atleast_1d(a.astype(np.float32))
    wide, bits = np.atleast_1d(a), near.view(np.uint32)
    inexact = (near != wide) & ~np.isnan(wide)
    # Towards zero first: one unit less where rounding went away from zero.
    bits -= (inexact & (np.abs(near) > np.abs(wide))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    return near.reshape(a.shape)


def convert(a: np.ndarray, et: ElementType) -> np.ndarray:
    """Return the values of `a` in type `et`.

    Float to integer truncates and saturates, NaN gives 0; integer to integer wraps; anything to
    pred is `!= 0`; complex to real drops the imaginary part; float to float rounds to nearest even,
    and what a type without infinities does with overflow is what ml_dtypes does.
    """
    source = element_type_of(a.dtype)
    if source is et:
        return a
    if source.is_complex and not et.is_complex:
        return convert(np.asarray(a.real), et)
    with np.errstate(all="ignore"):
        if et.is_pred:
            return np.asarray(widen(a) != 0)
        if source.is_float and et.is_integer:
            return narrow(_float_to_integer(widen(a), et), et)
        if et.is_float and et.bits < 32 and source.bits >= 32 and source.is_integer:
            return narrow(_integer_to_f64(a), et)
        via = widen(a)
        if et.is_float and et.bits < 32 and not source.is_float:
            via = via.astype(np.float32)  # exact: integers of at most 16 bits, and pred
        return narrow(via, et)


def _float_to_integer(a: np.ndarray, et: ElementType) -> np.ndarray:
    low, high = integer_range(et)
    if et.bits < 64:
        # Both ends are exact in f64, so clipping first makes the cast safe.
        clipped = np.clip(a.astype(np.float64, copy=False), low, high)
        return np.asarray(np.where(np.isnan(clipped), 0, clipped)).astype(working_dtype(et))
    whole, top = np.trunc(a), float(high + 1)
    inside = (whole >= float(low)) & (whole < top)
    ends = np.where(a >= top, et.dtype.type(high), et.dtype.type(0))
    ends = np.where(a < low, et.dtype.type(low), ends)
    return np.where(inside, np.where(inside, whole, 0).astype(et.dtype), ends)


def _integer_to_f64(a: np.ndarray) -> np.ndarray:
    """Return integers as f64; below the leading 42 bits only whether any bit is set is kept.

    Enough for a correct rounding to any type of fewer bits.
    """
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    kind = a.dtype.type
    exact = np.isin(a >> kind(53), (0, -1) if a.dtype.kind == "i" else (0,))
    sticky = (a & kind(2047)) != 0
    coarse = ((a >> kind(11)) | sticky).astype(np.float64) * 2048.0
    return np.where(exact, a.astype(np.float64), coarse)


def float_info(et: ElementType) -> ml_dtypes.finfo:
    """Return what ml_dtypes knows of a float type (`nmant`, `minexp`, `max`, ...)."""
    return ml_dtypes.finfo(et.dtype)


# The unsigned integer type of so many bits.
UNSIGNED_OF = {t.bits: t for t in ELEMENT_TYPES.values() if t.is_integer and not t.is_signed}


# --- which values types have ---------------------------------------------------------------------


@functools.cache
def widens(source: ElementType, to: ElementType) -> bool:
    """True when every value of a type is one of the other: infinities, NaN and -0 included."""
    if source is to:
        return True
    if to.is_complex:
        return widens(complex_part(source), complex_part(to))
    if source.is_complex or to.is_pred:
        return False
    if source.is_float:
        return to.is_float and _floats_fit(source, to)
    low, high = (0, 1) if source.is_pred else integer_range(source)
    if to.is_integer:
        least, greatest = integer_range(to)
        return least <= low and high <= greatest
    # An integer of n bits fits where the significand has n bits and the exponent reaches.
    info = float_info(to)
    digits = max(high.bit_length(), (-low - 1).bit_length() if low else 0)
    return has_zero(to) and digits <= info.nmant + 1 and high <= float(info.max)


def has_zero(to: ElementType) -> bool:
    return to.name != "f8e8m0fnu"


def _floats_fit(source: ElementType, to: ElementType) -> bool:
    if source.bits >= to.bits:
        return False
    if source.bits <= 8:
        # Few enough to try them all.
        codes = np.arange(1 << source.bits, dtype=np.uint8).view(source.dtype)
        with np.errstate(all="ignore"):
            back = codes.astype(np.float32).astype(to.dtype).astype(np.float32)
            values = codes.astype(np.float32)
        same = (back == values) & (np.signbit(back) == np.signbit(values))
        return bool((same | (np.isnan(values) & np.isnan(back))).all())
    a, b = ml_dtypes.finfo(source.dtype), ml_dtypes.finfo(to.dtype)
    return bool(a.nmant <= b.nmant and a.minexp >= b.minexp and a.maxexp <= b.maxexp)
