"""Narrow floating-point types: decoding, rounding and encoding by integer arithmetic.

All of it is branch-free and vectorizes on every target; none of it needs a library call. Infinities
and NaN are as in ml_dtypes, and so in the reference interpreter: types without infinity overflow to
NaN, the `fnuz` types have one zero and one NaN, those below 8 bits saturate.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Val, float_const, int_const
from hlo.codegen.scalar.math.expr import Num, lift
from hlo.values.types import ElementType

_F32_MANTISSA, _F32_BIAS = 23, 127
_SIGN, _MAGNITUDE = -(1 << 31), (1 << 31) - 1
_INFINITY, _QUIET_NAN, _QUIET_BIT = 0x7F800000, 0x7FC00000, 0x00400000


@dataclass(frozen=True)
class Format:
    """A narrow float with a sign: `mantissa` stored bits, values 1.m * 2**(e - bias).

    has_infinity: the top exponent holds infinity and NaN as in IEEE 754. one_zero: the bits of -0
    mean NaN. Otherwise all bits set mean NaN, or, if it `saturates`, the largest number.
    """

    bits: int
    mantissa: int
    bias: int
    has_infinity: bool = False
    one_zero: bool = False
    saturates: bool = False

    @property
    def largest(self) -> int:
        """The bits of the largest finite number."""
        top = (1 << self.bits - 1) - 1
        if self.has_infinity:
            return top - (1 << self.mantissa)
        return top if self.one_zero or self.saturates else top - 1

    def as_f32(self, bits: int) -> int:
        """Return the f32 bits of the normal positive number with the given bits."""
        shift = _F32_MANTISSA - self.mantissa
        return (bits << shift) + (_F32_BIAS - self.bias << _F32_MANTISSA)

    @property
    def least_normal(self) -> int:
        return self.as_f32(1 << self.mantissa)

    @property
    def magic(self) -> float:
        """The power of two at which an f32's last bit is worth this format's least number."""
        return float(2.0 ** (_F32_MANTISSA + 1 - self.bias - self.mantissa))


FORMATS = {
    "bf16": Format(16, 7, 127, has_infinity=True),
    "f16": Format(16, 10, 15, has_infinity=True),
    "f8e5m2": Format(8, 2, 15, has_infinity=True),
    "f8e4m3": Format(8, 3, 7, has_infinity=True),
    "f8e3m4": Format(8, 4, 3, has_infinity=True),
    "f8e4m3fn": Format(8, 3, 7),
    "f8e4m3b11fnuz": Format(8, 3, 11, one_zero=True),
    "f8e4m3fnuz": Format(8, 3, 8, one_zero=True),
    "f8e5m2fnuz": Format(8, 2, 16, one_zero=True),
    "f4e2m1fn": Format(4, 1, 1, saturates=True),
    "f6e2m3fn": Format(6, 3, 1, saturates=True),
    "f6e3m2fn": Format(6, 2, 3, saturates=True),
}


def decode(b: Builder, et: ElementType, raw: Val) -> Val:
    """Return the `float` of an element's bits in memory (i16, or i8 below 16 bits)."""
    value = _decode(b, et, raw)
    # Values that are only moved keep their bits: `encode` recovers them.
    b.remember(("raw", et.name, value.name), raw)
    return value


def _decode(b: Builder, et: ElementType, raw: Val) -> Val:
    wide = Num(b, b.cast("zext", raw, "i32"))
    if et.name == "f8e8m0fnu":
        # A bare exponent; its least, 2**-127, is subnormal in f32.
        value = (wide == 0).where(1 << 22, wide << 23)
        return (wide == 255).where(_QUIET_NAN, value).as_float().val
    f = FORMATS[et.name]
    if et.name == "bf16":
        return (wide << 16).as_float().val
    if et.name == "f16" and b.module.has_half_conversion:
        return b.cast("fpext", b.cast("bitcast", raw, "half"), "float")
    sign_bit = 1 << f.bits - 1
    size = wide & (sign_bit - 1)
    sign = (wide & sign_bit) << (32 - f.bits)
    shifted = size << (_F32_MANTISSA - f.mantissa)
    normal = shifted + (_F32_BIAS - f.bias << _F32_MANTISSA)
    # A subnormal is read as 1.m times the least normal number, which is then taken away.
    above = (shifted + f.least_normal).as_float()
    least = float(2.0 ** (1 - f.bias))
    value = (size < 1 << f.mantissa).where((above - least).bits(), normal)
    if f.has_infinity:
        quiet = shifted | (_INFINITY | _QUIET_BIT)
        special = (size == f.largest + 1).where(_INFINITY, quiet)
        value = (size > f.largest).where(special, value)
    elif f.one_zero:
        value = (wide == sign_bit).where(_QUIET_NAN, value)
    elif not f.saturates:
        value = (size > f.largest).where(_QUIET_NAN, value)
    return (value | sign).as_float().val


def encode(b: Builder, et: ElementType, value: Val) -> Val:
    """Return the bits in memory of a `float` that the type has."""
    raw = b.remembered(("raw", et.name, value.name))
    if raw is not None:
        assert isinstance(raw, Val)
        return raw
    memory = "i16" if et.bits == 16 else "i8"
    x = Num(b, value).bits()
    if et.name == "f16" and b.module.has_half_conversion:
        return b.cast("bitcast", b.cast("fptrunc", value, "half"), "i16")
    return b.cast("trunc", _encode(et, x).val, memory)


def _encode(et: ElementType, x: Num) -> Num:
    if et.name == "f8e8m0fnu":
        # NaN has all ones in the exponent, and 2**-127 all zeros.
        return (x & _MAGNITUDE).lshr(23)
    f = FORMATS[et.name]
    if et.name == "bf16":
        return x.lshr(16)
    size = x & _MAGNITUDE
    shift = _F32_MANTISSA - f.mantissa
    normal = (size - (_F32_BIAS - f.bias << _F32_MANTISSA)).lshr(shift)
    magic = lift(x.b, "float", f.magic)
    small = (size.as_float() + magic).bits() - magic.bits()
    code = (size < f.least_normal).where(small, normal)
    sign = x.lshr(32 - f.bits) & (1 << f.bits - 1)
    top = (1 << f.bits - 1) - 1
    if f.has_infinity:
        # Infinity, and NaN with the high bits of its payload.
        special = size.lshr(shift) & top
        code = (size >= _INFINITY).where(special, code)
    elif f.one_zero:
        return (size > _INFINITY).where(1 << f.bits - 1, code | sign)
    elif not f.saturates:
        code = (size > _INFINITY).where(top, code)
    return code | sign


def round_to(b: Builder, et: ElementType, value: Val, *, keeps_nan: bool = False) -> Val:
    """Round a `float` to the nearest value of the type, ties to even.

    keeps_nan: it was computed of values of the type, see `Native`.
    """
    x = Num(b, value).bits()
    if et.name == "f8e8m0fnu":
        return _round_to_exponent(x).as_float().val
    if et.name == "bf16":
        return _round_to_bf16(Num(b, value), keeps_nan).val
    f = FORMATS[et.name]
    if et.name == "f16" and b.module.has_half_conversion:
        half = b.cast("fptrunc", value, "half")
        return b.cast("fpext", half, "float")
    size = x & _MAGNITUDE
    shift = _F32_MANTISSA - f.mantissa
    kept = -(1 << shift)
    odd = size.lshr(shift) & 1
    rounded = (size + (odd + ((1 << shift - 1) - 1))) & kept
    magic = lift(b, "float", f.magic)
    small = ((size.as_float() + magic) - magic).bits()
    rounded = (size < f.least_normal).where(small, rounded)
    overflow = _INFINITY if f.has_infinity else _QUIET_NAN
    if f.saturates:
        overflow = f.as_f32(f.largest)
    rounded = (rounded > f.as_f32(f.largest)).where(overflow, rounded)
    sign = x & _SIGN
    nan = (size & kept) | _QUIET_BIT
    if f.saturates:
        # There is no NaN either: ml_dtypes, and so the reference, takes it to -0.
        nan, sign = lift(b, "i32", 0), (size > _INFINITY).where(_SIGN, sign)
    elif not f.has_infinity:
        nan = lift(b, "i32", _QUIET_NAN)
    result = (size > _INFINITY).where(nan, rounded)
    if f.one_zero:
        sign = (result == 0).where(0, sign)
    return (result | sign).as_float().val


def _round_to_bf16(value: Num, keeps_nan: bool) -> Num:
    """Round to an f32 without its low half.

    The exponent has the same range: what is carried out of the significand is right up to infinity,
    and the sign stays where it is. A NaN whose low half is zero stays as it is.
    """
    x = value.bits()
    rounded = x + ((x.lshr(16) & 1) + 0x7FFF)
    if not keeps_nan:
        rounded = value.is_nan().where(x | _QUIET_BIT, rounded)
    return (rounded & -0x10000).as_float()


def _round_to_exponent(x: Num) -> Num:
    """Round f32 bits to a power of two, ties up; what is not a positive number becomes NaN."""
    rounded = (x + (1 << _F32_MANTISSA - 1)) & -(1 << _F32_MANTISSA)
    # Below 2**-126, where f32 has a bit less, XLA and ml_dtypes round up all that is above 2**-127.
    small = (x > 1 << _F32_MANTISSA - 1).where(x.lift(1 << _F32_MANTISSA), 1 << _F32_MANTISSA - 1)
    rounded = (x < 1 << _F32_MANTISSA).where(small, rounded)
    inside = (x > 0) & (rounded < _INFINITY) & (x < _INFINITY)
    return inside.where(rounded, _QUIET_NAN)


def double_to_odd_float(b: Builder, value: Val) -> Val:
    """Return a `double` as a `float` whose rounding to a narrower type is the only one.

    An inexact value takes the neighbour with an odd significand, which no halfway point has.
    """
    x = Num(b, value)
    near = x.to("float")
    back = near.to("double")
    bits = near.bits()
    # Towards zero first: one unit less where rounding went away from zero.
    down = bits - (back.abs() > x.abs()).to_int(32)
    odd = down | 1
    return ((back < x) | (back > x)).where(odd, bits).as_float().val


__all__ = [
    "FORMATS",
    "Format",
    "decode",
    "double_to_odd_float",
    "encode",
    "float_const",
    "int_const",
    "round_to",
]
