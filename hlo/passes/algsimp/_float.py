"""Bit-exact rules for float arithmetic, and rewrites that only change rounding.

Every rule is valid for NaN, infinities and signed zeros. The payload of a NaN may change.
"""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._facts import has_no_sign, is_integral, never_minus_zero
from hlo.passes.algsimp._match import (
    compute,
    either_way,
    filled,
    float_splat,
    has_many_exponents,
    has_negatives,
    is_float,
    is_single_use,
    is_splat,
    limits,
    splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule

_ROUNDINGS = "ceil floor round-nearest-afz round-nearest-even"


def _is_signed_float(inst: Instruction) -> bool:
    return type_of(inst).is_float and has_negatives(type_of(inst))


def _is_inexact(inst: Instruction) -> bool:
    return type_of(inst).is_float or type_of(inst).is_complex


# --- neutral elements ---------------------------------------------------------------------------


@rule("add", "x + -0 = x, for floats; x + 0 is not x for x = -0", on="constant broadcast")
def add_minus_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    zero = complex(-0.0, -0.0) if type_of(x).is_complex else -0.0
    return x if _is_inexact(x) and is_splat(y, zero) else None


@rule("add", "x + 0 = x, for floats x that are never -0", on="constant broadcast")
def add_plus_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if is_float(x) and is_splat(y, 0.0) and never_minus_zero(x) else None


@rule("subtract", "x - 0 = x, for floats", on="constant broadcast")
def subtract_plus_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if _is_inexact(x) and is_splat(y, 0.0) else None


@rule("subtract", "-0 - x = -x, for floats; 0 - x is not -x for x = 0", on="constant broadcast")
def minus_zero_minus(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return b.op("negate", y) if is_float(x) and is_splat(x, -0.0) else None


@rule(
    "multiply divide",
    "x * 1 = x / 1 = x, but for complex numbers",
    dynamic=True,
    on="constant broadcast",
)
def by_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if not type_of(x).is_complex and is_splat(y, 1) else None


@rule("multiply", "x * -1 = -x, for integers and floats", on="constant broadcast")
def multiply_minus_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return b.op("negate", x) if not type_of(x).is_complex and is_splat(y, -1) else None


@rule("divide", "x / -1 = -x, for floats", on="constant broadcast")
def divide_float_minus_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return b.op("negate", x) if is_float(x) and is_splat(y, -1.0) else None


@rule(
    "maximum minimum", "max(x, -inf) = x and min(x, inf) = x, NaN included", on="constant broadcast"
)
def beyond_infinity(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    ends = limits(type_of(x)) if is_float(x) else None
    if ends is None:
        return None
    return x if is_splat(y, ends[0] if inst.opcode == "maximum" else ends[1]) else None


# --- signs --------------------------------------------------------------------------------------


@rule("add", "x + -y = x - y, for integers and floats", on="negate")
def add_negated(inst: Instruction, b: Builder) -> Instruction | None:
    if not has_negatives(type_of(inst)):
        return None
    for x, y in either_way(inst):
        if y.opcode == "negate":
            return b.op("subtract", x, y.operands[0])
    return None


@rule("subtract", "x - -y = x + y, for integers and floats", on="negate")
def subtract_negated(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if y.opcode != "negate" or not has_negatives(type_of(inst)):
        return None
    return b.op("add", x, y.operands[0])


@rule("subtract", "x - c = x + -c, for a constant c other than 0", on="constant broadcast")
def subtract_constant(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    value = splat(y)
    if value is None or splat(x) is not None or is_splat(y, 0) or not has_negatives(type_of(x)):
        return None
    if value != value:
        return None  # a NaN has no opposite
    return b.op("add", x, filled(b, y, compute("negate", value)))


@rule(
    "negate",
    "-(x * c) = x * -c and -(x / c) = x / -c, for floats and a constant c",
    on="multiply divide",
)
def negate_scaled(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode not in ("multiply", "divide") or not is_single_use(inner):
        return None
    x, c = inner.operands
    value = splat(c)
    if value is None or not is_float(inst):
        return None
    return b.op(inner.opcode, x, filled(b, c, compute("negate", value)))


@rule(
    "multiply divide",
    "-x * c = x * -c and -x / c = x / -c, for floats and a constant c",
    on="negate",
)
def scale_negated(inst: Instruction, b: Builder) -> Instruction | None:
    inner, c = inst.operands
    value = splat(c)
    if inner.opcode != "negate" or value is None or not is_float(inst):
        return None
    return b.op(inst.opcode, inner.operands[0], filled(b, c, compute("negate", value)))


@rule(
    "multiply divide",
    "-x * -y = x * y, for integers and floats; -x / -y = x / y, for floats",
    on="negate",
)
def both_negated(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "negate" or y.opcode != "negate":
        return None
    if type_of(inst).is_complex or not has_negatives(type_of(inst)):
        return None
    if inst.opcode == "divide" and not is_float(inst):
        return None
    return b.op(inst.opcode, x.operands[0], y.operands[0])


@rule("multiply", "|x| * |x| = x * x, for real numbers", on="abs")
def square_of_abs(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x is not y or x.opcode != "abs" or type_of(x.operands[0]).is_complex:
        return None
    return b.op("multiply", x.operands[0], x.operands[0])


@rule("abs", "|-x| = |x| and ||x|| = |x|, for real numbers", on="abs negate")
def abs_of_sign_change(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if type_of(inner).is_complex or not has_negatives(type_of(inst)):
        return None
    if inner.opcode == "abs":
        return inner
    return b.op("abs", inner.operands[0]) if inner.opcode == "negate" else None


@rule("abs", "|x| = x, for floats x that are never negative, nor -0")
def abs_of_no_sign(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if is_float(x) and has_no_sign(x) else None


@rule("sign", "sign(sign(x)) = sign(x), for real numbers", on="sign")
def sign_of_sign(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    return inner if inner.opcode == "sign" and not type_of(inst).is_complex else None


@rule("multiply", "sign(x) * |x| = x, for real numbers: sign keeps zeros and NaN", on="sign")
def sign_times_abs(inst: Instruction, b: Builder) -> Instruction | None:
    for x, y in either_way(inst):
        if x.opcode == "sign" and y.opcode == "abs" and x.operands[0] is y.operands[0]:
            return None if type_of(inst).is_complex else x.operands[0]
    return None


@rule("cosine cosh", "cos(-x) = cos(|x|) = cos(x), and cosh", on="abs negate")
def even_function(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode not in ("negate", "abs") or not _is_signed_float(inner.operands[0]):
        return None
    return b.op(inst.opcode, inner.operands[0], **inst.attrs)


@rule("is-finite", "is-finite(-x) = is-finite(|x|) = is-finite(x)", on="abs negate")
def finite_of_sign_change(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode not in ("negate", "abs") or not _is_signed_float(inner.operands[0]):
        return None
    return b.op("is-finite", inner.operands[0])


@rule(
    "maximum minimum",
    "max(-x, -y) = -min(x, y) and min(-x, -y) = -max(x, y), for floats",
    on="negate",
)
def order_of_negated(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "negate" or y.opcode != "negate" or not _is_signed_float(inst):
        return None
    if not (is_single_use(x) and is_single_use(y)):
        return None
    other = "minimum" if inst.opcode == "maximum" else "maximum"
    return b.op("negate", b.op(other, x.operands[0], y.operands[0]))


# --- rounding to integers -----------------------------------------------------------------------


@rule(_ROUNDINGS, "floor(x) = x, and ceil and round, for x that are integers already")
def round_integral(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if is_integral(x) else None


# --- powers -------------------------------------------------------------------------------------


@rule("power", "x**0 = 1, also for NaN", on="constant broadcast")
def power_zero(inst: Instruction, b: Builder) -> Instruction | None:
    y = inst.operands[1]
    if type_of(inst).is_complex or not (is_splat(y, 0) or is_splat(y, -0.0)):
        return None
    return filled(b, inst, 1)


@rule("power", "x**1 = x", on="constant broadcast")
def power_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if not type_of(inst).is_complex and is_splat(y, 1) else None


@rule("power", "1**y = 1, for floats, also for NaN", on="constant broadcast")
def power_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, _ = inst.operands
    return x if is_float(inst) and is_splat(x, 1.0) else None


@rule(
    "power", "x**2 = x*x, rounded once as the power is", approximate=True, on="constant broadcast"
)
def power_two(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return b.op("multiply", x, x) if is_float(inst) and is_splat(y, 2.0) else None


@rule("power", "x**3 = x*x*x, but for rounding", approximate=True, on="constant broadcast")
def power_three(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    # Where there are few exponents, x*x may overflow or vanish and x**3 too: no number is left.
    if not has_many_exponents(inst) or not is_splat(y, 3.0):
        return None
    return b.op("multiply", b.op("multiply", x, x), x)


@rule("power", "x**-1 = 1/x", approximate=True, on="constant broadcast")
def power_minus_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not is_float(inst) or not is_splat(y, -1.0):
        return None
    return b.op("divide", filled(b, x, 1), x)


@rule(
    "power",
    "x**0.5 = sqrt(x) and x**-0.5 = rsqrt(x), for x without a sign",
    approximate=True,
    on="constant broadcast",
)
def power_half(inst: Instruction, b: Builder) -> Instruction | None:
    """Of -0 and -inf the power is 0 and inf, the root -0 and NaN."""
    x, y = inst.operands
    exponent = float_splat(y)
    if exponent not in (0.5, -0.5) or not has_no_sign(x):
        return None
    return b.op("sqrt" if exponent == 0.5 else "rsqrt", x)
