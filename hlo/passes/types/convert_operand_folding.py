"""Contractions whose operands are conversions from narrower types."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.passes.types._contractions import has_values_of
from hlo.values.types import ArrayShape, ElementType

_RULES = RuleSet("convert_operand_folding")

# They move elements of any type alike, so they commute with conversions.
_MOVES = frozenset({"copy", "reshape", "transpose", "reverse", "slice"})


@module_pass
def convert_operand_folding(module: Module, rewrites: Rewrites) -> None:
    """Fold upcasts of operands into dots and convolutions."""
    _RULES.apply(module, rewrites)


@_RULES.rule(
    "dot convolution",
    "dot(convert(a), convert(b)) = dot(a, b), summed in the result's type, for conversions that"
    " keep every value",
)
def narrow_operands(inst: Instruction, b: Builder) -> Instruction | None:
    wide = inst.array_shape.element_type
    found = [_narrow_of(o, wide) for o in inst.operands]
    if all(et is None for et in found):
        return None
    operands = [
        o if et is None else _moved(o, et, b) for o, et in zip(inst.operands, found, strict=True)
    ]
    types = {o.shape.element_type for o in operands if isinstance(o.shape, ArrayShape)}
    # The operation does not support operands of different types.
    if len(types) != 1:
        return None
    return b.copy(inst, operands)


def _narrow_of(inst: Instruction, wide: ElementType) -> ElementType | None:
    """Return the type that a value has before moves and a conversion to `wide`, if it has one."""
    if not isinstance(inst.shape, ArrayShape) or inst.shape.element_type is not wide:
        return None
    while inst.opcode in _MOVES and inst.num_users == 1:
        inst = inst.operands[0]
    if inst.opcode != "convert":
        return None
    source = inst.operands[0].array_shape
    return source.element_type if has_values_of(wide, source.element_type) else None


def _moved(inst: Instruction, et: ElementType, b: Builder) -> Instruction:
    """Append the moves of a converted value on the unconverted one."""
    moves = []
    while inst.opcode != "convert":
        moves.append(inst)
        inst = inst.operands[0]
    value = inst.operands[0]
    for move in reversed(moves):
        value = b.copy(move, [value])
        value.shape = move.array_shape.with_type(et)
    return value
