"""Loops of one shape, run as one loop of several results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.fusion._kernels import MAX_MEMBERS, is_fusible, is_scalar_constant
from hlo.passes.fusion._order import Group, Order
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape

Pair = tuple[Instruction, Instruction]


def root_of(inst: Instruction) -> Instruction:
    """Return what computes the result of a loop: the root of a fusion, or the instruction."""
    if inst.opcode == "fusion":
        body: Computation = inst.calls
        return body.root
    return inst


def loop_key(inst: Instruction, effects: Effects) -> Hashable:
    """Return what loops have in common that can be one; None for what is no such loop.

    Loops over their results need equal dimensions and layouts, reductions those of what they reduce
    as well.
    """
    shape, root = inst.shape, root_of(inst)
    if not isinstance(shape, ArrayShape) or root.opcode in _APART:
        return None
    if (shape.is_scalar and root.opcode != "reduce") or not (inst.num_users or inst.is_root):
        return None
    if inst.opcode == "fusion":
        if inst.fusion_kind not in ("kLoop", "kInput") or inst.output_to_operand_aliasing:
            return None
        if has_control_edges(inst) or not effects.is_function(inst):
            return None
    elif not is_fusible(inst, effects):
        return None
    if root.opcode == "reduce":
        whole = root.operands[0].shape
        return shape.dims, shape.layout, whole, root.dimensions
    return shape.dims, shape.layout


_APART = frozenset(
    {"bitcast", "convolution", "dot", "dynamic-update-slice", "reduce-window", "scatter"}
)


def neighbours(loops: Iterable[Instruction], effects: Effects) -> list[Pair]:
    """Return each loop with the next one that can be one with it."""
    kinds: dict[Hashable, list[Instruction]] = {}
    for inst in loops:
        key = loop_key(inst, effects)
        if key is not None:
            kinds.setdefault(key, []).append(inst)
    return [pair for group in kinds.values() for pair in pairwise(group)]


def merge_all(
    module: Module,
    rewrites: Rewrites,
    rule: str,
    pairs: Callable[[Computation, Effects], Iterable[Pair]],
    *,
    max_outputs: int,
    max_operands: int,
) -> None:
    """Make one fusion of each two loops that `pairs` finds, until it finds none that fit."""
    calls, effects = Calls(module), Effects(module)
    for comp in fusible_computations(module):
        while _merge(
            comp, pairs(comp, effects), rewrites, rule, calls, effects,
            max_outputs=max_outputs, max_operands=max_operands,
        ):  # fmt: skip
            pass


def _merge(
    comp: Computation,
    pairs: Iterable[Pair],
    rewrites: Rewrites,
    rule: str,
    calls: Calls,
    effects: Effects,
    *,
    max_outputs: int,
    max_operands: int,
) -> bool:
    """Make one fusion of each two loops, the first pairs first; returns whether any was made.

    Pairs that depend on each other through something else are left apart.
    """
    order = Order(comp)
    for a, b in pairs:
        one, other = order.groups[a], order.groups[b]
        if one is not other and _fits([*one.members, *other.members], max_outputs, max_operands):
            order.merge(one, other)
    merged = dict.fromkeys(g for g in order.groups.values() if len(g.members) > 1)
    if not merged:
        return False
    builder = FusionBuilder(comp, calls, effects)
    builder.places = {inst: group.place for inst, group in order.groups.items()}
    changed = False
    for group in sorted(merged, key=lambda g: g.place):
        if rewrites.allow(rule, group.members[0]):
            changed = True
            constants = [o for m in group.members for o in m.operands if is_scalar_constant(o)]
            builder.fuse([*dict.fromkeys(constants), *group.members], _outputs(group))
    builder.finish()
    return changed


def _fits(members: list[Instruction], max_outputs: int, max_operands: int) -> bool:
    inside = set(members)
    operands = {o for m in members for o in m.operands if o not in inside}
    if len(members) > max_outputs or len(operands) > max_operands:
        return False
    return sum(map(_size, members)) <= MAX_MEMBERS


def _size(inst: Instruction) -> int:
    return len(inst.calls) if inst.opcode == "fusion" else 1


def _outputs(group: Group) -> list[Instruction]:
    inside = set(group.members)
    return [m for m in group.members if m.is_root or any(u not in inside for u in m.users)]
