"""Native code of elementwise operations: a record for each, on scalars of one type.

Operations that need more than their operands' values (`convert`, `compare`, ...) are in `scalar`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hlo.codegen.scalar import integer
from hlo.codegen.scalar.integer import IntegerFunction
from hlo.codegen.scalar.math import complex as cx
from hlo.codegen.scalar.math import complex_arithmetic as arithmetic
from hlo.codegen.scalar.math import exponential, inverse, logarithm, power, rounding, trigonometric
from hlo.codegen.scalar.math.complex_arithmetic import Complex
from hlo.codegen.scalar.math.erf import erf
from hlo.codegen.scalar.math.expr import Num, round_even
from hlo.values.types import ElementType


class Precision(Enum):
    """The type that a function of floats computes in."""

    OPERANDS = "operands"  # that of its operands, float or double
    DOUBLE = "double"
    # Double; `rough=True` if the result will be rounded to f32 or less.
    ROUGH = "rough"


@dataclass(frozen=True, kw_only=True)
class Native:
    """An operation's code: a function for each class of element types that it supports.

    Attributes:
        real: of floats, on `Num`s.
        precision: what `real` computes in; floats below f32 come as f32.
        through_f32: the double that `real` returns is rounded to f32 before it is to fewer bits, as
            the reference and XLA do.
        complex: of complex numbers, on `Complex`.
        own_parts: `complex` computes in the type of the parts, not in double.
        integer: of integers: builder, whether they are signed, operands.
        pred: the same of truth values, where it is not that of integers of one bit.
        is_short: less code than a call of it would be.
        keeps_nan: instructions of the processor, whose NaN is that of an operand or its own, so
            that it has no bit in the low half of an f32 where NaN operands have none.
        rare_real, rare_complex: uses `Builder.rarely`: for very large angles, or quotients of many
            digits.
    """

    real: Callable[..., Num] | None = None
    precision: Precision = Precision.OPERANDS
    through_f32: bool = False
    complex: Callable[..., Complex | Num] | None = None
    own_parts: bool = False
    integer: IntegerFunction | None = None
    pred: IntegerFunction | None = None
    is_short: bool = False
    keeps_nan: bool = False
    rare_real: bool = False
    rare_complex: bool = False

    def has_rare_cases(self, et: ElementType) -> bool:
        """True when it uses `Builder.rarely` on an element type."""
        return self.rare_complex if et.is_complex else et.is_float and self.rare_real


NATIVE: dict[str, Native] = {
    "abs": Native(
        real=Num.abs, complex=arithmetic.absolute, integer=integer.absolute, is_short=True
    ),
    "acos": Native(real=inverse.acos, precision=Precision.DOUBLE, complex=cx.acos),
    "acosh": Native(real=logarithm.acosh, precision=Precision.DOUBLE, complex=cx.acosh),
    "add": Native(
        real=lambda x, y: x + y, complex=arithmetic.add, own_parts=True,
        integer=integer.binary("add"), pred=integer.binary("or"), is_short=True, keeps_nan=True,
    ),
    "and": Native(integer=integer.binary("and")),
    "asin": Native(real=inverse.asin, precision=Precision.DOUBLE, complex=cx.asin),
    "asinh": Native(real=logarithm.asinh, precision=Precision.DOUBLE, complex=cx.asinh),
    "atan2": Native(
        real=inverse.atan2, precision=Precision.ROUGH, through_f32=True, complex=cx.complex_atan2,
    ),
    "atanh": Native(real=logarithm.atanh, precision=Precision.DOUBLE, complex=cx.atanh),
    "cbrt": Native(real=power.cbrt, precision=Precision.ROUGH),
    "ceil": Native(real=rounding.ceil, is_short=True),
    "clamp": Native(
        real=lambda low, x, high: low.call("maximum", x).call("minimum", high),
        complex=arithmetic.clamp, own_parts=True,
        integer=integer.clamp, pred=integer.clamp_pred, is_short=True,
    ),
    "cosh": Native(real=exponential.cosh, complex=cx.cosh, rare_complex=True),
    "cosine": Native(
        real=trigonometric.cosine, complex=cx.cosine, rare_real=True, rare_complex=True
    ),
    "count-leading-zeros": Native(integer=integer.count_leading_zeros),
    "divide": Native(
        real=lambda x, y: x / y, complex=arithmetic.divide, integer=integer.divide,
        is_short=True, keeps_nan=True,
    ),
    "erf": Native(real=erf),
    "exp2": Native(real=exponential.exp2, complex=cx.exp2, rare_complex=True),
    "exponential": Native(real=exponential.exp, complex=cx.exp, rare_complex=True),
    "exponential-minus-one": Native(real=exponential.expm1, complex=cx.expm1, rare_complex=True),
    "floor": Native(real=rounding.floor, is_short=True),
    "imag": Native(
        real=lambda x: x.lift(0.0), complex=lambda z: z.im, own_parts=True, is_short=True
    ),
    "log": Native(real=logarithm.log, complex=cx.log),
    "log2": Native(real=logarithm.log2, complex=cx.log2),
    "log-plus-one": Native(real=logarithm.log1p, complex=cx.log1p),
    "logistic": Native(real=exponential.logistic, complex=cx.logistic, rare_complex=True),
    "maximum": Native(
        real=lambda x, y: x.call("maximum", y), complex=arithmetic.maximum, own_parts=True,
        integer=integer.maximum, pred=integer.binary("or"), is_short=True,
    ),
    "minimum": Native(
        real=lambda x, y: x.call("minimum", y), complex=arithmetic.minimum, own_parts=True,
        integer=integer.minimum, pred=integer.binary("and"), is_short=True,
    ),
    "mulhi": Native(integer=integer.multiply_high),
    "multiply": Native(
        real=lambda x, y: x * y, complex=arithmetic.multiply, own_parts=True,
        integer=integer.binary("mul"), pred=integer.binary("and"), is_short=True, keeps_nan=True,
    ),
    "negate": Native(
        real=lambda x: -x, complex=Complex.__neg__, own_parts=True,
        integer=integer.negate, is_short=True,
    ),
    "not": Native(integer=integer.invert),
    "or": Native(integer=integer.either),
    "popcnt": Native(integer=integer.count_ones),
    "power": Native(
        real=power.power, precision=Precision.ROUGH, through_f32=True,
        complex=cx.power, integer=power.integer_power, rare_complex=True,
    ),
    "real": Native(real=lambda x: x, complex=lambda z: z.re, own_parts=True, is_short=True),
    "remainder": Native(
        real=rounding.remainder, precision=Precision.ROUGH,
        integer=integer.remainder, rare_real=True,
    ),
    "round-nearest-afz": Native(real=rounding.round_away, is_short=True),
    "round-nearest-even": Native(real=round_even, is_short=True),
    "rsqrt": Native(
        real=lambda x: 1.0 / x.sqrt(), complex=cx.rsqrt, is_short=True, keeps_nan=True
    ),
    "shift-left": Native(integer=integer.shift_left),
    "shift-right-arithmetic": Native(integer=integer.shift_right_arithmetic),
    "shift-right-logical": Native(integer=integer.shift_right_logical),
    "sign": Native(
        real=rounding.sign, complex=arithmetic.sign, integer=integer.sign, is_short=True
    ),
    "sine": Native(real=trigonometric.sine, complex=cx.sine, rare_real=True, rare_complex=True),
    "sinh": Native(real=exponential.sinh, complex=cx.sinh, rare_complex=True),
    "sqrt": Native(real=Num.sqrt, complex=cx.sqrt, is_short=True, keeps_nan=True),
    "subtract": Native(
        real=lambda x, y: x - y, complex=arithmetic.subtract, own_parts=True,
        integer=integer.binary("sub"), is_short=True, keeps_nan=True,
    ),
    "tan": Native(
        real=trigonometric.tangent, precision=Precision.ROUGH, complex=cx.tan,
        rare_real=True, rare_complex=True,
    ),
    "tanh": Native(real=exponential.tanh, complex=cx.tanh, rare_complex=True),
    "xor": Native(integer=integer.binary("xor")),
}  # fmt: skip
