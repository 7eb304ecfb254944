"""Sums over devices of several arrays, as the sum of one."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.attrs import SliceDim
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("all_reduce_contiguous")


@module_pass
def all_reduce_contiguous(module: Module, rewrites: Rewrites) -> None:
    """Concatenate the operands of an all-reduce of several arrays of one type."""
    _RULES.apply(module, rewrites)


@_RULES.rule("all-reduce", "all-reduce(x, y) = parts of all-reduce(concatenate(x, y))")
def in_a_row(inst: Instruction, b: Builder) -> Instruction | None:
    operands = [o.array_shape for o in inst.operands]
    if len(operands) < 2 or len({s.element_type for s in operands}) > 1:
        return None
    if inst.constrain_layout or has_control_edges(inst) or "sharding" in inst.annotations:
        return None
    if any(s.is_dynamic for s in operands):
        return None
    flat = [b.reshape(o, (o.array_shape.num_elements,)) for o in inst.operands]
    row = b.op("concatenate", *flat, dimensions=(0,))
    total = b.op("all-reduce", row, **inst.attrs)
    total.annotations.update({k: v for k, v in inst.annotations.items() if k != "metadata"})
    parts, start = [], 0
    for shape in operands:
        stop = start + shape.num_elements
        part = b.op("slice", total, slice=(SliceDim(start, stop),))
        parts.append(b.relaid(b.reshape(part, shape.dims), shape))
        start = stop
    return b.tuple(*parts)
