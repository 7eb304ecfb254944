"""Moving conversions past data movement, to move fewer bits."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("convert_mover")
_MOVES = "broadcast concatenate reshape reverse slice transpose"


@module_pass
def convert_mover(module: Module, rewrites: Rewrites) -> None:
    """Move data in the narrower type: upcast after data movement, downcast before it."""
    _RULES.apply(module, rewrites)


@_RULES.rule(_MOVES, "move(convert(x)) = convert(move(x)), to a wider type")
def widen_later(inst: Instruction, b: Builder) -> Instruction | None:
    if _is_dynamic(inst) or any(o.opcode != "convert" for o in inst.operands):
        return None
    if any(o.num_users > 1 or o.is_root for o in inst.operands):
        return None
    sources = [o.operands[0] for o in inst.operands]
    types = {s.array_shape.element_type for s in sources}
    source = types.pop()
    if types or source.bits >= inst.array_shape.element_type.bits:
        return None
    moved = b.op(inst.opcode, *sources, shape=inst.array_shape.with_type(source), **inst.attrs)
    return b.convert(moved, inst.array_shape.element_type)


@_RULES.rule("convert", "convert(move(x)) = move(convert(x)), to a narrower type")
def narrow_earlier(inst: Instruction, b: Builder) -> Instruction | None:
    inner, to = inst.operands[0], inst.array_shape.element_type
    # A slice would make its whole operand be converted.
    if inner.opcode not in _MOVES.split() or inner.opcode == "slice" or _is_dynamic(inner):
        return None
    if inner.num_users > 1 or inner.is_root or to.bits >= inner.array_shape.element_type.bits:
        return None
    sources = [b.convert(o, to) for o in inner.operands]
    return b.op(inner.opcode, *sources, shape=inst.array_shape, **inner.attrs)


def _is_dynamic(inst: Instruction) -> bool:
    return inst.array_shape.is_dynamic or any(o.array_shape.is_dynamic for o in inst.operands)
