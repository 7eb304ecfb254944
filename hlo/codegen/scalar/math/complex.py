"""Functions of complex numbers, in f64 but for sums and products of c64.

Zeros, infinities and branch cuts follow C99 Annex G. A product in which a factor is zero is zero
(`times`), which is what its tables come to; other exceptions are stated where they are made.
"""

from __future__ import annotations

from hlo.codegen.scalar.math.complex_arithmetic import (
    Complex,
    add,
    divide,
    is_infinite,
    is_nan,
    is_zero,
    multiply,
    power_twice,
    size_exponent,
    times,
    where,
)
from hlo.codegen.scalar.math.exponential import exp_parts, scale
from hlo.codegen.scalar.math.exponential import expm1 as real_expm1
from hlo.codegen.scalar.math.exponential import sinh as real_sinh
from hlo.codegen.scalar.math.expr import INF, NAN, Num, power_of_two, split
from hlo.codegen.scalar.math.inverse import atan2
from hlo.codegen.scalar.math.logarithm import asinh as real_asinh
from hlo.codegen.scalar.math.logarithm import log as real_log
from hlo.codegen.scalar.math.logarithm import log1p as real_log1p
from hlo.codegen.scalar.math.trigonometric import sine_cosine, tangent

_HALF_PI = 1.5707963267948966
_LN2 = 0.6931471805599453


# --- exponential and hyperbolic functions -------------------------------------------------------


def exp(z: Complex) -> Complex:
    """Return e**z."""
    y, n = exp_parts(z.re)
    s, c = sine_cosine(z.im)
    re, im = scale(times(y, c), n), scale(times(y, s), n)
    real = z.im == 0
    im = real.where(z.im, im)
    # Where there is no angle, a modulus of 0 still has none, and an infinite one stays so.
    angle = z.im.abs() < INF
    gone = ~angle & (z.re == -INF)
    endless = ~angle & (z.re == INF)
    re = gone.where(0.0, endless.where(INF, re))
    im = gone.where(z.im.lift(0.0).copysign(z.im), im)
    return Complex(real.where(scale(y, n), re), im)


def exp2(z: Complex) -> Complex:
    """Return 2**z."""
    return exp(Complex(z.re * _LN2, z.im * _LN2))


def expm1(z: Complex) -> Complex:
    """Return e**z - 1, accurate near 0."""
    whole = exp(z)
    _, c = sine_cosine(z.im)
    half, _ = sine_cosine(z.im * 0.5)
    near = real_expm1(z.re) * c - 2.0 * half * half
    return Complex((z.re.abs() < 1.0).where(near, whole.re - 1.0), whole.im)


def logistic(z: Complex) -> Complex:
    """Return 1 / (1 + e**-z)."""
    left = z.re < 0
    # Of the two exponentials the one that does not overflow.
    e = exp(where(left, z, -z))
    one, zero = z.re.lift(1.0), z.re.lift(0.0)
    return divide(where(left, e, Complex(one, zero)), Complex(e.re + 1.0, e.im))


def _half_exps(x: Num) -> tuple[Num, Num, Num]:
    """Return cosh(x) and sinh(x), as numbers to be multiplied by 2**n."""
    size = x.abs()
    y, n = exp_parts(size)
    # Below, e**-x counts; where it does not, 2**n takes part only at the end.
    large = size > 40.0
    n_here = large.where(0, n)
    half = scale(y, n_here - 1)
    rest = large.where(0.0, 0.25 / half)
    small = size < 1.0
    s = small.where(real_sinh(size), half - rest)
    return half + rest, s.copysign(x), large.where(n, 0)


def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine."""
    ch, sh, n = _half_exps(z.re)
    s, c = sine_cosine(z.im)
    re, im = scale(times(ch, c), n), scale(times(sh, s), n)
    infinite = z.re.abs() == INF
    return Complex((infinite & s.is_nan()).where(INF, re), im)


def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine."""
    ch, sh, n = _half_exps(z.re)
    s, c = sine_cosine(z.im)
    re, im = scale(times(sh, c), n), scale(times(ch, s), n)
    infinite = z.re.abs() == INF
    return Complex((infinite & s.is_nan()).where(z.re, re), im)


def cosine(z: Complex) -> Complex:
    """Return cosh(iz)."""
    return cosh(z.times_i())


def sine(z: Complex) -> Complex:
    """Return sinh(iz) / i."""
    return sinh(z.times_i()).over_i()


def tanh(z: Complex) -> Complex:
    """Return the hyperbolic tangent, by Kahan's formula."""
    size = z.re.abs()
    s = real_sinh(size.at_most(30.0)).copysign(z.re)
    t = tangent(z.im)
    beta = t * t + 1.0
    rho = (s * s + 1.0).sqrt()
    below = beta * s * s + 1.0
    # Far out the tangent is within 4 e**-2|x| of one.
    y, n = exp_parts(-2.0 * size)
    sn, cs = sine_cosine(z.im)
    far_im = scale(4.0 * sn * cs * y, n)
    far = ~(size < 22.0)
    im = far.where(far_im, t / below)
    re = far.where(z.re.lift(1.0).copysign(z.re), beta * rho * s / below)
    infinite = size == INF
    lost = infinite & ~(z.im.abs() < INF)
    im = infinite.where(z.im.lift(0.0).copysign(lost.where(z.im, sn * cs)), im)
    im = (z.im == 0).where(z.im, im)
    # No number has an angle that is not finite, but for the ends.
    nowhere = ~(z.im.abs() < INF) & (size < INF)
    re = (nowhere | z.re.is_nan()).where(NAN, re)
    return Complex((z.re == 0).where(z.re, re), im)


def tan(z: Complex) -> Complex:
    """Return tanh(iz) / i."""
    return tanh(z.times_i()).over_i()


# --- logarithm, roots and powers ----------------------------------------------------------------


def _log_modulus(x: Num, y: Num) -> Num:
    """Return log(hypot(x, y)), accurate also where it is near 0."""
    ax, ay = x.abs(), y.abs()
    a, b = (ax > ay).where(ax, ay), (ax > ay).where(ay, ax)
    # Far from 1: log(a) + log(1 + (b / a)**2) / 2.
    ratio = (b == 0).where(0.0, (b == INF).where(1.0, b / a))
    # Near 1: log(1 + (a**2 + b**2 - 1)) / 2, the sum with the squares' last bits.
    (a2, a2_rest), (b2, b2_rest) = _square(a), _square(b)
    less = a2 - 1.0
    total = less + b2
    lost = (a2 - (less + 1.0)) + (less - (total - b2)) + (b2 - (total - (total - b2)))
    near = (a > 0.5) & (a < 1.5) & (a2 + b2 < 3.0) & (a2 + b2 > 0.5)
    excess = (total + (lost + (a2_rest + b2_rest))).loose
    result = 0.5 * real_log1p(near.where(excess, ratio * ratio))
    result = near.where(result, real_log(near.where(1.0, a)) + result)
    infinite = (ax == INF) | (ay == INF)
    return infinite.where(INF, (x.is_nan() | y.is_nan()).where(NAN, result))


def _square(x: Num) -> tuple[Num, Num]:
    """Return x * x as its rounded value and the rest."""
    head, tail = split(x, 27)
    square = x.strict * x
    return square, ((head * head - square) + 2.0 * head * tail) + tail * tail


def log(z: Complex) -> Complex:
    """Return the principal natural logarithm, cut along the negative real axis."""
    return Complex(_log_modulus(z.re, z.im), atan2(z.im, z.re))


def log2(z: Complex) -> Complex:
    """Return the logarithm to base 2."""
    found = log(z)
    return Complex(found.re / _LN2, found.im / _LN2)


def log1p(z: Complex) -> Complex:
    """Return log(1 + z), accurate near 0."""
    a, b = z.re, z.im
    # |1 + z|**2 - 1 is 2 a + b**2 + a**2, of which the first two may nearly cancel.
    square, rest = _square(b)
    double = (a + a).strict
    total = double + square
    back = total - square
    lost = (double - back) + (square - (total - back))
    near = 0.5 * real_log1p((total + (lost + rest + a.strict * a)).loose)
    small = (a.abs() < 0.5) & (b.abs() < 0.5)
    return Complex(small.where(near, _log_modulus(a + 1.0, b)), atan2(b, a + 1.0))


def sqrt(z: Complex) -> Complex:
    """Return the root whose real part is not negative."""
    x, y = z.re, z.im
    ax, ay = x.abs(), y.abs()
    # Scaled by an even power, so that nothing overflows or is subnormal.
    large = (ax > ay).where(ax, ay)
    e = size_exponent(large) & -2
    down, more = power_twice(-e)
    p, q = ax * down * more, ay * down * more
    t = ((p + (p * p + q * q).sqrt()) * 0.5).sqrt()
    up = power_of_two(e.ashr(1))
    other = q / (t + t) * up
    t = t * up
    left = x < 0
    zero = is_zero(z)
    re = zero.where(0.0, left.where(other, t))
    im = zero.where(0.0, left.where(t, other)).copysign(y)
    # Infinite: (+inf, +-0), (0, +-inf), and both parts where the imaginary is.
    flat = (ax == INF) & (ay < INF)
    re = flat.where(left.where(x.lift(0.0), INF), re)
    im = flat.where(left.where(x.lift(INF), 0.0).copysign(y), im)
    half = (ax == INF) & y.is_nan()
    re = half.where(left.where(x.lift(NAN), INF), re)
    im = half.where(left.where(x.lift(INF), NAN), im)
    steep = ay == INF
    return Complex(steep.where(INF, re), steep.where(y, im))


def rsqrt(z: Complex) -> Complex:
    """Return 1 / sqrt(z)."""
    return divide(Complex(z.re.lift(1.0), z.re.lift(0.0)), sqrt(z))


def power(x: Complex, y: Complex) -> Complex:
    """Return exp(y * log(x)); 0 to the power 0 is 1, to a power with positive real part 0."""
    result = exp(multiply(y, log(x)))
    zero, one = x.re.lift(0.0), x.re.lift(1.0)
    vanishes = is_zero(x) & (y.re > 0)
    result = where(vanishes, Complex(zero, zero), result)
    return where(is_zero(y), Complex(one, zero), result)


def complex_atan2(y: Complex, x: Complex) -> Complex:
    """Return -i * log((x + i*y) / sqrt(x*x + y*y))."""
    numerator = Complex(x.re - y.im, x.im + y.re)
    return log(divide(numerator, sqrt(add(multiply(x, x), multiply(y, y))))).over_i()


# --- inverse functions, after Kahan -------------------------------------------------------------


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """Return sqrt(1 + z) and sqrt(1 - z)."""
    return sqrt(Complex(z.re + 1.0, z.im)), sqrt(Complex(1.0 - z.re, -z.im))


def _imaginary_of_product(x: Complex, y: Complex) -> Num:
    """Return the imaginary part of conj(x) y."""
    return x.re * y.im - x.im * y.re


def asin(z: Complex) -> Complex:
    """Return asinh(iz) / i."""
    return asinh(z.times_i()).over_i()


def asinh(z: Complex) -> Complex:
    """asinh(z) = -i asin(i z), with asin(w) = atan2(re w, re(sqrt(1 - w) sqrt(1 + w))) + i asinh(
    im(conj(sqrt(1 - w)) sqrt(1 + w)))."""
    w = z.times_i()
    plus, minus = _roots(w)
    angle = atan2(w.re, plus.re * minus.re - plus.im * minus.im)
    re, im = real_asinh(_imaginary_of_product(minus, plus)), -angle
    infinite = is_infinite(z)
    re = infinite.where(z.re.lift(INF).copysign(z.re), re)
    im = infinite.where(atan2(z.im, z.re.abs()), im)
    # NaN + 0i has a result on the real axis.
    im = (z.re.is_nan() & (z.im == 0)).where(z.im, im)
    return Complex(re.copysign(z.re), im.copysign(z.im))


def acos(z: Complex) -> Complex:
    """Return the principal arc cosine."""
    plus, minus = _roots(z)
    re = 2.0 * atan2(minus.re, plus.re)
    im = real_asinh(_imaginary_of_product(plus, minus))
    infinite = is_infinite(z)
    re = infinite.where(atan2(z.im.abs(), z.re), re)
    im = infinite.where(z.im.lift(INF).copysign(-z.im), im)
    # 0 + NaN i is on the imaginary axis.
    re = ((z.re == 0) & z.im.is_nan()).where(_HALF_PI, re)
    return Complex(re, im.copysign(-z.im))


def acosh(z: Complex) -> Complex:
    """acosh(z) = +-i acos(z), of positive real part."""
    w = acos(z)
    return Complex(w.im.abs(), w.re.copysign(z.im))


def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent."""
    x, y = z.re.abs(), z.im
    ay = y.abs()
    # |z| so large that its square is all that counts: 1 / z in the real part, i pi / 2.
    large = ~((x < 1e150) & (ay < 1e150))
    fraction = Complex(z.re.lift(1.0), z.re.lift(0.0))
    inverse = divide(fraction, Complex(x, ay))
    above = 4.0 * x
    one_less = 1.0 - x
    square = one_less * one_less + ay * ay
    re = 0.25 * real_log1p(above / square)
    im = 0.5 * atan2(2.0 * ay, one_less * (x + 1.0) - ay * ay)
    # On the circle around 1 whose radius squared is no float.
    tiny = (x == 1.0) & (ay < 1e-150)
    re = tiny.where((ay == 0).where(INF, -0.5 * real_log(ay * 0.5)), re)
    re = large.where(inverse.re, re)
    im = large.where(_HALF_PI, im)
    infinite = is_infinite(z)
    re = infinite.where(0.0, re)
    im = infinite.where(_HALF_PI, im)
    nan = is_nan(z)
    re = (nan & ~infinite & ~(x == 0)).where(NAN, re)
    im = (nan & ~(ay == INF)).where(NAN, im)
    re = (x == 0).where(0.0, re)
    return Complex(re.copysign(z.re), im.copysign(y))
