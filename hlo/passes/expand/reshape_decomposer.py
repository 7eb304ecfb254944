"""Reshapes as bitcasts and copies."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.layout.bitcasts import is_order, layout_after_reshape, reshape_is_bitcast
from hlo.values.types import Layout


@module_pass
def reshape_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Turn every `reshape` into a `bitcast`, with layout-changing copies where it moves data.

    After layouts are assigned: one copy where that is enough, before or behind.
    """
    rule = "reshape_decomposer.decompose"
    expand_instructions(module, rewrites, rule, ["reshape"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    a, b = inst.operands[0].array_shape, inst.array_shape
    if a.is_dynamic or b.is_dynamic or not (is_order(a) and is_order(b)):
        return None
    d = Draft(inst)
    (x,) = d.parameters
    if reshape_is_bitcast(a, b):
        return d.done(d.op("bitcast", x, shape=b))
    behind = layout_after_reshape(a, b)
    if behind is not None:
        return d.done(d.relaid(d.op("bitcast", x, shape=b.with_layout(behind)), b))
    before = layout_after_reshape(b, a)
    if before is not None:
        return d.done(d.op("bitcast", d.relaid(x, a.with_layout(before)), shape=b))
    rows = d.relaid(x, a.with_layout(Layout.default(a.rank)))
    rows = d.op("bitcast", rows, shape=b.with_layout(Layout.default(b.rank)))
    return d.done(d.relaid(rows, b))
