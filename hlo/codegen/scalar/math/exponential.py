"""Exponentials and hyperbolic functions.

x = n ln 2 + r with an integer n and |r| <= ln(2) / 2, so exp(x) = 2**n exp(r).
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.scalar.math.expr import Num, power_of_two


@dataclass(frozen=True)
class _Exp:
    """How exp is computed in one format.

    ln2: head and tail; n times the head is exact. q: (exp(r) - 1 - r) / r**2 by powers of r.
    lowest, highest: beyond them exp is 0, or infinite, with a margin. small: below its negative,
    exp - 1 is -1. odd, tanh: (f(x) - x) / x**3 by powers of
    x**2, of sinh for |x| <= 1 and of tanh for |x| <= 0.56.
    """

    ln2: tuple[float, float]
    q: tuple[float, ...]
    lowest: float
    highest: float
    small: float
    odd: tuple[float, ...]
    tanh: tuple[float, ...]


_LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_EXP = {
    # within 2**-28.2 of exp(r), 2**-31.6 of sinh, 2**-29.4 of tanh
    "float": _Exp(
        (0.693145751953125, 1.4286067653301288e-06),
        (0.0013820718, 0.008368671, 0.041668266, 0.16666521, 0.49999994),
        -104.0, 89.0, 18.0,
        (2.78408e-06, 0.0001984262, 0.008333311, 0.16666667),
        (-0.0061855405, 0.021010028, -0.05383758, 0.13332447, -0.33333313),
    ),
    # within 2**-57.8, 2**-61.7, 2**-59.9
    "double": _Exp(
        (0.6931471803691238, 1.9082149292705877e-10),
        (2.5012598826015073e-08, 2.7630434057989027e-07, 2.7557545311051056e-06,
         2.4801492511389736e-05, 0.00019841269554637733, 0.001388888894428859,
         0.008333333333470982, 0.041666666666527116, 0.16666666666666452, 0.5000000000000011),
        -746.0, 710.0, 40.0,
        (7.773894519923124e-13, 1.605674393166922e-10, 2.5052129993059627e-08,
         2.7557319112321823e-06, 0.00019841269841579403, 0.008333333333332924,
         0.16666666666666669),
        (-1.9007800684912482e-05, 8.253069354064346e-05, -0.00023283555662571994,
         0.000588230811699003, -0.0014554911421064411, 0.003592084036832332,
         -0.008863231813549085, 0.02186948833796263, -0.053968253962093156,
         0.13333333333323757, -0.3333333333333328),
    ),
}  # fmt: skip


def _reduce(x: Num) -> tuple[Num, Num]:
    """Return n (an integer) and e**r - 1, for x of moderate size."""
    p, magic = _EXP[x.type], x.lift(x.layout.magic)
    shifted = x * _LOG2_E + magic
    n = shifted.bits() - magic.bits()
    k = shifted - magic
    high, tail = x - k * p.ln2[0], k * p.ln2[1]
    r = high - tail
    # The linear term is taken from both parts of r, since r alone has been rounded.
    return n, (r * r * r.polynomial(p.q) - tail) + high


def exp_small(r: Num) -> Num:
    """Return e**r for |r| <= ln(2) / 2."""
    return r * r * r.polynomial(_EXP[r.type].q) + r + 1.0


def scale(y: Num, n: Num) -> Num:
    """Return y * 2**n, for n to twice a normal exponent; rounded once if y is near 1.

    At -2 * bias it is zero.
    """
    bias = y.layout.bias
    # Half of n by a shift of a number that is not negative: SSE has no other for 64 bits.
    half = (n + 4 * bias).lshr(1) - 2 * bias
    return y * power_of_two(half) * power_of_two(n - half)


def _exp_times(x: Num, doublings: int) -> Num:
    """Return exp(x) * 2**doublings."""
    p = _EXP[x.type]
    # Both factors of `scale` are zero at the limit: a product that underflows takes long, and half
    # of a softmax under a mask is zeros.
    lowest = p.lowest if doublings else -2 * x.layout.bias * _LN2
    n, y = _reduce(x.at_least(lowest).at_most(p.highest + 1))
    return scale(y + 1.0, n + doublings if doublings else n)


def exp(x: Num) -> Num:
    """Return e**x, within 0.9 ulp."""
    return _exp_times(x, 0)


def exp2(x: Num) -> Num:
    """Return 2**x, within 1 ulp; exact for integers."""
    p, magic = _EXP[x.type], x.lift(x.layout.magic)
    # As e**x beyond the same limits: those of x are narrower.
    x = x.at_least(p.lowest * _LOG2_E).at_most((p.highest + 1) * _LOG2_E)
    shifted = x + magic
    n = shifted.bits() - magic.bits()
    return scale(exp_small((x - (shifted - magic)) * _LN2), n)


def exp_parts(x: Num) -> tuple[Num, Num]:
    """Return y in [0.7, 1.42] and an integer n with e**x = y * 2**n.

    For products that overflow later than e**x does; x is limited to 1.9 times the range.
    """
    p = _EXP[x.type]
    n, y = _reduce(x.at_least(1.9 * p.lowest).at_most(1.9 * p.highest))
    return y + 1.0, n


def expm1(x: Num) -> Num:
    """Return e**x - 1, within 1.6 ulp."""
    p = _EXP[x.type]
    n, y = _reduce(x.at_least(-p.small).at_most(p.highest))
    # One doubling is left for the end: 2**n itself may be too large.
    half = power_of_two(n - 1)
    result = (half * y + (half - 0.5)) * 2.0
    # The sum above has lost the sign of -0.
    return result.copysign(x)


def tanh(x: Num) -> Num:
    """Return the hyperbolic tangent, within 1.5 ulp."""
    size = x.abs()
    z = x * x
    near = size * z * z.polynomial(_EXP[x.type].tanh) + size
    far = 1.0 - 2.0 / (exp(size + size) + 1.0)
    return (size < 0.56).where(near, far).copysign(x)


def logistic(x: Num) -> Num:
    """Return 1 / (1 + e**-x), within 2 ulp."""
    e = exp(-x.abs())
    below = e + 1.0
    lost = e - (below - 1.0)
    result = (x < 0).where(e, 1.0) / below
    # The quotient's derivative makes up for what the sum below has lost.
    return result - result * (x < 0).where(1.0 - result, result) * lost


def cosh(x: Num) -> Num:
    """Return the hyperbolic cosine, within 1.4 ulp."""
    half = _exp_times(x.abs(), -1)
    return half + 0.25 / half


def sinh(x: Num) -> Num:
    """Return the hyperbolic sine, within 1.7 ulp."""
    size = x.abs()
    half = _exp_times(size, -1)
    z = x * x
    near = size * z * z.polynomial(_EXP[x.type].odd) + size
    return (size < 1.0).where(near, half - 0.25 / half).copysign(x)
