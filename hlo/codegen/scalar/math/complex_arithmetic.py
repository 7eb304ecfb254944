"""Complex numbers under construction: arithmetic, modulus, order."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.scalar.math.expr import INF, NAN, Num, power_of_two


@dataclass(frozen=True)
class Complex:
    """A complex value under construction."""

    re: Num
    im: Num

    def to(self, type_: str) -> Complex:
        return Complex(self.re.to(type_), self.im.to(type_))

    def times_i(self) -> Complex:
        return Complex(-self.im, self.re)

    def over_i(self) -> Complex:
        return Complex(self.im, -self.re)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def conjugate(self) -> Complex:
        return Complex(self.re, -self.im)


def where(condition: Num, yes: Complex, no: Complex) -> Complex:
    """Return one of two numbers by a condition."""
    return Complex(condition.where(yes.re, no.re), condition.where(yes.im, no.im))


def is_zero(z: Complex) -> Num:
    """Return whether both parts are zero."""
    return (z.re == 0) & (z.im == 0)


def is_infinite(z: Complex) -> Num:
    """Return whether a part is infinite, also beside NaN."""
    return (z.re.abs() == INF) | (z.im.abs() == INF)


def is_nan(z: Complex) -> Num:
    """Return whether a part is NaN."""
    return z.re.is_nan() | z.im.is_nan()


def times(x: Num, y: Num) -> Num:
    """Return x y, and zero where either is zero."""
    zero = (x == 0) | (y == 0)
    return zero.where(x.lift(0.0).copysign(_sign_of_product(x, y)), x * y)


def _sign_of_product(x: Num, y: Num) -> Num:
    return (x.bits() ^ y.bits()).as_float()


# --- arithmetic ---------------------------------------------------------------------------------


def add(x: Complex, y: Complex) -> Complex:
    """Return x + y."""
    return Complex(x.re + y.re, x.im + y.im)


def subtract(x: Complex, y: Complex) -> Complex:
    """Return x - y."""
    return Complex(x.re - y.re, x.im - y.im)


def multiply(x: Complex, y: Complex) -> Complex:
    """Return the product by the schoolbook formula, each step rounded."""
    a, b = x.re.strict, x.im.strict
    return Complex((a * y.re - b * y.im).loose, (a * y.im + b * y.re).loose)


def size_exponent(size: Num) -> Num:
    """Return e with size = m * 2**e, 1 <= m < 2, for normal sizes; 0 where there is none."""
    e = (size.bits().lshr(52) & 0x7FF) - 1023
    return ((size == 0) | ~(size < INF)).where(0, e)


def power_twice(e: Num) -> tuple[Num, Num]:
    """Return two floats whose product is 2**e, for e to twice the exponent range."""
    half = e.ashr(1)
    return power_of_two(half), power_of_two(e - half)


def divide(x: Complex, y: Complex) -> Complex:
    """Return the quotient, scaled against overflow; infinities as in C99 Annex G.5.1."""
    a, b = x.re, x.im
    cy, dy = y.re.abs(), y.im.abs()
    size = (cy > dy).where(cy, dy)
    down, more = power_twice(-size_exponent(size))
    c, d = y.re * down * more, y.im * down * more
    square = c * c + d * d
    re = (a * c + b * d) / square * down * more
    im = (b * c - a * d) / square * down * more
    lost = re.is_nan() & im.is_nan()
    # A number by zero, infinity by a number, a number by infinity.
    by_zero = lost & (square == 0) & ~(a.is_nan() & b.is_nan())
    infinity = a.lift(INF).copysign(c)
    re, im = by_zero.where(infinity * a, re), by_zero.where(infinity * b, im)
    finite = (c.abs() < INF) & (d.abs() < INF)
    grows = lost & is_infinite(x) & finite & ~by_zero
    p, q = _unit(a), _unit(b)
    re = grows.where(INF * (p * c + q * d), re)
    im = grows.where(INF * (q * c - p * d), im)
    vanishes = lost & is_infinite(y) & (a.abs() < INF) & (b.abs() < INF)
    p, q = _unit(c), _unit(d)
    re = vanishes.where(0.0 * (a * p + b * q), re)
    im = vanishes.where(0.0 * (b * p - a * q), im)
    return Complex(re, im)


def _unit(part: Num) -> Num:
    """Return 1 for an infinity and 0 for anything else, with its sign."""
    return (part.abs() == INF).where(part.lift(1.0), 0.0).copysign(part)


def absolute(z: Complex) -> Num:
    """Return the modulus; infinite if either part is."""
    x, y = z.re.abs(), z.im.abs()
    large, small = (x > y).where(x, y), (x > y).where(y, x)
    e = size_exponent(large)
    down, more = power_twice(-e)
    up, again = power_twice(e)
    p, q = large * down * more, small * down * more
    result = (p * p + q * q).sqrt() * up * again
    return is_infinite(z).where(INF, is_nan(z).where(NAN, result))


def sign(z: Complex) -> Complex:
    """Return z / |z|, and 0 for 0; NaN where a part is infinite or NaN."""
    size = absolute(z)
    zero = size == 0
    size = zero.where(1.0, size)
    return Complex(zero.where(0.0, z.re / size), zero.where(0.0, z.im / size))


def _greater(x: Complex, y: Complex) -> Num:
    """True where x >= y by real, then by imaginary part, or x has a NaN."""
    order = (x.re > y.re) & ~x.im.is_nan() & ~y.im.is_nan()
    return order | ((x.re == y.re) & (x.im >= y.im)) | is_nan(x)


def maximum(x: Complex, y: Complex) -> Complex:
    """Return the larger number in lexicographic order, x where it is NaN."""
    return where(_greater(x, y), x, y)


def minimum(x: Complex, y: Complex) -> Complex:
    """Return the smaller number in lexicographic order, x where it is NaN."""
    order = (x.re < y.re) & ~x.im.is_nan() & ~y.im.is_nan()
    return where(order | ((x.re == y.re) & (x.im <= y.im)) | is_nan(x), x, y)


def clamp(low: Complex, z: Complex, high: Complex) -> Complex:
    """Return z, or the bound that it lies beyond."""
    return minimum(maximum(z, low), high)
