"""Small loops that have nothing to do with each other, as one loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from hlo.analysis.effects import Effects
from hlo.analysis.fusion.operations import MAX_INSTRUCTIONS, MAX_READS
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls
from hlo.ops import Trait
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.fusion._kernels import is_loop, is_loop_fusion, with_constants
from hlo.passes.fusion._order import Order
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape

_MAX_OUTPUTS = 16


@module_pass
def horizontal_loop_fusion(
    module: Module, rewrites: Rewrites, *, max_elements: int = 65536
) -> None:
    """Fuse small independent loops of equal shape whose results have the same users.

    Code generation does not: a kernel is started by a call. Where it takes longer, such as on a
    GPU, few kernels are better. max_elements: larger loops are worth a kernel each.
    """
    calls, effects = Calls(module), Effects()
    for comp in fusible_computations(module):
        order = Order(comp)
        for a, b in _pairs(comp, effects, max_elements):
            one, other = order.groups[a], order.groups[b]
            if one is not other and _fits([*one.members, *other.members]):
                order.merge(one, other)
        groups = dict.fromkeys(g for g in order.groups.values() if len(g.members) > 1)
        builder = FusionBuilder(comp, calls, effects)
        builder.places = {inst: group.place for inst, group in order.groups.items()}
        for group in sorted(groups, key=lambda g: g.place):
            if rewrites.allow("horizontal_loop_fusion", group.members[0]):
                builder.fuse(with_constants(group.members), group.members)
        builder.finish()


def _pairs(
    comp: Computation, effects: Effects, max_elements: int
) -> Iterator[tuple[Instruction, Instruction]]:
    """Yield operands of one instruction that are loops of equal shape, each with the next."""
    for user in comp.in_order():
        kinds: dict[object, list[Instruction]] = {}
        for operand in dict.fromkeys(user.operands):
            if _is_small_loop(operand, effects, max_elements):
                shape = operand.array_shape
                kinds.setdefault((shape.dims, shape.layout), []).append(operand)
        for loops in kinds.values():
            yield from pairwise(loops)


def _is_small_loop(inst: Instruction, effects: Effects, max_elements: int) -> bool:
    """True for what computes few elements; what only moves them is left alone, fused or not."""
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.is_scalar or shape.num_elements > max_elements:
        return False
    if not is_loop_fusion(inst, effects):
        return inst.spec.has(Trait.ELEMENTWISE) and is_loop(inst, effects)
    body = inst.calls
    return inst.fusion_kind == "kLoop" and any(i.spec.has(Trait.ELEMENTWISE) for i in body)


def _fits(members: Iterable[Instruction]) -> bool:
    inside = set(members)
    operands = {o for m in inside for o in m.operands if o not in inside}
    if len(inside) > _MAX_OUTPUTS or len(operands) > MAX_READS:
        return False
    return sum(map(_size, inside)) <= MAX_INSTRUCTIONS


def _size(inst: Instruction) -> int:
    return len(inst.calls) if inst.opcode == "fusion" else 1
