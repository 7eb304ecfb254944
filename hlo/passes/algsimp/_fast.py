"""Rules that are valid for real numbers but not for floats: they may add or remove an overflow, a
NaN or a -0.

They need the option `fast-math`.
"""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._match import (
    either_way,
    factored,
    filled,
    float_splat,
    folded,
    is_float,
    is_single_use,
    is_splat,
)
from hlo.passes.algsimp._rules import rule

FAST = "fast_math"


@rule("add", "x + 0 = x; wrong for x = -0", approximate=True, option=FAST)
def add_any_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if is_float(x) and is_splat(y, 0.0) else None


@rule(
    "multiply", "x * 0 = 0; wrong for NaN, infinite and negative x", approximate=True, option=FAST
)
def multiply_float_zero(inst: Instruction, b: Builder) -> Instruction | None:
    _, y = inst.operands
    return y if is_float(y) and is_splat(y, 0.0) else None


@rule("subtract", "x - x = 0; wrong for NaN and infinities", approximate=True, option=FAST)
def subtract_float_self(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return filled(b, inst, 0) if x is y and is_float(x) else None


@rule("negate", "-(x - y) = y - x; wrong in sign for x = y", approximate=True, option=FAST)
def negate_float_difference(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "subtract" or not is_float(inst):
        return None
    return b.op("subtract", inner.operands[1], inner.operands[0])


@rule("add multiply", "(x + c) + d = x + (c + d), and *; may overflow otherwise", approximate=True,
      option=FAST)  # fmt: skip
def float_constants_together(inst: Instruction, b: Builder) -> Instruction | None:
    inner, d = inst.operands
    if inner.opcode != inst.opcode or not is_float(inst):
        return None
    both = folded(b, inst.opcode, inner.operands[1], d)
    return None if both is None else b.op(inst.opcode, inner.operands[0], both)


@rule("add subtract", "x*c + y*c = (x + y)*c, and with -; may overflow otherwise",
      approximate=True, option=FAST)  # fmt: skip
def float_common_factor(inst: Instruction, b: Builder) -> Instruction | None:
    return factored(inst, b) if is_float(inst) else None


# --- division -----------------------------------------------------------------------------------


@rule("divide", "(x / y) / z = x / (y * z); y * z may overflow", approximate=True, option=FAST)
def divide_quotient(inst: Instruction, b: Builder) -> Instruction | None:
    inner, z = inst.operands
    if inner.opcode != "divide" or not is_float(inst) or not is_single_use(inner):
        return None
    x, y = inner.operands
    return b.op("divide", x, b.op("multiply", y, z))


@rule("divide", "x / (y / z) = (x * z) / y; x * z may overflow", approximate=True, option=FAST)
def divide_by_quotient(inst: Instruction, b: Builder) -> Instruction | None:
    x, inner = inst.operands
    if inner.opcode != "divide" or not is_float(inst) or not is_single_use(inner):
        return None
    y, z = inner.operands
    return b.op("divide", b.op("multiply", x, z), y)


@rule("multiply", "(x / y) * y = x; wrong for y = 0", approximate=True, option=FAST)
def multiply_quotient(inst: Instruction, b: Builder) -> Instruction | None:
    for inner, y in either_way(inst):
        if inner.opcode == "divide" and inner.operands[1] is y and is_float(inst):
            return inner.operands[0]
    return None


@rule("divide", "x / x = 1; wrong for 0, infinities and NaN", approximate=True, option=FAST)
def divide_self(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return filled(b, inst, 1) if x is y and is_float(x) else None


@rule("divide", "x / exp(y) = x * exp(-y); exp(y) may overflow", approximate=True, option=FAST)
def divide_by_exponential(inst: Instruction, b: Builder) -> Instruction | None:
    x, inner = inst.operands
    if inner.opcode != "exponential" or not is_float(inst) or not is_single_use(inner):
        return None
    return b.op("multiply", x, b.op("exponential", b.op("negate", inner.operands[0])))


@rule("divide", "x / y**z = x * y**-z; y**z may overflow", approximate=True, option=FAST)
def divide_by_power(inst: Instruction, b: Builder) -> Instruction | None:
    x, inner = inst.operands
    if inner.opcode != "power" or not is_float(inst) or not is_single_use(inner):
        return None
    y, z = inner.operands
    return b.op("multiply", x, b.op("power", y, b.op("negate", z)))


# --- exponentials, logarithms, roots ------------------------------------------------------------


@rule(
    "multiply", "exp(x) * exp(y) = exp(x + y); either may overflow", approximate=True, option=FAST
)
def product_of_exponentials(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "exponential" or y.opcode != "exponential" or not is_float(inst):
        return None
    return b.op("exponential", b.op("add", x.operands[0], y.operands[0]))


@rule("log", "log(exp(x)) = x; exp(x) may overflow", approximate=True, option=FAST)
def log_of_exponential(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    return inner.operands[0] if inner.opcode == "exponential" and is_float(inst) else None


@rule("exponential", "exp(log(x)) = x; wrong for x < 0", approximate=True, option=FAST)
def exponential_of_log(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    return inner.operands[0] if inner.opcode == "log" and is_float(inst) else None


@rule("log-plus-one", "log1p(expm1(x)) = x; expm1(x) may overflow", approximate=True, option=FAST)
def log_plus_one_of_inverse(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    same = inner.opcode == "exponential-minus-one" and is_float(inst)
    return inner.operands[0] if same else None


@rule("log", "log(x**y) = y * log(x); wrong for x < 0", approximate=True, option=FAST)
def log_of_power(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "power" or not is_float(inst) or not is_single_use(inner):
        return None
    x, y = inner.operands
    return b.op("multiply", y, b.op("log", x))


@rule("log", "log(sqrt(x)) = log(x) / 2 and log(rsqrt(x)) = -log(x) / 2; wrong for x = 0 in sign",
      approximate=True, option=FAST)  # fmt: skip
def log_of_root(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode not in ("sqrt", "rsqrt") or not is_float(inst):
        return None
    half = filled(b, inst, 0.5 if inner.opcode == "sqrt" else -0.5)
    return b.op("multiply", b.op("log", inner.operands[0]), half)


@rule("log", "log(1 + x) = log1p(x); more exact, far off near 0", approximate=True, option=FAST)
def log_of_one_more(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "add" or not is_float(inst) or not is_splat(inner.operands[1], 1.0):
        return None
    return b.op("log-plus-one", inner.operands[0])


@rule("add", "exp(x) - 1 = expm1(x); more exact, far off near 0", approximate=True, option=FAST)
def one_less_than_exponential(inst: Instruction, b: Builder) -> Instruction | None:
    """Subtractions of constants are additions by now."""
    inner, y = inst.operands
    if inner.opcode != "exponential" or not is_float(inst) or not is_splat(y, -1.0):
        return None
    return b.op("exponential-minus-one", inner.operands[0]) if is_single_use(inner) else None


@rule("power", "(x**y)**z = x**(y * z); wrong for x < 0", approximate=True, option=FAST)
def power_of_power(inst: Instruction, b: Builder) -> Instruction | None:
    inner, z = inst.operands
    if inner.opcode != "power" or not is_float(inst):
        return None
    return b.op("power", inner.operands[0], b.op("multiply", inner.operands[1], z))


@rule("power", "exp(x)**y = exp(x * y); exp(x) may overflow", approximate=True, option=FAST)
def power_of_exponential(inst: Instruction, b: Builder) -> Instruction | None:
    inner, y = inst.operands
    if inner.opcode != "exponential" or not is_float(inst):
        return None
    return b.op("exponential", b.op("multiply", inner.operands[0], y))


@rule("sqrt", "sqrt(x * x) = |x|; x * x may overflow", approximate=True, option=FAST)
def root_of_square(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "multiply" or inner.operands[0] is not inner.operands[1]:
        return None
    return b.op("abs", inner.operands[0]) if is_float(inst) else None


@rule("multiply", "sqrt(x) * sqrt(x) = x; wrong for x < 0", approximate=True, option=FAST)
def square_of_root(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    same = x is y and x.opcode == "sqrt" and is_float(inst)
    return x.operands[0] if same else None


@rule("multiply", "rsqrt(x) * rsqrt(x) = 1/x; wrong for x < 0", approximate=True, option=FAST)
def square_of_inverse_root(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x is not y or x.opcode != "rsqrt" or not is_float(inst):
        return None
    return b.op("divide", filled(b, inst, 1), x.operands[0])


@rule("rsqrt", "rsqrt(1/x) = sqrt(x); 1/x may overflow", approximate=True, option=FAST)
def inverse_root_of_inverse(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "divide" or not is_float(inst) or float_splat(inner.operands[0]) != 1:
        return None
    return b.op("sqrt", inner.operands[1])


@rule("multiply", "x * rsqrt(x) = sqrt(x); wrong for x = 0 and x = inf", approximate=True,
      option=FAST)  # fmt: skip
def times_inverse_root(inst: Instruction, b: Builder) -> Instruction | None:
    for x, y in either_way(inst):
        if y.opcode == "rsqrt" and y.operands[0] is x and is_float(inst):
            return b.op("sqrt", x)
    return None
