"""Sums over devices of which each keeps a part, as sums that each keeps whole."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._groups import place_in_group
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import U32, ArrayShape


@module_pass
def reduce_scatter_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Express `reduce-scatter` by an `all-reduce` and a slice of this device's part."""
    rule = "reduce_scatter_decomposer.decompose"
    expand_instructions(module, rewrites, rule, ["reduce-scatter"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    operands = [o.array_shape for o in inst.operands]
    if any(s.is_dynamic for s in operands):
        return None
    d = Draft(inst)
    place = place_in_group(d, inst)
    if place is None:
        return None
    attrs = {key: value for key, value in inst.attrs.items() if key != "dimensions"}
    whole = d.op("all-reduce", *d.parameters, **attrs)
    (dim,) = inst.dimensions
    results = [s for _, s in inst.shape.leaves()]
    parts = []
    for n, part in enumerate(results):
        assert isinstance(part, ArrayShape)
        starts = [d.constant(U32, 0)] * part.rank
        starts[dim] = d.op("multiply", place, d.constant(U32, part.dims[dim]))
        total = d.element(whole, n) if whole.shape.is_tuple else whole
        slice_ = d.op("dynamic-slice", total, *starts, dynamic_slice_sizes=part.dims)
        parts.append(d.relaid(slice_, part))
    return d.done(d.tuple(*parts) if inst.shape.is_tuple else parts[0])
