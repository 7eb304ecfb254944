"""Arithmetic of the elementwise operations on complex numbers.

Functions take c128 arrays (c64 is computed in c128 and rounded once) except where stated. Zeros,
infinities and branch cuts follow C99 Annex G, which is what numpy's own complex functions do.
"""

from __future__ import annotations

import numpy as np

_LN2 = float(np.log(2))


def join(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Return real + i*imag for float arrays of one type, without arithmetic on either part."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def real(x: np.ndarray) -> np.ndarray:
    """Return the real part."""
    return np.array(x.real)


def imag(x: np.ndarray) -> np.ndarray:
    """Return the imaginary part."""
    return np.array(x.imag)


def multiply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the product by the schoolbook formula, each step rounded; c64 in f32."""
    # numpy's own product may fuse a multiplication with an addition, depending on alignment.
    return join(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the quotient, scaled against overflow; infinities as in C99 Annex G.5.1."""
    a, b = x.real, x.imag
    size = np.fmax(np.abs(y.real), np.abs(y.imag))
    _, exponent = np.frexp(np.where(np.isfinite(size), size, 0))
    c, d = np.ldexp(y.real, -exponent), np.ldexp(y.imag, -exponent)
    scale = c * c + d * d
    real = np.ldexp((a * c + b * d) / scale, -exponent)
    imag = np.ldexp((b * c - a * d) / scale, -exponent)
    lost = np.isnan(real) & np.isnan(imag)
    if not lost.any():
        return join(real, imag)
    by_zero = lost & (scale == 0) & ~(np.isnan(a) & np.isnan(b))
    infinity = np.copysign(np.inf, c)
    real, imag = np.where(by_zero, infinity * a, real), np.where(by_zero, infinity * b, imag)
    finite_y = np.isfinite(c) & np.isfinite(d)
    grows = lost & (np.isinf(a) | np.isinf(b)) & finite_y & ~by_zero
    p, q = _unit(a), _unit(b)
    real = np.where(grows, np.inf * (p * c + q * d), real)
    imag = np.where(grows, np.inf * (q * c - p * d), imag)
    vanishes = lost & np.isinf(size) & np.isfinite(a) & np.isfinite(b)
    p, q = _unit(c), _unit(d)
    real = np.where(vanishes, 0 * (a * p + b * q), real)
    imag = np.where(vanishes, 0 * (b * p - a * q), imag)
    return join(real, imag)


def _unit(part: np.ndarray) -> np.ndarray:
    """Return 1 for an infinity and 0 for anything else, with its sign."""
    return np.copysign(np.isinf(part).astype(np.float64), part)


def absolute(x: np.ndarray) -> np.ndarray:
    """Return the modulus, a float; infinite if either part is."""
    return np.hypot(x.real, x.imag)


def sign(x: np.ndarray) -> np.ndarray:
    """Return x / |x|, and 0 for 0; NaN where a part is infinite or NaN."""
    size = absolute(x)
    zero = size == 0
    size = np.where(zero, 1, size)
    return np.where(zero, 0, join(x.real / size, x.imag / size))


def log1p(x: np.ndarray) -> np.ndarray:
    """Return log(1 + x), accurate near 0."""
    a, b = x.real, x.imag
    near = 0.5 * np.log1p(a * (2 + a) + b * b)
    small = np.maximum(np.abs(a), np.abs(b)) < 0.5
    return join(np.where(small, near, np.log(np.hypot(1 + a, b))), np.arctan2(b, 1 + a))


def expm1(x: np.ndarray) -> np.ndarray:
    """Return exp(x) - 1, accurate near 0."""
    a, b = x.real, x.imag
    half = np.sin(0.5 * b)
    real = np.expm1(a) * np.cos(b) - 2 * half * half
    whole = np.exp(x)
    # Far from 0 nothing cancels, and exp has the right limits for infinities.
    far = ~(np.abs(a) < 1)
    return join(np.where(far, whole.real - 1, real), whole.imag)


def exp2(x: np.ndarray) -> np.ndarray:
    """Return 2**x."""
    return np.asarray(np.exp(join(x.real * _LN2, x.imag * _LN2)))


def log2(x: np.ndarray) -> np.ndarray:
    """Return the logarithm to base 2."""
    found = np.log(x)
    return join(found.real / _LN2, found.imag / _LN2)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """Return 1 / sqrt(x)."""
    return divide(np.ones_like(x), np.sqrt(x))


def logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x))."""
    return divide(np.ones_like(x), 1 + np.exp(-x))


def atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return -i * log((x + i*y) / sqrt(x*x + y*y))."""
    numerator = join(x.real - y.imag, x.imag + y.real)
    log = np.log(divide(numerator, np.sqrt(multiply(x, x) + multiply(y, y))))
    return join(log.imag, -log.real)


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return exp(y * log(x)); 0 to the power 0 is 1, to a power with positive real part 0."""
    result = np.exp(multiply(y, np.log(x)))
    zero = x == 0
    result = np.where(zero & (y.real > 0), 0, result)
    return np.where(y == 0, 1, result)
