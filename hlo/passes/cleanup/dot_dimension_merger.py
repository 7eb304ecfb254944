"""Batch dimensions of products."""

from __future__ import annotations

import math

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import array

_RULES = RuleSet("dot_dimension_merger")


@module_pass
def dot_dimension_merger(module: Module, rewrites: Rewrites) -> None:
    """Merge batch dimensions that are adjacent in both operands."""
    _RULES.apply(module, rewrites)


@_RULES.rule(
    "dot",
    "dot(x, y) = reshape(dot(reshape(x), reshape(y))), but for the order of additions",
    approximate=True,
)
def merged_batch(inst: Instruction, b: Builder) -> Instruction | None:
    attrs, count = dict(inst.attrs), len(inst.lhs_batch_dims)
    shapes = [o.array_shape for o in inst.operands]
    if count < 2 or any(s.is_dynamic for s in (*shapes, inst.array_shape)):
        return None
    operands = []
    for side, operand, shape in zip(("lhs", "rhs"), inst.operands, shapes, strict=True):
        batch = attrs[f"{side}_batch_dims"]
        if list(batch) != list(range(batch[0], batch[0] + count)):
            return None
        at = batch[0]
        size = math.prod(shape.dims[at : at + count])
        operands.append(b.reshape(operand, [*shape.dims[:at], size, *shape.dims[at + count :]]))
        attrs[f"{side}_batch_dims"] = (at,)
        attrs[f"{side}_contracting_dims"] = tuple(
            d if d < at else d - count + 1 for d in attrs[f"{side}_contracting_dims"]
        )
    dims = inst.array_shape.dims
    shape = array(inst.array_shape.element_type, [math.prod(dims[:count]), *dims[count:]])
    return b.reshape(b.op("dot", *operands, shape=shape, **attrs), dims)
