"""The common part of complex asin, acos and their hyperbolic counterparts.

Source: T. Hull, T. Fairgrieve, P. Tang, "Implementing the complex arcsine and arccosine functions
using exception handling", 1997, with thresholds instead of exceptions, as in XLA.
"""

from __future__ import annotations

import math

import numpy as np

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context
from hlo.frontends.stablehlo.formulas import Number
from hlo.ir import Instruction


def asin_acos_kernel(c: Context) -> Instruction:
    """Append two numbers, as one complex number, of which asin and acos are arctangents."""
    z = c.operand(0)
    if not z.array_shape.element_type.is_complex:
        raise InferError("its operand is complex", code="type-mismatch")
    x, y = (abs(Number(c.b, c.b.op(part, z))) for part in ("real", "imag"))
    info = np.finfo(x.element_type.dtype)
    largest, smallest = math.sqrt(float(info.max)) / 8, math.sqrt(float(info.tiny)) * 4
    x_plus, x_minus = x + 1.0, x - 1.0
    r, s = _hypot(x_plus, y), _hypot(x_minus, y)
    a = (r + s) * 0.5
    real = _real(x, y, a, r + x_plus, s - x_minus, s + x_minus, largest)
    half = y * y * 0.5
    first = half / (r + x_plus)
    is_tiny = y.is_("LT", smallest) & x.is_("LT", 1.0)
    near = a.is_("LE", 1.5).where(first + half / (s - x_minus), a - 1.0)
    a_minus = x.is_("GE", 1.0).where(first + (s + x_minus) * 0.5, near)
    a_minus = is_tiny.where(-(x_plus * x_minus / (a + 1.0)), a_minus)
    root = (a_minus * (a + 1.0)).of("sqrt")
    imag = is_tiny.where(y / root, (a_minus + root).of("log-plus-one"))
    # Of numbers this large the logarithm of the modulus is computed from the larger part and the
    # ratio.
    limit = x.is_("LT", largest * 1e12).where(x.number(largest * 1e-6), x.number(largest * 1e2))
    y_counts = y.is_("GE", limit)
    size = y_counts.where(y, x)
    finite = y_counts & y.is_("NE", math.inf)
    ratio = finite.where(x / y, x.number(0.0))
    far = size.of("log") + math.log(2) + (ratio * ratio).of("log-plus-one") * 0.5
    is_far = size.is_("GE", y_counts.where(limit, x.number(largest)))
    return c.b.op("complex", real.inst, is_far.where(far, imag).inst)


def _real(
    x: Number, y: Number, a: Number, r_plus: Number, s_minus: Number, s_plus: Number, largest: float
) -> Number:
    half = (a + x) * 0.5
    near = (half * (y * y / r_plus + s_minus)).of("sqrt")
    far = y * (half / r_plus + half / s_plus).of("sqrt")
    found = x.is_("LE", 1.0).where(near, far)
    return x.of("maximum", y).is_("GE", largest).where(y, found)


def _hypot(a: Number, b: Number) -> Number:
    """Return the length of a vector without overflow."""
    a, b = abs(a), abs(b)
    large, small = a.of("maximum", b), a.of("minimum", b)
    ratio = small / large
    square = ratio * ratio
    root = (square + 1.0).of("sqrt")
    # A square root that rounds to one loses the contribution of the square.
    lost = root.is_("EQ", 1.0) & square.is_("GT", 0.0)
    length = lost.where(large + large * square * 0.5, large * root)
    return large.is_("EQ", small).where(large * math.sqrt(2), length)
