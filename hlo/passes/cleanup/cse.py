"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.effects import Effects
from hlo.analysis.memory import shape_bytes
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import idempotent, module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import ArrayShape

# Barriers are not merged: they keep rematerialized values separate from the original.
_KEPT_APART = frozenset({"parameter", "opt-barrier"})
# Users are near to each other whose depths, by the longest paths to them, have this quotient.
_NEAR = 16


@module_pass
@idempotent
def cse(
    module: Module,
    rewrites: Rewrites,
    *,
    is_layout_sensitive: bool = True,
    only_scalars: bool = False,
    only_fusion_computations: bool = False,
    nearby_bytes: int = 0,
) -> None:
    """Eliminate common subexpressions: equal operations on equal operands.

    Computations are equal if their roots are, constants if their bits are. Instructions with
    random state, side effects, control dependences or different annotations other than metadata
    are not merged. If layouts do not matter, a value that differs only in its layout becomes a
    copy.
    Fusions are one instruction each, unless only the insides of fusions are asked for.
    nearby_bytes: broadcasts from this size on are shared by users that are near to each other: to
    make one anew costs less than to keep it in memory for long. 0: all are shared.
    """
    congruence, effects = rewrites.analyses.congruence, rewrites.analyses.effects
    for comp in _fused(module) if only_fusion_computations else unfused(module):
        depth = _depths(comp) if nearby_bytes else {}

        def region(inst: Instruction, depth: Mapping[Instruction, int] = depth) -> int | None:
            """Return the part of a computation that shares a value, None where it is not merged."""
            if only_scalars and not (isinstance(inst.shape, ArrayShape) and inst.shape.is_scalar):
                return None
            if not nearby_bytes or inst.opcode != "broadcast":
                return 0
            if shape_bytes(inst.shape) < nearby_bytes:
                return 0
            return min((depth[u] for u in inst.users), default=0) // _NEAR

        _merge(comp, congruence, effects, rewrites, is_layout_sensitive, region)


def _depths(comp: Computation) -> Mapping[Instruction, int]:
    """Return how long the longest path to each instruction is."""
    depth: dict[Instruction, int] = {}
    for inst in comp.in_order():
        longest = 0
        for operand in inst.operands:
            longest = max(longest, depth[operand])
        depth[inst] = 1 + longest
    return depth


def _fused(module: Module) -> list[Computation]:
    """Return the insides of fusions, callees first."""
    inside = {i.calls for i in module.call_sites() if i.opcode == "fusion"}
    return [c for c in module.callees_first() if c in inside]


def _merge(
    comp: Computation,
    congruence: Congruence,
    effects: Effects,
    rewrites: Rewrites,
    layouts: bool,
    region: Callable[[Instruction], int | None],
) -> None:
    numbers: dict[Instruction, int] = {}
    values = congruence.values(layouts=layouts)
    first: dict[tuple[int, int], Instruction] = {}
    for number, inst in enumerate(comp.in_order()):
        numbers[inst] = number
        if inst.opcode in _KEPT_APART or has_control_edges(inst) or not effects.is_function(inst):
            continue
        operands = congruence.operands(inst, numbers)
        numbers[inst] = values.number(inst, operands, number)
        where = region(inst)
        same = first.setdefault((numbers[inst], where or 0), inst)
        if same is inst or where is None or effects.is_removable(inst):
            continue
        if not rewrites.allow("cse", inst):
            continue
        new = Builder(comp, inst).relaid(same, inst.shape)
        numbers[new] = numbers[same]
        inst.replace_all_uses_with(new)
        comp.remove(inst)
