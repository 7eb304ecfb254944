"""The logarithm of the gamma function, its derivatives, and the Hurwitz zeta function.

Lanczos' approximation with g = 7 and nine terms, and Euler-Maclaurin summation, as in XLA.
Source: W. Press et al., "Numerical Recipes"; the Cephes library's `zeta.c`.
"""

from __future__ import annotations

import math

import numpy as np

from hlo.frontends.stablehlo.context import Context
from hlo.frontends.stablehlo.formulas import Number, numbers, result
from hlo.ir import Instruction

_G = 7.0
_BASE = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
_LOG_G_HALF = math.log(_G + 0.5)
_LOG_SQRT_2_PI = math.log(2 * math.pi) / 2
_LOG_PI = math.log(math.pi)
# (2k)! / B(2k) for k = 1 to 12.
_BERNOULLI = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9,
    7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14,
    -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18,
)  # fmt: skip
_ZETA_TERMS = 10


def lgamma(c: Context) -> Instruction:
    """Append the logarithm of the absolute value of the gamma function."""
    (x,) = numbers(c, 1)
    return result(c, _lgamma(x))


def digamma(c: Context) -> Instruction:
    """Append the derivative of lgamma."""
    (x,) = numbers(c, 1)
    return result(c, _digamma(x))


def polygamma(c: Context) -> Instruction:
    """Append the n-th derivative of digamma; n is the first operand."""
    n, x = numbers(c, 2)
    sign = (n.of("remainder", 2.0) * 2.0) - 1.0
    derivative = sign * _lgamma(n + 1.0).of("exponential") * _zeta(n + 1.0, x)
    value = n.is_("EQ", 0.0).where(_digamma(x), derivative)
    none = n.is_("NE", n.of("floor")) | n.is_("LT", 0.0)
    return result(c, none.where(x.number(math.nan), value))


def zeta(c: Context) -> Instruction:
    """Append the sum of `(q + k) ** -x` over k >= 0."""
    x, q = numbers(c, 2)
    return result(c, _zeta(x, q))


def _lgamma(x: Number) -> Number:
    # Reflection below 1/2: gamma(x) gamma(1 - x) = pi / sin(pi x).
    is_small = x.is_("LT", 0.5)
    z = is_small.where(-x, x - 1.0)
    base = x.number(_BASE)
    for k, term in enumerate(_LANCZOS, 1):
        base = base + term / (z + float(k))
    log_t = (z / (_G + 0.5)).of("log-plus-one") + _LOG_G_HALF
    log_y = (z + 0.5 - (z + (_G + 0.5)) / log_t) * log_t + _LOG_SQRT_2_PI + base.of("log")
    fraction = abs(x) - abs(x).of("floor")
    # Reduce to the nearest multiple of pi, where the sine is exact near zero.
    nearer = fraction.is_("GT", 0.5).where(1.0 - fraction, fraction)
    log_sine = (nearer * math.pi).of("sine").of("log")
    reflected = _LOG_PI - log_sine - log_y
    reflected = log_sine.of("is-finite").where(reflected, -log_sine)
    y = is_small.where(reflected, log_y)
    return abs(x).is_("EQ", math.inf).where(x.number(math.inf), y)


def _digamma(x: Number) -> Number:
    is_small = x.is_("LT", 0.5)
    z = is_small.where(-x, x - 1.0)
    numerator, denominator = x.number(0.0), x.number(_BASE)
    for k, term in enumerate(_LANCZOS, 1):
        at = z + float(k)
        numerator = numerator - term / (at * at)
        denominator = denominator + term / at
    log_t = (z / (_G + 0.5)).of("log-plus-one") + _LOG_G_HALF
    y = log_t + numerator / denominator - _G / (z + (_G + 0.5))
    # The integer part of x adds only error to the cotangent.
    angle = (x + abs((x + 0.5).of("floor"))) * math.pi
    reflected = y - angle.of("cosine") * math.pi / angle.of("sine")
    pole = x.is_("LE", 0.0) & x.is_("EQ", x.of("floor"))
    return pole.where(x.number(math.nan), is_small.where(reflected, y))


def _zeta(x: Number, q: Number) -> Number:
    minus_x = -x
    total, at = q.of("power", minus_x), q
    for _ in range(_ZETA_TERMS - 1):
        at = at + 1.0
        total = total + at.of("power", minus_x)
    at = at + 1.0
    power = at.of("power", minus_x)
    tail = power * at / (x - 1.0)
    square = 1.0 / (at * at)
    series = square * (1.0 / _BERNOULLI[-1])
    for k in range(len(_BERNOULLI) - 1, 0, -1):
        factor = (x + float(2 * k)) * (x + float(2 * k - 1))
        series = factor * series + 1.0 / _BERNOULLI[k - 1]
        if k > 1:
            series = square * series
    whole = total + tail + power * ((x / at) * series + 0.5)
    # A term this small does not change the sum.
    smallest = float(np.finfo(x.element_type.dtype).smallest_subnormal)
    y = abs(power).is_("LT", abs(total) * smallest).where(total, whole)
    nan, infinite = x.number(math.nan), x.number(math.inf)
    y = x.is_("LT", 1.0).where(nan, y)
    negative = q.is_("LE", 0.0)
    y = (negative & x.is_("NE", x.of("floor"))).where(nan, y)
    even = x.is_("EQ", x.of("floor")) & x.of("remainder", 2.0).is_("EQ", 0.0)
    y = (negative & q.is_("EQ", q.of("floor"))).where(even.where(infinite, nan), y)
    return x.is_("EQ", 1.0).where(infinite, y)
