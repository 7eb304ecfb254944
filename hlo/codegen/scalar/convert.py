"""Conversions between element types, of values and of bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hlo.codegen.llvm import Builder, Index, Val, float_const, int_const
from hlo.codegen.scalar import floats
from hlo.codegen.scalar.math.expr import INF, Num
from hlo.codegen.scalar.math.rounding import floor
from hlo.codegen.scalar.representation import Cplx, Value, from_bits, ssa_type, to_bits
from hlo.ops.elementwise.casts import UNSIGNED_OF, float_info
from hlo.ops.elementwise.conversion import reduction_type
from hlo.values.types import ElementType, complex_part, integer_range


def convert(b: Builder, value: Value, source: ElementType, target: ElementType) -> Value:
    """Convert between any two types as the `convert` operation does.

    Float to integer truncates, saturates, and maps NaN to 0; anything but zero is true.
    """
    if source is target:
        return value
    if target.is_complex:
        part = complex_part(target)
        if isinstance(value, Cplx):
            inner = complex_part(source)
            re, im = (convert(b, v, inner, part) for v in (value.re, value.im))
            assert isinstance(re, Val) and isinstance(im, Val)
            return Cplx(re, im)
        re = convert(b, value, source, part)
        assert isinstance(re, Val)
        return Cplx(re, float_const(re.type, 0.0))
    if isinstance(value, Cplx):
        return convert(b, value.re, complex_part(source), target)
    if target.is_pred:
        if source.is_float:
            return (Num(b, value) != 0).val
        return value if source.bits == 1 else (Num(b, value) != 0).val
    if target.is_integer:
        if source.is_float:
            return _float_to_int(b, value, target)
        return Num(b, value).to_int(target.bits, source.is_signed).val
    if source.is_float:
        return float_to_float(b, value, target)
    return _int_to_float(b, value, source.is_signed, target)


def _int_to_float(b: Builder, value: Val, signed: bool, target: ElementType) -> Val:
    x = Num(b, value)
    if target.bits >= 32:
        return x.to_float(ssa_type(target), signed).val
    if x.width <= 16:
        return round_to(b, target, x.to_float("float", signed).val)
    if x.width == 64:
        # Of more bits than a double has only whether any of the last is set is kept; the target
        # has no halfway point there.
        coarse = x.ashr(11) if signed else x.lshr(11)
        sticky = ((x & 2047) != 0).to_int(64)
        high = x.ashr(52) if signed else x.lshr(52)
        fits = (high == 0) | (high == -1) if signed else high == 0
        x = fits.where(x, (coarse | sticky) << 11)
    return round_to(b, target, floats.double_to_odd_float(b, x.to_float("double", signed).val))


def _float_to_int(b: Builder, value: Val, target: ElementType) -> Val:
    name = "fptosi" if target.is_signed else "fptoui"
    bits = max(target.bits, 8)
    raw = b.intrinsic(f"{name}.sat", f"i{bits}", [value], [value.type])
    if bits == target.bits:
        return raw
    low, high = integer_range(target)
    s = "s" if target.is_signed else "u"
    raw = b.intrinsic(f"{s}max", "i8", [raw, Val("i8", str(low))])
    raw = b.intrinsic(f"{s}min", "i8", [raw, Val("i8", str(high))])
    return Num(b, raw).to_int(target.bits).val


def float_to_float(b: Builder, value: Val, target: ElementType) -> Val:
    """Return a `float` or `double` as a value of a float type, rounded once."""
    if value.type == "double" and target.bits < 32:
        value = floats.double_to_odd_float(b, value)
    return round_to(b, target, Num(b, value).to(ssa_type(target)).val)


def round_to(b: Builder, et: ElementType, value: Val, *, keeps_nan: bool = False) -> Val:
    """Round a `float` to a narrower type's nearest value; f32 and f64 are as they are.

    keeps_nan: it was computed of values of the type, see `Native`.
    """
    return value if et.bits >= 32 else floats.round_to(b, et, value, keeps_nan=keeps_nan)


# --- bits ---------------------------------------------------------------------------------------


def bitcast(b: Builder, value: Value, source: ElementType, target: ElementType) -> Value:
    """Return the value of another type of equal width that has the same bits."""
    if isinstance(value, Cplx) or source is target:
        return value
    return from_bits(b, target, to_bits(b, source, value))


def piece(b: Builder, value: Value, source: ElementType, target: ElementType, at: Index) -> Value:
    """Return piece `at` of a value's bits as a narrower type, the lowest bits first."""
    if isinstance(value, Cplx):
        half = complex_part(target)
        word = Num(b, b.select(b.compare("eq", at, 0), value.re, value.im)).bits()
        parts = [from_bits(b, half, w.to_int(half.bits).val) for w in (word, word.lshr(half.bits))]
        return Cplx(*parts)
    raw = Num(b, to_bits(b, source, value))
    shift = Num(b, Val("i64", str(b.mul(at, target.bits)))).to_int(raw.width)
    return from_bits(b, target, raw.lshr(shift).to_int(target.bits).val)


def join(b: Builder, values: Sequence[Value], source: ElementType, target: ElementType) -> Value:
    """Return the value of a wider type that has the bits of several, the lowest bits first."""
    if target.is_complex:
        part = complex_part(source)
        words = []
        for value in values:
            assert isinstance(value, Cplx)
            words.append(_join_bits(b, [value.re, value.im], part))
        return Cplx(*(from_bits(b, complex_part(target), w.val) for w in words))
    found = [v for v in values if isinstance(v, Val)]
    return from_bits(b, target, _join_bits(b, found, source).val)


def _join_bits(b: Builder, values: Sequence[Val], et: ElementType) -> Num:
    width = et.bits * len(values)
    result = Num(b, int_const(width, 0))
    for k, value in enumerate(values):
        result = result | (Num(b, to_bits(b, et, value)).to_int(width) << (k * et.bits))
    return result


def reduce_precision(
    b: Builder, value: Val, et: ElementType, exponent_bits: int, mantissa_bits: int
) -> Val:
    """Round to a format of fewer bits and back, as the `reduce-precision` operation does."""
    wide = reduction_type(et)
    if wide is not et:
        # Values of narrow types are represented as floats: no conversion is needed.
        return round_to(b, et, reduce_precision(b, value, wide, exponent_bits, mantissa_bits))
    mantissa = float_info(et).nmant

    def code(number: float) -> int:
        return int(np.asarray(number).astype(et.dtype).view(f"u{et.byte_width}"))

    x = Num(b, to_bits(b, et, value))
    sign = x & (1 << (et.bits - 1))
    size = x ^ sign
    if mantissa_bits < mantissa:
        cut = mantissa - mantissa_bits
        odd = size.lshr(cut) & 1
        size = (size + (odd + ((1 << cut - 1) - 1))) & -(1 << cut)
    if exponent_bits < et.bits - 1 - mantissa:
        bias, least = code(1.0) >> mantissa, (1 << (exponent_bits - 1)) - 1
        exponent = size.lshr(mantissa)
        over, under = exponent > bias + least, exponent <= bias - least
        size = over.where(size.lift(code(math.inf)), under.where(size.lift(0), size))
    result = Num(b, from_bits(b, et, (size | sign).val))
    return Num(b, value).is_nan().where(Num(b, value), result).val


def stochastic_convert(
    b: Builder, value: Val, random: Val, source: ElementType, target: ElementType
) -> Val:
    """Round a float to a signed integer, away from zero where `random` is below the fraction.

    Saturates; NaN gives 0.
    """
    low, high = integer_range(target)
    x = Num(b, value).to("double")
    size = x.abs()
    whole = floor(size)
    # The fraction, as an integer with as many bits as the random number, is truncated.
    fraction = (size - whole) * 2.0**source.bits
    limit = _float_to_int(b, fraction.val, UNSIGNED_OF[source.bits])
    below = Num(b, b.icmp("ult", random, limit))
    up = below & (size < INF)
    rounded = up.where(whole + 1.0, whole).copysign(x)
    # Saturation depends on the operand: values rounded up to the end are there already.
    ends = (x >= float(high)).where(INF, (x <= float(low)).where(-INF, rounded))
    return _float_to_int(b, ends.val, target)
