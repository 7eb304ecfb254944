"""Batching dimensions of gathers and scatters as further indices."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.types import S32, S64, array

# Operand of the indices, and the attributes that play the same parts: map, collapsed, batching
# dimensions of the operand and of the indices.
_GATHER = (
    "start_index_map", "collapsed_slice_dims", "operand_batching_dims",
    "start_indices_batching_dims",
)  # fmt: skip
_SCATTER = (
    "scatter_dims_to_operand_dims", "inserted_window_dims", "input_batching_dims",
    "scatter_indices_batching_dims",
)  # fmt: skip


@module_pass
def batched_gather_scatter_normalizer(module: Module, rewrites: Rewrites) -> None:
    """Make the batching dimensions of gathers and scatters collapsed ones with positions as index.

    Indices whose type cannot hold these positions are widened.
    """
    rule = "batched_gather_scatter_normalizer.expand"
    expand_instructions(module, rewrites, rule, ["gather", "scatter"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    names = _GATHER if inst.opcode == "gather" else _SCATTER
    index_map, collapsed, batching, at = (inst.attrs[name] for name in names)
    if not batching or any(o.array_shape.is_dynamic for o in inst.operands):
        return None
    d = Draft(inst)
    place = 1 if inst.opcode == "gather" else len(inst.operands) // 2
    indices, vector = d.parameters[place], inst.attrs["index_vector_dim"]
    shape = indices.array_shape
    et = shape.element_type
    most = max(shape.dims[n] for n in at) - 1
    if most >= 1 << (et.bits - et.is_signed):
        et = S32 if et.bits < 32 and most < 2**31 else S64
        indices = d.convert(indices, et)
    if vector == shape.rank:
        indices = d.reshape(indices, (*shape.dims, 1))
    dims = list(indices.array_shape.dims)
    dims[vector] = 1
    positions = [d.op("iota", shape=array(et, dims), iota_dimension=n) for n in at]
    values = list(d.parameters)
    values[place] = d.op("concatenate", *positions, indices, dimensions=(vector,))
    new = ((*batching, *index_map), tuple(sorted((*collapsed, *batching))), (), ())
    # The order of the whole vectors is not known any more.
    attrs = {
        **inst.attrs, **dict(zip(names, new, strict=True)), "indices_are_sorted": False,
    }  # fmt: skip
    return d.done(d.op(inst.opcode, *values, shape=inst.shape, **attrs))
