"""Reshapes and transposes after elementwise operations."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import OPS, Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import array

_RULES = RuleSet("reshape_mover")
_ELEMENTWISE = " ".join(
    s.name
    for s in OPS.values()
    if s.has(Trait.ELEMENTWISE) and not s.has(Trait.SIDE_EFFECT | Trait.NO_FOLD) and s.name != "map"
)


@module_pass
def reshape_mover(module: Module, rewrites: Rewrites) -> None:
    """Sink reshapes and transposes below elementwise operations.

    There they meet each other, and those that come of several operands become one.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule(_ELEMENTWISE, "op(move(x), move(y), c) = move(op(x, y, c)), for equal moves, splats c",
             on="reshape transpose")  # fmt: skip
def moved_operands(inst: Instruction, b: Builder) -> Instruction | None:
    shape = inst.array_shape
    moves = [o for o in inst.operands if o.opcode in ("reshape", "transpose")]
    if not moves or shape.is_dynamic or any(o.array_shape.is_dynamic for o in inst.operands):
        return None
    first = moves[0]
    if any(not _is_same_move(m, first) or _is_used_elsewhere(m, inst) for m in moves):
        return None
    source = first.operands[0].array_shape
    if source.is_dynamic or any(o not in moves and not _is_splat(o) for o in inst.operands):
        return None
    operands = []
    for operand in inst.operands:
        if operand in moves:
            operands.append(operand.operands[0])
        elif shape.dims and not operand.array_shape.dims:
            operands.append(operand)  # of select, or clamp
        else:
            scalar = operand.operands[0] if operand.opcode == "broadcast" else operand
            et = operand.array_shape.element_type
            operands.append(b.broadcast(scalar, array(et, source.dims)))
    et = shape.element_type
    new = b.op(inst.opcode, *operands, shape=array(et, source.dims), **inst.attrs)
    return b.op(first.opcode, new, shape=array(et, shape.dims), **first.attrs)


def _is_same_move(a: Instruction, b: Instruction) -> bool:
    same_dims = a.operands[0].array_shape.dims == b.operands[0].array_shape.dims
    return a.opcode == b.opcode and same_dims and a.attrs == b.attrs


def _is_used_elsewhere(move: Instruction, inst: Instruction) -> bool:
    return move.is_root or any(u is not inst for u in move.users)


def _is_splat(inst: Instruction) -> bool:
    """True for a scalar, and for the broadcast of one."""
    if inst.opcode == "broadcast":
        return not inst.operands[0].array_shape.dims
    return not inst.array_shape.dims
