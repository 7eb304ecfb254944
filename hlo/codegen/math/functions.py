"""The operations on real floats, by opcode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.codegen.math import exponential, inverse, logarithm, power, rounding, trigonometric
from hlo.codegen.math.erf import erf
from hlo.codegen.math.expr import Num, round_even

_FUNCTIONS: dict[str, Callable[..., Num]] = {
    "abs": Num.abs,
    "add": lambda x, y: x + y,
    "atan2": inverse.atan2,
    "cbrt": power.cbrt,
    "ceil": rounding.ceil,
    "clamp": lambda low, x, high: low.call("maximum", x).call("minimum", high),
    "acos": inverse.acos,
    "acosh": logarithm.acosh,
    "asin": inverse.asin,
    "asinh": logarithm.asinh,
    "atanh": logarithm.atanh,
    "cosh": exponential.cosh,
    "cosine": trigonometric.cosine,
    "divide": lambda x, y: x / y,
    "erf": erf,
    "exponential": exponential.exp,
    "exponential-minus-one": exponential.expm1,
    "floor": rounding.floor,
    "imag": lambda x: x.lift(0.0),
    "log": logarithm.log,
    "log-plus-one": logarithm.log1p,
    "logistic": exponential.logistic,
    "maximum": lambda x, y: x.call("maximum", y),
    "minimum": lambda x, y: x.call("minimum", y),
    "multiply": lambda x, y: x * y,
    "negate": lambda x: -x,
    "power": power.power,
    "real": lambda x: x,
    "remainder": rounding.remainder,
    "round-nearest-afz": rounding.round_away,
    "round-nearest-even": round_even,
    "rsqrt": lambda x: 1.0 / x.sqrt(),
    "sign": rounding.sign,
    "sine": trigonometric.sine,
    "sinh": exponential.sinh,
    "sqrt": Num.sqrt,
    "subtract": lambda x, y: x - y,
    "tan": trigonometric.tangent,
    "tanh": exponential.tanh,
}


def float_op(opcode: str, args: Sequence[Num]) -> Num:
    """Return an elementwise operation on floats."""
    return _FUNCTIONS[opcode](*args)
