"""and, or, xor and not, on integers bit by bit and on pred."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._facts import integers_of
from hlo.passes.algsimp._match import (
    all_ones,
    either_way,
    filled,
    integer_splat,
    is_exact,
    is_single_use,
    is_splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule

_DUAL = {"and": "or", "or": "and", "maximum": "minimum", "minimum": "maximum"}


def _is_ones(inst: Instruction) -> bool:
    return is_splat(inst, all_ones(type_of(inst)))


@rule("and", "x & 0 = 0", on="constant broadcast")
def and_zero(inst: Instruction, b: Builder) -> Instruction | None:
    y = inst.operands[1]
    return y if is_splat(y, 0) else None


@rule("and", "x & ~0 = x", on="constant broadcast")
def and_ones(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if _is_ones(y) else None


@rule("or", "x | 0 = x", on="constant broadcast")
def or_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if is_splat(y, 0) else None


@rule("or", "x | ~0 = ~0", on="constant broadcast")
def or_ones(inst: Instruction, b: Builder) -> Instruction | None:
    y = inst.operands[1]
    return y if _is_ones(y) else None


@rule("xor", "x ^ 0 = x", on="constant broadcast")
def xor_zero(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return x if is_splat(y, 0) else None


@rule("xor", "x ^ ~0 = ~x", on="constant broadcast")
def xor_ones(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return b.op("not", x) if _is_ones(y) else None


@rule("xor", "x ^ x = 0")
def xor_self(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return filled(b, inst, 0) if x is y else None


@rule("xor", "(x ^ y) ^ y = x", on="xor")
def xor_twice(inst: Instruction, b: Builder) -> Instruction | None:
    for whole, y in either_way(inst):
        if whole.opcode == "xor" and y in whole.operands:
            return whole.operands[0] if whole.operands[1] is y else whole.operands[1]
    return None


@rule("and or xor", "x & ~x = 0, x | ~x = x ^ ~x = ~0", on="not")
def with_complement(inst: Instruction, b: Builder) -> Instruction | None:
    for x, y in either_way(inst):
        if y.opcode == "not" and y.operands[0] is x:
            return filled(b, inst, 0 if inst.opcode == "and" else all_ones(type_of(inst)))
    return None


@rule(
    " ".join(_DUAL),
    "x & (x | y) = x | (x & y) = x, and so for max and min of integers and pred",
    on="and or maximum minimum",
)
def absorbed(inst: Instruction, b: Builder) -> Instruction | None:
    if not is_exact(type_of(inst)):
        return None
    for x, y in either_way(inst):
        if y.opcode == _DUAL[inst.opcode] and x in y.operands:
            return x
    return None


@rule("and or", "x & (~x | y) = x & y, x | (~x & y) = x | y")
def absorbed_complement(inst: Instruction, b: Builder) -> Instruction | None:
    other = _DUAL[inst.opcode]
    for x, inner in either_way(inst):
        if inner.opcode != other:
            continue
        for n, y in either_way(inner):
            if n.opcode == "not" and n.operands[0] is x:
                return b.op(inst.opcode, x, y)
    return None


@rule("and or", "~x & ~y = ~(x | y), ~x | ~y = ~(x & y)")
def de_morgan(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "not" or y.opcode != "not" or not (is_single_use(x) and is_single_use(y)):
        return None
    other = _DUAL[inst.opcode]
    return b.op("not", b.op(other, x.operands[0], y.operands[0]))


@rule("and or", "(x & y) | (x & z) = x & (y | z), (x | y) & (x | z) = x | (y & z)")
def common_operand(inst: Instruction, b: Builder) -> Instruction | None:
    left, right = inst.operands
    other = _DUAL[inst.opcode]
    if left.opcode != other or right.opcode != other:
        return None
    if not (is_single_use(left) and is_single_use(right)):
        return None
    for x, y in either_way(left):
        for again, z in either_way(right):
            if again is x:
                return b.op(other, x, b.op(inst.opcode, y, z))
    return None


@rule("xor", "~x ^ ~y = x ^ y")
def xor_of_complements(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "not" or y.opcode != "not":
        return None
    return b.op("xor", x.operands[0], y.operands[0])


@rule("not", "~(-x) = x - 1, ~(x - 1) = -x, for integers")
def complement_of_negation(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode == "negate":
        x = inner.operands[0]
        return b.op("add", x, filled(b, x, all_ones(type_of(x))))
    if inner.opcode == "add" and type_of(inst).is_integer and _is_ones(inner.operands[1]):
        return b.op("negate", inner.operands[0])
    return None


@rule("and", "x & c = x, where c has every bit set that x can have")
def and_of_wide_mask(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    mask = integer_splat(y)
    if mask is None or mask < 0 or mask & (mask + 1):
        return None
    low, high = integers_of(x)
    return x if low >= 0 and high <= mask else None
