"""Logarithms and inverse hyperbolic functions.

x = 2**k m with m in [sqrt(1/2), sqrt(2)], so log(x) = k ln 2 + log(1 + f) with f = m - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.scalar.math.expr import INF, NAN, Num, power_of_two


@dataclass(frozen=True)
class _Log:
    """How log is computed in one format.

    sqrt_half: its bits. ln2: head and tail; k times the head is exact. p: see `_log1p_small`.
    """

    sqrt_half: int
    ln2: tuple[float, float]
    p: tuple[float, ...]


_LOG = {
    # within 2**-30.2 of log(1 + f)
    "float": _Log(
        0x3F3504F3,
        (0.693145751953125, 1.4286067653301288e-06),
        (0.06730019, -0.11659062, 0.11886558, -0.12408436, 0.14220224, -0.16667846, 0.20002073,
         -0.25000012, 0.33333313),
    ),
    # within 2**-58.4
    "double": _Log(
        0x3FE6A09E667F3BCD,
        (0.6931471803691238, 1.9082149292705877e-10),
        (0.14796459448813357, 0.15313995141023018, 0.1818356673360211, 0.22222198520187483,
         0.2857142874300216, 0.399999999994112, 0.6666666666666735),
    ),
}  # fmt: skip
LN2 = 0.6931471805599453


def decompose(x: Num) -> tuple[Num, Num, Num]:
    """Return k as an integer and as a float, and m, of a positive normal x."""
    layout, low = x.layout, _LOG[x.type].sqrt_half
    offset = x.bits() - low
    m = ((offset & (1 << layout.mantissa) - 1) + low).as_float()
    if x.type == "float":
        k = offset.ashr(layout.mantissa)
        return k, k.to_float("float"), m
    # SSE shifts and converts no signed 64-bit numbers: a bias keeps k positive, and it becomes
    # a float by being put under an exponent.
    bias = 2 * (layout.bias + 1)
    k = (offset + (1 << 63)).lshr(layout.mantissa)
    magic = 2.0**layout.mantissa
    return k - bias, (k | x.lift(magic).bits()).as_float() - (magic + bias), m


def _log1p_small(f: Num, k: Num) -> Num:
    """Return k ln 2 + log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    p = _LOG[f.type]
    square = f * f
    if f.type == "float":
        # p: (log(1 + f) - f + f**2 / 2) / f**3 by powers of f
        tail = k * p.ln2[1] + square * (f * f.polynomial(p.p) - 0.5)
    else:
        # With s = f / (2 + f), log(1 + f) = 2 s + s**3 p and 2 s = f - f**2 / 2 + s f**2 / 2;
        # p by powers of s**2
        s = f / (f + 2.0)
        z = s * s
        half = square * 0.5
        tail = (s * (half + z * z.polynomial(p.p)) + k * p.ln2[1]) - half
    return k * p.ln2[0] + (f + tail)


def _at_the_ends(x: Num, result: Num) -> Num:
    """Return a logarithm's result, right also for zeros, infinity and what has no logarithm."""
    result = (x > 0).where(result, (x == 0).where(-INF, x.lift(NAN)))
    return (x == INF).where(x, result)


def log(x: Num) -> Num:
    """Return the natural logarithm, within 0.9 ulp."""
    layout = x.layout
    tiny = x < layout.least_normal
    shift = layout.mantissa + 2
    _, k, m = decompose(tiny.where(x * 2.0**shift, x))
    k = tiny.where(k - float(shift), k)
    return _at_the_ends(x, _log1p_small(m - 1.0, k))


def log2(x: Num) -> Num:
    """Return the logarithm to base 2, within 1.5 ulp; exact for powers of two."""
    layout = x.layout
    tiny = x < layout.least_normal
    shift = layout.mantissa + 2
    _, k, m = decompose(tiny.where(x * 2.0**shift, x))
    k = tiny.where(k - float(shift), k)
    return _at_the_ends(x, k + _log1p_small(m - 1.0, m.lift(0.0)) * (1.0 / LN2))


def log1p(x: Num) -> Num:
    """Return log(1 + x), within 1.5 ulp."""
    one = x + 1.0
    # What the sum has lost; past 2**54 the sum is x, and this is of no account.
    lost = (x > 1.0).where(1.0 - (one - x), x - (one - 1.0))
    n, k, m = decompose(one)
    n = (n > 60).where(60, n)
    result = _log1p_small((m - 1.0) + lost * power_of_two(-n), k)
    return _at_the_ends(one, result).copysign(x)


def asinh(x: Num) -> Num:
    """Return the inverse hyperbolic sine of a double, within 1.9 ulp."""
    size = x.abs()
    square = size * size
    large = size > 1e8
    near = size + square / ((square + 1.0).sqrt() + 1.0)
    result = log1p(large.where(size - 1.0, near))
    return large.where(result + LN2, result).copysign(x)


def acosh(x: Num) -> Num:
    """Return the inverse hyperbolic cosine of a double, within 1.9 ulp; NaN below 1."""
    above = x - 1.0
    large = x > 1e8
    near = above + (above * above + 2.0 * above).sqrt()
    result = log1p(large.where(above, near))
    return (x < 1.0).where(NAN, large.where(result + LN2, result))


def atanh(x: Num) -> Num:
    """Return the inverse hyperbolic tangent of a double, within 1.7 ulp; NaN beyond 1."""
    size = x.abs()
    twice = size + size
    # 2 x / (1 - x), whose difference is exact from 1/2 on; below, it is 2 x and something small.
    small = size < 0.5
    quotient = small.where(twice * size, twice) / (1.0 - size)
    return (0.5 * log1p(small.where(twice + quotient, quotient))).copysign(x)
