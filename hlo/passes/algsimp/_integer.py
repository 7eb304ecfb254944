"""Arithmetic of integers, which wraps, and of pred, where + is or and * is and."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._facts import integers_of, type_range
from hlo.passes.algsimp._match import (
    dims_of,
    either_way,
    factored,
    filled,
    folded,
    integer_splat,
    is_exact,
    is_single_use,
    is_splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule

_SHIFTS = "shift-left shift-right-logical shift-right-arithmetic"


def _is_int(inst: Instruction) -> bool:
    return type_of(inst).is_integer


# --- add and subtract ---------------------------------------------------------------------------


@rule("add", "x + 0 = x, for integers and pred", on="constant broadcast")
def add_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if is_exact(type_of(x)) and is_splat(y, 0) else None


@rule("subtract", "x - x = 0, for integers")
def subtract_self(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return filled(b, inst, 0) if x is y and _is_int(inst) else None


@rule("subtract", "x - 0 = x, for integers", on="constant broadcast")
def subtract_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if _is_int(inst) and is_splat(y, 0) else None


@rule("subtract", "0 - x = -x, for integers", on="constant broadcast")
def zero_minus(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return b.op("negate", y) if _is_int(inst) and is_splat(x, 0) else None


@rule("add subtract", "(x - y) + y = (x + y) - y = x, for integers", on="add subtract")
def add_what_was_subtracted(inst: Instruction, b: Builder) -> Instruction | None:
    if not _is_int(inst):
        return None
    if inst.opcode == "add":
        for whole, y in either_way(inst):
            if whole.opcode == "subtract" and whole.operands[1] is y:
                return whole.operands[0]
        return None
    whole, y = inst.operands
    if whole.opcode == "add" and y in whole.operands:
        return whole.operands[0] if whole.operands[1] is y else whole.operands[1]
    return None


@rule("subtract", "(x - y) - x = -y and x - (x - y) = y, for integers", on="subtract")
def subtract_from_itself(inst: Instruction, b: Builder) -> Instruction | None:
    left, right = inst.operands
    if not _is_int(inst):
        return None
    if left.opcode == "subtract" and left.operands[0] is right:
        return b.op("negate", left.operands[1])
    if right.opcode == "subtract" and right.operands[0] is left:
        return right.operands[1]
    return None


@rule("subtract", "(x + c) - (y + c) = x - y, for integers", on="add")
def subtract_common_term(inst: Instruction, b: Builder) -> Instruction | None:
    left, right = inst.operands
    if not _is_int(inst) or left.opcode != "add" or right.opcode != "add":
        return None
    for x, c in either_way(left):
        for y, d in either_way(right):
            if c is d:
                return b.op("subtract", x, y)
    return None


@rule("subtract", "c - (x + d) = (c - d) - x, for integers and constants c, d", on="add")
def constants_of_difference(inst: Instruction, b: Builder) -> Instruction | None:
    c, inner = inst.operands
    if not _is_int(inst) or inner.opcode != "add":
        return None
    x, d = inner.operands
    both = folded(b, "subtract", c, d)
    return None if both is None else b.op("subtract", both, x)


@rule("add", "(c - x) + d = (c + d) - x, for integers and constants c, d", on="subtract")
def constant_of_sum_of_difference(inst: Instruction, b: Builder) -> Instruction | None:
    inner, d = inst.operands
    if not _is_int(inst) or inner.opcode != "subtract":
        return None
    both = folded(b, "add", inner.operands[0], d)
    return None if both is None else b.op("subtract", both, inner.operands[1])


@rule("negate", "-(x - y) = y - x, for integers", on="subtract")
def negate_difference(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "subtract" or not _is_int(inst):
        return None
    return b.op("subtract", inner.operands[1], inner.operands[0])


@rule("add subtract", "-1 - x = ~x and ~x + 1 = -x, for integers", on="constant broadcast")
def complement(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not _is_int(inst):
        return None
    if inst.opcode == "subtract":
        return b.op("not", y) if type_of(inst).is_signed and is_splat(x, -1) else None
    return b.op("negate", x.operands[0]) if x.opcode == "not" and is_splat(y, 1) else None


@rule("add subtract", "x*c + y*c = (x + y)*c, and with -, for integers", on="multiply")
def common_factor(inst: Instruction, b: Builder) -> Instruction | None:
    return factored(inst, b) if _is_int(inst) else None


@rule(
    "add subtract", "x*c + x = x*(c + 1), and with -, for integers and a constant c", on="multiply"
)
def multiple_and_itself(inst: Instruction, b: Builder) -> Instruction | None:
    if not _is_int(inst):
        return None
    pairs = either_way(inst) if inst.opcode == "add" else [(inst.operands[0], inst.operands[1])]
    for product, x in pairs:
        if product.opcode == "multiply" and product.operands[0] is x and is_single_use(product):
            factor = folded(b, inst.opcode, product.operands[1], filled(b, inst, 1))
            if factor is not None:
                return b.op("multiply", x, factor)
    return None


# --- multiply -----------------------------------------------------------------------------------


@rule("multiply", "x * 0 = 0, for integers and pred", on="constant broadcast")
def multiply_zero(inst: Instruction, b: Builder) -> Instruction | None:
    y = inst.operands[1]
    return y if is_exact(type_of(inst)) and is_splat(y, 0) else None


@rule("multiply", "x * convert(p) = p ? x : 0, for integers and pred p", on="convert")
def multiply_pred(inst: Instruction, b: Builder) -> Instruction | None:
    if not _is_int(inst):
        return None
    for x, y in either_way(inst):
        if y.opcode == "convert" and type_of(y.operands[0]).is_pred:
            return b.op("select", y.operands[0], x, filled(b, x, 0))
    return None


@rule("add multiply maximum minimum", "x + y = x | y and x * y = x & y, for pred")
def logic_of_pred(inst: Instruction, b: Builder) -> Instruction | None:
    if not type_of(inst).is_pred:
        return None
    return b.op("or" if inst.opcode in ("add", "maximum") else "and", *inst.operands)


# --- divide and remainder -----------------------------------------------------------------------


def _power_of_two(inst: Instruction) -> int | None:
    """Return k for a constant 2**k."""
    value = integer_splat(inst)
    if value is None or value <= 0 or value & (value - 1):
        return None
    return value.bit_length() - 1


@rule("divide", "x / 2**k = x >> k, for integers x that are not negative", on="constant broadcast")
def divide_power_of_two(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    k = _power_of_two(y) if _is_int(inst) else None
    if not k or integers_of(x)[0] < 0:
        return None
    return b.op("shift-right-logical", x, filled(b, y, k))


@rule(
    "remainder",
    "x % 2**k = x & (2**k - 1), for integers x that are not negative",
    on="constant broadcast",
)
def remainder_power_of_two(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    k = _power_of_two(y) if _is_int(inst) else None
    if not k or integers_of(x)[0] < 0:
        return None
    return b.op("and", x, filled(b, y, (1 << k) - 1))


@rule("remainder", "x % 1 = x % -1 = 0, for integers", on="constant broadcast")
def remainder_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    divisor = integer_splat(inst.operands[1]) if _is_int(inst) else None
    return filled(b, inst, 0) if divisor in (1, -1) else None


@rule(
    "divide",
    "x / -1 = -x, for signed integers: the least number wraps to itself both ways",
    on="constant broadcast",
)
def divide_minus_one(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not type_of(inst).is_signed or not is_splat(y, -1):
        return None
    return b.op("negate", x)


@rule(
    "divide", "(x / c) / d = x / (c * d), for integers, when c * d does not overflow", on="divide"
)
def divide_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner, y = inst.operands
    if not _is_int(inst) or inner.opcode != "divide":
        return None
    c, d = integer_splat(inner.operands[1]), integer_splat(y)
    if c is None or d is None or c <= 0 or d <= 0 or c * d > type_range(type_of(inst))[1]:
        return None
    return b.op("divide", inner.operands[0], filled(b, y, c * d))


@rule("remainder", "(x % c) % c = x % c, for integers and floats", on="remainder")
def remainder_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner, c = inst.operands
    if inner.opcode != "remainder":
        return None
    same = inner.operands[1] is c
    return inner if same else None


@rule("remainder", "x % c = x, for integers 0 <= x < c")
def remainder_of_less(inst: Instruction, b: Builder) -> Instruction | None:
    if not _is_int(inst):
        return None
    x, y = inst.operands
    low, high = integers_of(x)
    return x if low >= 0 and high < integers_of(y)[0] else None


@rule("divide", "x / c = 0, for integers 0 <= x < c")
def divide_less(inst: Instruction, b: Builder) -> Instruction | None:
    if not _is_int(inst):
        return None
    x, y = inst.operands
    low, high = integers_of(x)
    return filled(b, inst, 0) if low >= 0 and high < integers_of(y)[0] else None


# --- shifts -------------------------------------------------------------------------------------


@rule(_SHIFTS, "x << 0 = x, and >>", on="constant broadcast")
def shift_by_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if is_splat(y, 0) else None


@rule(_SHIFTS, "0 << x = 0, and >>", on="constant broadcast")
def shift_of_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, _ = inst.operands
    return x if is_splat(x, 0) else None


def _amount(inst: Instruction) -> int | None:
    """Return the amount of a shift by a constant, read as unsigned."""
    value = integer_splat(inst.operands[1])
    return None if value is None else value & ((1 << type_of(inst).bits) - 1)


@rule(
    "shift-left shift-right-logical",
    "x << k = 0, and logical >>, for k of the width or more",
    on="constant broadcast",
)
def shift_out(inst: Instruction, b: Builder) -> Instruction | None:
    amount = _amount(inst)
    return filled(b, inst, 0) if amount is not None and amount >= type_of(inst).bits else None


@rule(_SHIFTS, "(x << j) << k = x << (j + k), and >>, for j and k below the width", on="same")
def shift_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != inst.opcode:
        return None
    j, k, bits = _amount(inner), _amount(inst), type_of(inst).bits
    if j is None or k is None or j >= bits or k >= bits:
        return None
    if inst.opcode == "shift-right-arithmetic":
        amount = min(j + k, bits - 1)
    elif j + k >= bits:
        return filled(b, inst, 0)
    else:
        amount = j + k
    if amount > type_range(type_of(inst))[1]:
        return None
    return b.op(inst.opcode, inner.operands[0], filled(b, inst, amount))


# --- power, bounds ------------------------------------------------------------------------------


@rule("power", "x**2 = x*x and x**3 = x*x*x, for integers", on="constant broadcast")
def small_power(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    exponent = integer_splat(y) if _is_int(inst) else None
    if exponent == 2:
        return b.op("multiply", x, x)
    return b.op("multiply", b.op("multiply", x, x), x) if exponent == 3 else None


@rule("maximum minimum", "max(x, y) = x where x >= y always, and min, for integers and pred")
def ordered_operands(inst: Instruction, b: Builder) -> Instruction | None:
    if not is_exact(type_of(inst)):
        return None
    for x, y in either_way(inst):
        (a, d), (c, e) = integers_of(x), integers_of(y)
        if a >= e if inst.opcode == "maximum" else d <= c:
            return x
    return None


@rule("clamp", "clamp(l, x, h) = x where l <= x <= h always, for integers and pred")
def clamp_of_inside(inst: Instruction, b: Builder) -> Instruction | None:
    low, x, high = inst.operands
    if not is_exact(type_of(inst)):
        return None
    least, greatest = integers_of(x)
    return x if integers_of(low)[1] <= least and greatest <= integers_of(high)[0] else None


@rule("clamp", "clamp(l, x, h) = l where x <= l <= h always, h where x >= h, for integers and pred")
def clamp_of_outside(inst: Instruction, b: Builder) -> Instruction | None:
    low, x, high = inst.operands
    if not is_exact(type_of(inst)):
        return None
    least, greatest = integers_of(x)
    if least >= integers_of(high)[1]:
        return _widened(b, high, inst)
    if greatest <= integers_of(low)[0] and integers_of(low)[1] <= integers_of(high)[0]:
        return _widened(b, low, inst)
    return None


def _widened(b: Builder, bound: Instruction, inst: Instruction) -> Instruction:
    """Return a bound of a clamp, which may be a scalar, in the dimensions of the clamp."""
    return bound if dims_of(bound) == dims_of(inst) else b.broadcast(bound, inst.array_shape)


@rule("abs", "|x| = x, for integers that are not negative, and -x, for x <= 0")
def abs_of_one_sign(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if not type_of(x).is_integer:
        return None
    low, high = integers_of(x)
    return x if low >= 0 else b.op("negate", x) if high <= 0 else None
