"""Arrays gathered from devices, of which each takes its own part again."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable
from hlo.passes.collectives._replicated import parts_by_place
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("all_gather_dynamic_slice_simplifier")


@module_pass
def all_gather_dynamic_slice_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Eliminate an all-gather of which each device only slices its own part.

    The position of the part has to follow from the number of the replica or partition.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("dynamic-slice", "part of all-gather(x) by place in the group = x", static=True)
def own_part(inst: Instruction, b: Builder) -> Instruction | None:
    gathered = inst.operands[0]
    if gathered.opcode != "all-gather" or not is_movable(gathered) or has_control_edges(inst):
        return None
    (dim,) = gathered.dimensions
    if gathered.operands[0].array_shape.dims != inst.array_shape.dims:
        return None
    return gathered.operands[0] if parts_by_place(inst, gathered) == dim else None
