"""The operations on real floats, by opcode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.scalar.math import exponential, inverse, logarithm, power, rounding, trigonometric
from hlo.codegen.scalar.math.erf import erf
from hlo.codegen.scalar.math.expr import Num, round_even
from hlo.values.types import ElementType

_FUNCTIONS: dict[str, Callable[..., Num]] = {
    "abs": Num.abs,
    "add": lambda x, y: x + y,
    "ceil": rounding.ceil,
    "clamp": lambda low, x, high: low.call("maximum", x).call("minimum", high),
    "cosh": exponential.cosh,
    "cosine": trigonometric.cosine,
    "divide": lambda x, y: x / y,
    "erf": erf,
    "exp2": exponential.exp2,
    "exponential": exponential.exp,
    "exponential-minus-one": exponential.expm1,
    "floor": rounding.floor,
    "imag": lambda x: x.lift(0.0),
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log-plus-one": logarithm.log1p,
    "logistic": exponential.logistic,
    "maximum": lambda x, y: x.call("maximum", y),
    "minimum": lambda x, y: x.call("minimum", y),
    "multiply": lambda x, y: x * y,
    "negate": lambda x: -x,
    "real": lambda x: x,
    "round-nearest-afz": rounding.round_away,
    "round-nearest-even": round_even,
    "rsqrt": lambda x: 1.0 / x.sqrt(),
    "sign": rounding.sign,
    "sine": trigonometric.sine,
    "sinh": exponential.sinh,
    "sqrt": Num.sqrt,
    "subtract": lambda x, y: x - y,
    "tanh": exponential.tanh,
}


# Computed in f64 for every type.
_IN_DOUBLE: dict[str, Callable[..., Num]] = {
    "acos": inverse.acos,
    "acosh": logarithm.acosh,
    "asin": inverse.asin,
    "asinh": logarithm.asinh,
    "atanh": logarithm.atanh,
}
# The same, with a shorter way if the result is going to be rounded to f32 or less.
_ROUGHLY: dict[str, Callable[..., Num]] = {
    "atan2": inverse.atan2,
    "cbrt": power.cbrt,
    "power": power.power,
    "remainder": rounding.remainder,
    "tan": trigonometric.tangent,
}
# What uses `Builder.rarely`: angles of many turns, quotients of many digits.
_RARE = frozenset({"remainder", "sine", "cosine", "tan"})
# The same, where one part of a complex number is an angle.
_RARE_COMPLEX = frozenset({"cosh", "exp2", "exponential", "exponential-minus-one", "logistic",
                           "power", "sinh", "tanh"})  # fmt: skip


def has_rare_cases(opcode: str, et: ElementType) -> bool:
    """True when an operation on a type uses `Builder.rarely`."""
    if et.is_complex:
        return opcode in _RARE or opcode in _RARE_COMPLEX
    return et.is_float and opcode in _RARE


# Less code than a call of it would be worth.
_SHORT = frozenset(
    """abs add ceil clamp divide floor imag maximum minimum multiply negate real round-nearest-afz
    round-nearest-even rsqrt sign sqrt subtract""".split()
)


def float_op(b: Builder, opcode: str, args: Sequence[Val]) -> Val:
    """Return an elementwise operation on floats or doubles.

    The result may be a double also for floats: then it has yet to be rounded.
    """

    def write(b: Builder, args: Sequence[Val]) -> Val:
        return _float_op(opcode, [Num(b, a) for a in args]).val

    return write(b, args) if opcode in _SHORT else b.shared(f"math.{opcode}", args, write)


def _float_op(opcode: str, args: Sequence[Num]) -> Num:
    if opcode in _FUNCTIONS:
        return _FUNCTIONS[opcode](*args)
    doubles = [a.to("double") for a in args]
    if opcode in _IN_DOUBLE:
        return _IN_DOUBLE[opcode](*doubles)
    return _ROUGHLY[opcode](*doubles, rough=args[0].type == "float")
