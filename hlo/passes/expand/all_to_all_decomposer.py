"""Exchanges of the parts of an array as exchanges of arrays."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import SliceDim
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import TupleShape, array


@module_pass
def all_to_all_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Express `all-to-all` of one array by slices, a tuple `all-to-all`, and a concatenation.

    Where the size of groups is stated.
    """
    rule = "all_to_all_decomposer.decompose"
    expand_instructions(module, rewrites, rule, ["all-to-all"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    parts = inst.replica_groups.group_size
    if inst.split_dimensions is None or not parts:
        return None
    (dim,) = inst.split_dimensions
    shape = inst.array_shape
    if shape.is_dynamic or shape.dims[dim] % parts:
        return None
    d = Draft(inst)
    size = shape.dims[dim] // parts
    slices = []
    for n in range(parts):
        taken = (
            SliceDim(n * size, (n + 1) * size) if at == dim else SliceDim(0, whole)
            for at, whole in enumerate(shape.dims)
        )
        slices.append(d.op("slice", d.parameters[0], slice=tuple(taken)))
    sizes = tuple(size if at == dim else whole for at, whole in enumerate(shape.dims))
    part = array(shape.element_type, sizes)
    made = d.op(
        "all-to-all", *(d.relaid(s, part) for s in slices), shape=TupleShape((part,) * parts),
        **{**inst.attrs, "dimensions": None},
    )  # fmt: skip
    received = [d.element(made, n) for n in range(parts)]
    return d.done(d.relaid(d.op("concatenate", *received, dimensions=(dim,)), shape))
