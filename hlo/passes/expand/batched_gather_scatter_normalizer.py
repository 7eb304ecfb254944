"""Batching dimensions of gathers and scatters as further indices."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.movement.gather_scatter import INDEX_ATTRS, index_dims
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import S32, S64, array


@module_pass
def batched_gather_scatter_normalizer(module: Module, rewrites: Rewrites) -> None:
    """Turn batching dimensions of gathers and scatters into collapsed ones indexed by an iota.

    Indices whose type cannot hold these positions are widened.
    """
    rule = "batched_gather_scatter_normalizer.expand"
    expand_instructions(module, rewrites, rule, ["gather", "scatter"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    dims = index_dims(inst)
    batching, at, vector = dims.operand_batching, dims.indices_batching, dims.index_vector_dim
    if not batching or any(o.array_shape.is_dynamic for o in inst.operands):
        return None
    d = Draft(inst)
    place = 1 if inst.opcode == "gather" else len(inst.operands) // 2
    indices = d.parameters[place]
    shape = indices.array_shape
    et = shape.element_type
    most = max(shape.dims[n] for n in at) - 1
    if most >= 1 << (et.bits - et.is_signed):
        et = S32 if et.bits < 32 and most < 2**31 else S64
        indices = d.convert(indices, et)
    if vector == shape.rank:
        indices = d.reshape(indices, (*shape.dims, 1))
    single = list(indices.array_shape.dims)
    single[vector] = 1
    positions = [d.op("iota", shape=array(et, single), iota_dimension=n) for n in at]
    values = list(d.parameters)
    values[place] = d.op("concatenate", *positions, indices, dimensions=(vector,))
    new = (
        (*batching, *dims.index_map), tuple(sorted((*dims.collapsed, *batching))), (), (),
    )  # fmt: skip
    # The order of the whole vectors is not known any more.
    attrs = {**inst.attrs, "indices_are_sorted": False}
    attrs.update(zip(INDEX_ATTRS[inst.opcode], new, strict=True))
    return d.done(d.op(inst.opcode, *values, shape=inst.shape, **attrs))
