"""Broadcasts that keep the order of dimensions."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import array

_RULES = RuleSet("broadcast_canonicalizer")


@module_pass
def broadcast_canonicalizer(module: Module, rewrites: Rewrites) -> None:
    """Make the dimensions of broadcasts ascending, with transposes after them."""
    _RULES.apply(module, rewrites)


@_RULES.rule("broadcast", "broadcast(x; p) = transpose(broadcast(x; sorted p))")
def in_order(inst: Instruction, b: Builder) -> Instruction | None:
    dims, shape = inst.dimensions, inst.array_shape
    if list(dims) == sorted(dims) or shape.is_dynamic or inst.operands[0].shape.is_dynamic:
        return None
    # Dimension d of the result is dimension places[d] of the broadcast in order.
    places = list(range(shape.rank))
    for d, place in zip(dims, sorted(dims), strict=True):
        places[d] = place
    sizes = [0] * shape.rank
    for d, place in enumerate(places):
        sizes[place] = shape.dims[d]
    spread = b.op(
        "broadcast", inst.operands[0], shape=array(shape.element_type, sizes),
        dimensions=tuple(sorted(dims)),
    )  # fmt: skip
    return b.op("transpose", spread, dimensions=tuple(places))
