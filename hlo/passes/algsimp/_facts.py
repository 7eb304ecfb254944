"""Static value analysis: ranges of integers, signs of floats.

Queries look a few operations deep only, so that each takes bounded time.
"""

from __future__ import annotations

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.passes.algsimp._match import (
    dims_of,
    float_splat,
    integer_splat,
    is_exact,
    type_of,
)
from hlo.values.types import ArrayShape, ElementType, integer_range

_DEPTH = 5

Range = tuple[int, int]


def _moves(inst: Instruction) -> bool:
    """True for a result whose elements are elements of the first operand."""
    if inst.opcode == "gather" and 0 in inst.slice_sizes:
        return False  # windows without elements that are collapsed are zeros
    return inst.spec.moved == slice(1) or inst.spec.has(Trait.FORWARDS)


def type_range(et: ElementType) -> Range:
    """Return the least and the greatest number of an integer type or pred."""
    return (0, 1) if et.is_pred else integer_range(et)


def integers_of(inst: Instruction, depth: int = _DEPTH) -> Range:
    """Return bounds, both included, of the elements of an array of integers or pred."""
    whole = type_range(type_of(inst))
    if not depth:
        return whole
    constant = integer_splat(inst)
    if constant is not None:
        return constant, constant
    low, high = _range(inst, depth - 1) or whole
    return (low, high) if whole[0] <= low and high <= whole[1] else whole


def _range(inst: Instruction, depth: int) -> Range | None:
    """Return bounds of the result before wrapping around, None if unknown."""
    op, operands = inst.opcode, inst.operands
    if op == "iota":
        return 0, max(0, dims_of(inst)[inst.iota_dimension] - 1)
    if op in ("popcnt", "count-leading-zeros"):
        return 0, type_of(inst).bits
    if not operands or not all(_is_integer_array(o) for o in operands):
        return None
    if _moves(inst):
        return integers_of(operands[0], depth)
    if op == "select":
        (a, b), (c, d) = (integers_of(o, depth) for o in operands[1:])
        return min(a, c), max(b, d)
    if op == "clamp":
        (a, b), (c, d), (e, f) = (integers_of(o, depth) for o in operands)
        return min(max(a, c), e), min(max(b, d), f)
    if len(operands) == 1:
        return _unary_range(op, inst, integers_of(operands[0], depth))
    if len(operands) == 2:
        x, y = (integers_of(o, depth) for o in operands)
        return _binary_range(op, inst, x, y)
    return None


def _is_integer_array(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape) and is_exact(inst.shape.element_type)


def _unary_range(op: str, inst: Instruction, x: Range) -> Range | None:
    a, b = x
    if op == "convert" and not type_of(inst).is_pred:
        return a, b
    if op == "abs":
        return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
    if op == "negate":
        return -b, -a
    if op == "sign":
        return -1 if a < 0 else 0 if a == 0 else 1, 1 if b > 0 else 0 if b == 0 else -1
    return None


def _binary_range(op: str, inst: Instruction, x: Range, y: Range) -> Range | None:
    (a, b), (c, d) = x, y
    is_pred = type_of(inst).is_pred
    match op:
        case "maximum":
            return max(a, c), max(b, d)
        case "minimum":
            return min(a, c), min(b, d)
        case "add" if not is_pred:
            return a + c, b + d
        case "subtract":
            return a - d, b - c
        case "multiply":
            ends = [a * c, a * d, b * c, b * d]
            return min(ends), max(ends)
        case "and" if a >= 0 or c >= 0:
            return 0, min(n for low, n in (x, y) if low >= 0)
        case "or" | "xor" if a >= 0 and c >= 0:
            return 0, (1 << max(b.bit_length(), d.bit_length())) - 1
        case "divide" if c > 0 and a >= 0:
            return a // d, b // c
        case "remainder" if c > 0:
            return (0 if a >= 0 else max(a, 1 - d)), (min(b, d - 1) if b >= 0 else 0)
        case "shift-right-logical" if a >= 0 and 0 <= c and d < type_of(inst).bits:
            return a >> d, b >> c
    return None


def never_minus_zero(inst: Instruction, depth: int = _DEPTH) -> bool:
    """True for floats none of which is -0."""
    if not depth:
        return False
    value = float_splat(inst)
    if value is not None:
        return str(value) != "-0.0"
    op, operands = inst.opcode, inst.operands
    if has_no_sign(inst, depth):
        return True
    if op == "convert":
        return is_exact(type_of(operands[0]))
    if op == "add":  # only -0 + -0 is -0
        return any(never_minus_zero(o, depth - 1) for o in operands)
    if op in ("reduce", "reduce-window") and len(operands) == 2:
        return (
            single_binary_op(inst.to_apply) == "add"
            and float_splat(operands[1]) is not None
            and never_minus_zero(operands[1])
        )
    if _moves(inst):
        return never_minus_zero(operands[0], depth - 1)
    if op in ("select", "maximum", "minimum"):
        return all(never_minus_zero(o, depth - 1) for o in operands[-2:])
    return False


def has_no_sign(inst: Instruction, depth: int = _DEPTH) -> bool:
    """True for floats, and for signed integers, of which each is NaN or has a clear sign bit."""
    et = type_of(inst)
    if et.is_integer or et.is_pred:
        return integers_of(inst, depth)[0] >= 0
    if not depth or not et.is_float:
        return False
    value = float_splat(inst)
    if value is not None:
        return value > 0 or str(value) == "0.0"
    op, operands = inst.opcode, inst.operands
    if inst.spec.has(Trait.NONNEGATIVE):
        return True
    if op == "multiply":
        x, y = operands
        return x is y or (has_no_sign(x, depth - 1) and has_no_sign(y, depth - 1))
    if op == "convert":
        return not type_of(operands[0]).is_complex and has_no_sign(operands[0], depth - 1)
    if _moves(inst) or op in _KEEP_SIGN:
        return has_no_sign(operands[0], depth - 1)
    if op in ("add", "divide", "minimum"):
        return all(has_no_sign(o, depth - 1) for o in operands)
    if op == "maximum":  # of -0 and 0 it takes 0
        return any(has_no_sign(o, depth - 1) for o in operands)
    if op == "select":
        return all(has_no_sign(o, depth - 1) for o in operands[1:])
    return False


_KEEP_SIGN = frozenset(
    {
        "ceil", "floor", "reduce-precision", "round-nearest-afz", "round-nearest-even", "sign",
        "sqrt", "tanh",
    }
)  # fmt: skip


_INTEGRAL = frozenset({"ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign"})


def is_integral(inst: Instruction, depth: int = _DEPTH) -> bool:
    """True for floats that are integers, infinite or NaN."""
    if not depth:
        return False
    value = float_splat(inst)
    if value is not None:
        return value != value or value in (float("inf"), float("-inf")) or value == int(value)
    op, operands = inst.opcode, inst.operands
    if op in _INTEGRAL:
        return True
    if op == "convert":
        # A wide integer rounds to another one, but never to zero.
        return is_exact(type_of(operands[0])) and type_of(inst).name != "f8e8m0fnu"
    if _moves(inst) or op in ("negate", "abs"):
        return is_integral(operands[0], depth - 1)
    if op in ("maximum", "minimum", "select"):
        return all(is_integral(o, depth - 1) for o in operands[-2:])
    return False
