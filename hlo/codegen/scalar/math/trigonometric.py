"""Sine, cosine and tangent.

x = k p + r with p = pi (or pi / 2), an integer k and |r| <= p / 2. Up to some thousands (f32) or a
million (f64) p is taken from x in parts, each with so few bits that k times it is exact. Beyond,
the relevant digits of 1 / pi are multiplied by the bits of x as integers (Payne and Hanek), which
is accurate for every finite x.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.scalar.math.expr import INF, NAN, Num, split


@dataclass(frozen=True)
class _Trig:
    """How sine and cosine are computed in one format.

    limit: greatest magnitude for reduction in parts. pi: its parts. sine: (sin(r) - r) / r**3 by
    powers of r**2 for |r| <= pi / 2.
    """

    limit: float
    pi: tuple[float, ...]
    sine: tuple[float, ...]


_TRIG = {
    # within 2**-27.2 of sin(r); parts of 12 bits
    "float": _Trig(
        6400.0,
        (3.140625, 0.0009675025939941406, 1.5099067240953445e-07, 5.126688136514179e-12),
        (2.6061027e-06, -0.00019809778, 0.008333069, -0.1666666),
    ),
    # within 2**-61.5; parts of 33 bits
    "double": _Trig(
        1.0e6,
        (3.1415926534682512, 1.2154201012607932e-10, 4.044532497422333e-21, 1.69568553207378e-31),
        (2.7216694983824107e-15, -7.643042753236761e-13, 1.6058941880267252e-10,
         -2.505210692124935e-08, 2.7557319211741604e-06, -0.0001984126984121336,
         0.008333333333333208, -0.16666666666666666),
    ),
}  # fmt: skip
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
# For |r| <= pi / 4: (sin(r) - r) / r**3 within 2**-57.8 and (cos(r) - 1 + r**2 / 2) / r**4 within
# 2**-63.9, by powers of r**2.
_SINE = (
    (1.5895942652059098e-10, -2.5050742286110935e-08, 2.755731358192284e-06,
     -0.00019841269829457198, 0.008333333333321917, -0.1666666666666663)
)  # fmt: skip
_COSINE = (
    (-1.1358755156613101e-11, 2.0875705528826734e-09, -2.7557314218101993e-07,
     2.480158728900568e-05, -0.0013888888888873346, 0.041666666666666595)
)  # fmt: skip
# The first 1184 bits of 1 / pi behind the point, enough for the largest double.
_INVERSE_PI = (
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e97003249775"
    "04e8c90e7f0ef58e5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa4e422fc5defc941d"
    "8ffc4bffef02cc07f79788c5ad05368fb69b3f6793e584dba7a31fb34f2ff516ba93dd63f5f2f8bd9e839cfb"
    "c529497535fdafd88fc6ae842b019823"
)
_LEADING_ZEROS = 64


def sine(x: Num) -> Num:
    """Return the sine, within 2 ulp."""
    return _sine_of_sum(x, False)


def cosine(x: Num) -> Num:
    """Return the cosine, within 2.1 ulp: the sine a quarter of a turn on."""
    return _sine_of_sum(x, True)


def _sine_of_sum(x: Num, quarter: bool) -> Num:
    """Return sin(x), or sin(x + pi / 2)."""
    p = _TRIG[x.type]
    shifted = x * (1.0 / 3.141592653589793)
    if quarter:
        shifted = shifted + 0.5
    shifted = shifted + x.layout.magic
    k = shifted - x.layout.magic
    if quarter:
        k = k - 0.5
    r, tail = _take_parts(x, k)

    def beyond() -> list[Val]:
        parity, exact, rest = _reduce_any(x.to("double"), 1, 0.5 if quarter else 0.0)
        bits = parity.to_int(x.width)
        if tail is None:
            return [bits.val, (exact + rest).to(x.type).val]
        return [bits.val, exact.val, rest.val]

    usual = [shifted.bits(), r] if tail is None else [shifted.bits(), r, tail]
    odd, *parts = (
        Num(x.b, v) for v in x.b.rarely((x.abs() > p.limit).val, [u.val for u in usual], beyond)
    )
    r = sum(parts[1:], parts[0])
    z = r * r
    rest = r * z * z.polynomial(p.sine)
    if tail is not None:
        # The rounding error of r is multiplied by the cosine; a rough one suffices.
        rest = rest + ((parts[0] - r) + parts[1]) * (1.0 - 0.405 * z)
    value = rest + r
    # Rounding must not exceed 1.
    value = value.at_most(1.0).at_least(-1.0)
    if not quarter:
        # The sum has lost the sign of -0.
        value = (x == 0).where(x, value)
    return (value.bits() ^ (odd << (x.width - 1))).as_float()


def _take_parts(x: Num, k: Num) -> tuple[Num, Num | None]:
    """Return x - k pi, and for doubles what it lacks."""
    first, *others = _TRIG[x.type].pi
    r = x - k * first
    if x.type == "float":
        for part in others:
            r = r - k * part
        return r, None
    product = k * others[0]
    before, r = r, (r.strict - product).loose
    tail = (before.strict - r) - product
    for part in others[1:]:
        tail = tail.loose - k * part
    return r, tail


def sine_cosine(x: Num) -> tuple[Num, Num]:
    """Return sine and cosine of a double, each within 0.9 ulp."""
    turn = _quarter(x)
    k, (s, _), (c, _) = turn.k, turn.sine, turn.cosine
    odd = (k & 1) == 1
    sine, cosine = odd.where(c, s), odd.where(s, c)
    sine = (sine.bits() ^ ((k & 2) << 62)).as_float()
    cosine = (cosine.bits() ^ (((k + 1) & 2) << 62)).as_float()
    return sine, cosine


def tangent(x: Num, rough: bool = False) -> Num:
    """Return the tangent of a double, within 1.6 ulp.

    rough: leave sine and cosine as they are rounded, which is enough for f32.
    """
    turn = _quarter(x)
    (s, s_rest), (c, c_rest) = turn.sine, turn.cosine
    odd = (turn.k & 1) == 1
    above, below = odd.where(-c, s), odd.where(s, c)
    quotient = above / below
    if rough:
        return quotient
    # What the rounding of sine and cosine has lost is worth a third of a unit each.
    lost = odd.where(-c_rest, s_rest) - quotient * odd.where(s_rest, c_rest)
    refined = quotient + lost / below
    # The sum has lost the sign of -0.
    return (x == 0).where(x, refined)


@dataclass(frozen=True)
class _Quarter:
    """x = k pi / 2 + r: k, and sin(r) and cos(r), each with what its rounding lost."""

    k: Num
    sine: tuple[Num, Num]
    cosine: tuple[Num, Num]


def _quarter(x: Num) -> _Quarter:
    """Reduce a double to |r| <= pi / 4."""
    magic = x.layout.magic
    shifted = x * (2.0 / 3.141592653589793) + magic
    k = (shifted - magic).strict
    # Each difference is kept with what its rounding has lost.
    y = x.strict - k * _HALF_PI[0]
    lost = x.lift(0.0).strict
    for part in _HALF_PI[1:-1]:
        product = k * part
        following = y - product
        lost = lost + ((y - following) - product)
        y = following
    lost = lost - k * _HALF_PI[-1]

    def beyond() -> list[Val]:
        quarters, exact, tail = _reduce_any(x, 2, 0.0)
        return [exact.val, tail.val, quarters.val]

    near = [y.val, lost.val, shifted.bits().val]
    values = x.b.rarely((x.abs() > _TRIG["double"].limit).val, near, beyond)
    y, lost, turns = (Num(x.b, v, True) for v in values)
    r = y + lost
    tail = ((y - r) + lost).loose
    r = (x == 0).where(x, r).loose
    z = r * r
    above = r * z * z.polynomial(_SINE) + tail
    # The sum loses the sign of -0.
    s = (above + r).copysign(r)
    half = 0.5 * z
    whole = 1.0 - half
    below = ((1.0 - whole) - half) + (z * z * z.polynomial(_COSINE) - r * tail)
    c = whole + below
    return _Quarter(turns.loose, (s, above - (s - r)), (c, below - (c - whole)))


# --- any magnitude ------------------------------------------------------------------------------


def _table(b: Builder) -> str:
    """Return the address of 1 / pi as 32-bit words, the first of them zero."""
    digits = "0" * (_LEADING_ZEROS // 4) + _INVERSE_PI
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    numbers = ", ".join(f"i32 {w}" for w in words)
    return b.module.define(
        "hlo.inverse_pi", f"private unnamed_addr constant [{len(words)} x i32] [{numbers}]"
    )


def _reduce_any(x: Num, doublings: int, offset: float) -> tuple[Num, Num, Num]:
    """Return k (its low bits), r and the rest of r for a double above 2**12.

    x = (k - offset) p + r + rest with p = pi for one doubling, pi / 2 for two; NaN for infinity.
    """
    b = x.b
    bits = x.bits()
    exponent = bits.lshr(52) & 0x7FF
    # x = m 2**e. Multiples of two in 2**e / pi times the integer m do not matter: the digits that
    # do begin with the one that is worth 1.
    at = exponent - (1023 + 52) + (_LEADING_ZEROS - 1)
    at = (at < 0).where(0, at)
    word, bit = at.lshr(5), (at & 31).to_int(32)
    table = _table(b)
    words = []
    for i in range(7):
        number = word + i
        address = b.element_address(table, "i32", number.val.name, number.width)
        words.append(Num(b, b.load("i32", address, align=4, is_constant=True)))
    limbs = [words[i].call("fshl", words[i + 1], bit).to_int(64) for i in range(6)]
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    high, low = m.lshr(32), m & 0xFFFFFFFF
    mask = 0xFFFFFFFF
    # Column c collects what is worth 2**(-31 - 32 c); all of the first above 2 is left out.
    carry = (low * limbs[4]).lshr(32) + (high * limbs[5]).lshr(32)
    columns = []
    for c in (3, 2, 1, 0):
        p, q = low * limbs[c], high * limbs[c + 1]
        total = (p & mask) + (q & mask) + carry
        columns.append(total & mask)
        carry = total.lshr(32) + p.lshr(32) + q.lshr(32)
    top = (columns[3] << 32) | columns[2]
    rest = (columns[1] << 32) | columns[0]
    return _nearest(x, top, rest, doublings, offset)


def _nearest(x: Num, top: Num, rest: Num, doublings: int, offset: float) -> tuple[Num, Num, Num]:
    """Return k, r and its rest from the magnitude's x / pi mod 2 with 127 bits behind the point."""
    flip = (x.bits() < 0).where(top.lift(-1), 0)
    top, rest = (top ^ flip) + (int(offset * 2) << 62), rest ^ flip
    k = (top + (1 << 63 - doublings)).lshr(64 - doublings)
    high, low = (top << doublings) | rest.lshr(64 - doublings), rest << doublings
    head = (high & -2048).to_float("double")
    tail = (high & 2047).to_float("double") + low.to_float("double", signed=False) * 2.0**-64
    value = (head + tail).strict
    lost = (tail.strict - (value - head)).loose
    period, period_tail = (3.141592653589793, 1.2246467991473532e-16)
    scale = 2.0 ** (-63 - doublings)
    # The product with all its digits.
    a, a_low = split(value, 27)
    p, p_low = split(x.lift(period), 27)
    product = (value * period).strict
    error = ((a * p - product) + a * p_low + a_low * p) + a_low * p_low
    error = error.loose + (value.loose * period_tail + lost * period)
    bad = x.abs() == INF
    return k, bad.where(NAN, product.loose * scale), error * scale
