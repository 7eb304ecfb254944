"""Sums over devices of which each takes its part."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable
from hlo.passes.collectives._replicated import parts_by_place
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import array

_RULES = RuleSet("reduce_scatter_creator")


@module_pass
def reduce_scatter_creator(module: Module, rewrites: Rewrites) -> None:
    """Turn an all-reduce of which each device keeps only its own part into a reduce-scatter.

    The position of the part has to follow from the number of the replica or partition.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("dynamic-slice", "part of all-reduce(x) by place in the group = reduce-scatter(x)")
def part_of_sum(inst: Instruction, b: Builder) -> Instruction | None:
    reduction = inst.operands[0]
    if reduction.opcode != "all-reduce" or not is_movable(reduction) or has_control_edges(inst):
        return None
    if reduction.num_users > 1 or reduction.is_root:
        return None
    dim = parts_by_place(inst, reduction)
    if dim is None:
        return None
    shape = array(inst.array_shape.element_type, inst.array_shape.dims)
    attrs = reduction.attrs | {"dimensions": (dim,)}
    return b.op("reduce-scatter", reduction.operands[0], shape=shape, **attrs)
