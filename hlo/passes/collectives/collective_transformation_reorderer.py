"""Moving reshapes across collectives, to where arrays are smaller."""

from __future__ import annotations

from math import prod

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ArrayShape, array

_RULES = RuleSet("collective_transformation_reorderer")


@module_pass
def collective_transformation_reorderer(module: Module, rewrites: Rewrites) -> None:
    """Move reshapes before all-gathers and after all-reduces."""
    _RULES.apply(module, rewrites)


@_RULES.rule("reshape", "reshape(all-gather(x)) = all-gather(reshape(x))", static=True)
def reshaped_before(inst: Instruction, b: Builder) -> Instruction | None:
    gathered = inst.operands[0]
    if gathered.opcode != "all-gather" or not is_movable(gathered) or has_control_edges(inst):
        return None
    if gathered.num_users > 1 or gathered.is_root:
        return None
    (dim,), shape = gathered.dimensions, inst.array_shape
    to = _same_dimension(gathered.array_shape, dim, shape)
    if to is None:
        return None
    part = gathered.operands[0].array_shape.dims[dim]
    x = b.reshape(gathered.operands[0], (*shape.dims[:to], part, *shape.dims[to + 1 :]))
    attrs = gathered.attrs | {"dimensions": (to,)}
    return b.op("all-gather", x, shape=array(shape.element_type, shape.dims), **attrs)


@_RULES.rule("all-reduce", "all-reduce(reshape(x)) = reshape(all-reduce(x))", static=True)
def reshaped_after(inst: Instruction, b: Builder) -> Instruction | None:
    reshape = inst.operands[0]
    if reshape.opcode != "reshape" or not is_movable(inst) or has_control_edges(reshape):
        return None
    if reshape.num_users > 1 or reshape.is_root:
        return None
    total = b.op("all-reduce", reshape.operands[0], **inst.attrs)
    return b.reshape(total, inst.array_shape.dims)


def _same_dimension(old: ArrayShape, dim: int, new: ArrayShape) -> int | None:
    """Return the dimension of a reshaped array that a dimension is, None if there is none."""
    before, size = prod(old.dims[:dim]), old.dims[dim]
    for to, n in enumerate(new.dims):
        if n == size and prod(new.dims[:to]) == before:
            return to
    return None
