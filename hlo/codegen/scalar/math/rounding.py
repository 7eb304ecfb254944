"""Rounding to integers, sign, and remainders."""

from __future__ import annotations

from hlo.codegen.llvm import FALSE, Val
from hlo.codegen.scalar.math.expr import INF, NAN, Num, power_of_two, round_even, split


def floor(x: Num) -> Num:
    """Return the greatest integer that is not above x."""
    near = round_even(x)
    # -0 stays: the difference below is only taken where something is to be taken away.
    return (near > x).where(near - 1.0, near)


def ceil(x: Num) -> Num:
    """Return the least integer that is not below x; -0.5 gives -0."""
    near = round_even(x)
    return (near < x).where(near + 1.0, near).copysign(x)


def round_away(x: Num) -> Num:
    """Round to the nearest integer, halves away from zero; -0.3 gives -0."""
    size = x.abs()
    near = round_even(size)
    # A half that went down to an even number goes up instead.
    return (size - near == 0.5).where(near + 1.0, near).copysign(x)


def sign(x: Num) -> Num:
    """Return -1 or 1; zeros keep their sign and NaN stays."""
    return ((x == 0) | x.is_nan()).where(x, x.lift(1.0).copysign(x))


# Bits of quotient that one step of `_remainder_of_floats` finds; ten steps cover f32's whole range.
_STEP, _STEPS = 28, 10


def _remainder_of_floats(x: Num, y: Num) -> Num:
    """Take multiples of y * 2**(28 j) from x, where each difference is exact: both were floats."""
    size, rest = y.abs(), x.abs().strict
    inverse = 1.0 / size

    def steps(rest: Num, count: int) -> Num:
        for j in reversed(range(count)):
            scale = 2.0 ** (_STEP * j)
            quotient = _nearest(rest * (inverse * (1.0 / scale)))
            rest = rest - quotient * (size * scale)
        return rest

    near = steps(rest, 1)
    (value,) = x.b.rarely(
        (rest > size * 2.0**_STEP).val, [near.val], lambda: [steps(rest, _STEPS).val]
    )
    left = Num(x.b, value)
    result = (left < 0).where(left + size, left).copysign(x)
    # Nothing is taken from a finite number by infinity.
    return ((size == INF) & (rest < INF)).where(x, result)


def _nearest(x: Num) -> Num:
    """Round a double of less than 2**51 to an integer."""
    magic = x.layout.magic
    return (x.strict + magic) - magic


def remainder(x: Num, y: Num, rough: bool = False) -> Num:
    """Return what division of doubles to an integer leaves, exactly, with the sign of x.

    NaN for y = 0. rough: both have been floats, for which there is a shorter way.
    """
    if rough:
        return _remainder_of_floats(x, y)
    # One multiple of y is taken away, or digit after digit where that is not exact.
    size, whole = y.abs(), x.abs()
    quotient = _nearest(whole / size)
    head, tail = split(size, 27)
    left = (whole.strict - quotient * head) - quotient * tail
    left = (left < 0).where(left + size, left)
    (value,) = x.b.rarely(
        (whole > size * 2.0**24).val,
        [left.val],
        lambda: [_long_division(whole, size).val],
    )
    result = (whole < size).where(x, Num(x.b, value).copysign(x))
    return ((size == INF) & (whole < INF)).where(x, result)


def _long_division(x: Num, y: Num) -> Num:
    """Return the remainder of positive doubles x >= y, eleven bits of the quotient at a time.

    A loop, since exponents may lie two thousand apart. NaN for x infinite or y = 0.
    """
    b = x.b
    valid = (x < INF) & (y < INF) & (y > 0)
    top, top_exponent = _significand(x)
    low, low_exponent = _significand(y)
    low = valid.where(low, 1)
    apart = top_exponent - low_exponent
    apart = (valid & (apart > 0)).where(apart, 0)
    left = b.alloca("i64")
    b.store(top.urem(low).val, left.name)
    with b.loop(0, b.udiv((apart + 10).val.name, 11)) as i:
        rest = apart - Num(b, Val("i64", i)) * 11
        digits = (rest > 11).where(11, rest)
        shifted = Num(b, b.load("i64", left.name)) << digits
        b.store(shifted.urem(low).val, left.name)
    value = Num(b, b.load("i64", left.name)).to_float("double")
    exponent = low_exponent - (1023 + 52)
    half = exponent.ashr(1)
    value = value * power_of_two(half) * power_of_two(exponent - half)
    return valid.where(value, NAN)


def _significand(x: Num) -> tuple[Num, Num]:
    """Return m with its highest bit at 52 and a biased exponent e: x = m * 2**(e - 1075)."""
    bits = x.bits()
    exponent, fraction = bits.lshr(52) & 0x7FF, bits & ((1 << 52) - 1)
    shift = fraction.call("ctlz", Num(x.b, FALSE)) - 11
    tiny = exponent == 0
    return (
        tiny.where(fraction << (shift & 63), fraction | (1 << 52)),
        tiny.where(1 - shift, exponent),
    )
