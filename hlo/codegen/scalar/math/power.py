"""Powers and roots."""

from __future__ import annotations

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.scalar.math.exponential import exp_small, scale
from hlo.codegen.scalar.math.expr import INF, NAN, Num, round_even, split
from hlo.codegen.scalar.math.logarithm import decompose

# log(1 + f) = 2 atanh(s) = (2 / 3) s (3 + z + z**2 L(z)) with s = f / (2 + f) and z = s**2; L by
# powers of z, within 2**-66.2 of the sum.
_L = (
    (0.19794362923404277, 0.19885239314729605, 0.23080135518672545, 0.2727267655930352,
     0.3333333377981087, 0.428571428551496, 0.6000000000000338)
)  # fmt: skip
# 2 / (3 ln 2)
_TO_LOG2 = (0.9617966860532761, 7.872699542894897e-09)
_LN2 = 0.6931471805599453


def power(x: Num, y: Num, rough: bool = False) -> Num:
    """Return x to the y of doubles, within 1.2 ulp, with the special cases of C's pow.

    rough: with a plain logarithm, which is enough for f32.
    """
    size = x.abs()
    tiny = size < x.layout.least_normal
    _, k, m = decompose(tiny.where(size * 2.0**54, size))
    k = tiny.where(k - 54.0, k)
    log_high, log_low = _log2(k, m) if rough else _log2_parts(k, m)
    y_high, y_low = split(y, 27)
    # The product's head is exact: both factors have at most 26 bits.
    head = (y_high * log_high).loose
    tail = y_low.loose * log_high.loose + y * log_low
    whole = y * (log_high.loose + log_low)
    over, under = whole > 1100.0, whole < -1100.0
    n = round_even((over | under).where(0.0, head + tail))
    fraction = (head - n) + tail
    result = scale(exp_small(fraction * _LN2), _to_int(n))
    result = over.where(INF, under.where(0.0, result))
    result = (size == 1).where(1.0, result)
    # Zero and infinity have no logarithm; what comes of them depends on the sign of y alone.
    vanishes = (size == 0) ^ (y < 0)
    result = ((size == 0) | (size == INF)).where(vanishes.where(x.lift(0.0), INF), result)
    return _with_sign(x, y, result)


def _with_sign(x: Num, y: Num, result: Num) -> Num:
    """Return |x| to the y as x to the y."""
    whole = round_even(y) == y
    half = y * 0.5
    odd = whole & (round_even(half) != half)
    invalid = (x < 0) & (x > -INF) & ~whole
    result = invalid.where(NAN, result)
    result = ((x.bits() < 0) & odd).where(-result, result)
    result = (x.is_nan() | y.is_nan()).where(NAN, result)
    return ((y == 0) | (x == 1)).where(1.0, result)


def _to_int(n: Num) -> Num:
    """Return a small whole double as an i64."""
    magic = n.lift(n.layout.magic)
    return (n + magic).bits() - magic.bits()


def _log2(k: Num, m: Num) -> tuple[Num, Num]:
    """Return the base-2 logarithm of 2**k m in two parts, the first of 26 bits."""
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    value = k + s * (z * z * z.polynomial(_L) + z + 3.0) * (_TO_LOG2[0] + _TO_LOG2[1])
    head, tail = split(value, 27)
    return head, tail.loose


def _log2_parts(k: Num, m: Num) -> tuple[Num, Num]:
    """Return the base-2 logarithm of 2**k m in two parts, together good for 2**-64 or so."""
    f, above = m - 1.0, m + 1.0
    # s in two parts: above may lack a bit of m + 1.
    above_head, _ = split(above, 27)
    above_rest = m.strict - (above_head - 1.0)
    inverse = 1.0 / above
    s = f * inverse
    head, _ = split(s, 27)
    rest = ((f.strict - head * above_head) - head * above_rest).loose * inverse
    # z in two parts, of which the first is exact.
    square = (head * head).loose
    more = rest * (head.loose + head.loose + rest)
    z = square + more
    series = z * z * z.polynomial(_L) + more
    # t = 3 + z + z**2 L, and u + v = s t
    t, _ = split(square + 3.0 + series, 27)
    t_rest = series - ((t.loose - 3.0) - square)
    u, v = (head * t).strict, rest * t.loose + t_rest * s
    p, _ = split(u + v, 27)
    p_rest = v - (p - u).loose
    high = (p * _TO_LOG2[0]).strict
    low = p.loose * _TO_LOG2[1] + p_rest * (_TO_LOG2[0] + _TO_LOG2[1])
    total, _ = split((k.strict + high) + low, 27)
    return total, low - ((total - k) - high).loose


def cbrt(x: Num, rough: bool = False) -> Num:
    """Return the cube root of a double, within 0.7 ulp.

    rough: with a step less, which is enough for f32.
    """
    size = x.abs()
    tiny = size < x.layout.least_normal
    a = tiny.where(size * 2.0**54, size)
    # A third of the exponent gives five bits; each step trebles them.
    t = (a.bits().udiv(3) + 0x2A9F7893782DA1CE).as_float()
    for _ in range(1 if rough else 2):
        # Quarters, since the sums must not overflow.
        cube = 0.25 * t * t * t
        t = t * ((0.5 * a + cube) / (cube + cube + 0.25 * a))
    # t**2 of a t of few bits is exact.
    t = split(t, 28)[0].loose
    square = t * t
    ratio = a / square
    t = t + t * ((ratio - t) / (t + t + ratio))
    t = tiny.where(t * 2.0**-18, t)
    return ((size == 0) | (size == INF) | x.is_nan()).where(x, t.copysign(x))


def integer_power(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """Return x to the y by squaring; a negative exponent gives 0 unless x is 1 or -1."""
    base, exponent = Num(b, x), Num(b, y)
    bits = base.width
    minus_one = base.lift(-1)
    negative = exponent < 0 if signed else Num(b, Val("i1", "false"))
    count = negative.where(0, exponent)
    slots = [b.alloca(x.type) for _ in range(2)]
    for slot, value in zip(slots, (base.lift(1), base), strict=True):
        b.store(value.val, slot.name)
    used = base.lift(bits) - count.call("ctlz", Num(b, Val("i1", "false")))
    with b.loop(0, used.to_int(64).val.name) as i:
        result, power = (Num(b, b.load(x.type, slot.name)) for slot in slots)
        at = Num(b, Val("i64", i)).to_int(bits)
        taken = (count.lshr(at) & 1) != 0
        b.store(taken.where(result * power, result).val, slots[0].name)
        b.store((power * power).val, slots[1].name)
    result = Num(b, b.load(x.type, slots[0].name))
    odd = (exponent & 1) != 0
    inverse = (base == minus_one).where(odd.where(minus_one, 1), (base == 1).where(base, 0))
    return negative.where(inverse, result).val
