"""Constants, and operations that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.frontends.stablehlo.constants import read_dense
from hlo.frontends.stablehlo.context import Context, integers, sized
from hlo.frontends.stablehlo.cursor import ELIDED, Tagged
from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Shape, array


def constant(c: Context) -> Instruction:
    """Append a constant; for a splat, a broadcast."""
    value = c.attr("value")
    if isinstance(value, Tagged) and value.name == ELIDED:
        return _elided(c, value)
    if not isinstance(value, Tagged) or value.name != "dense" or value.type is None:
        raise InferError("its value is not dense<..>", code="bad-value")
    constant = c.b.literal(read_dense(value.text, value.type, value.start))
    assert isinstance(value.type, ArrayShape)
    return c.b.broadcast(constant, value.type) if constant.shape != value.type else constant


def _elided(c: Context, value: Tagged) -> Instruction:
    """Append a constant whose elements were left out of the text."""
    shape = value.type
    if not isinstance(shape, ArrayShape) or shape.dynamic:
        raise InferError("a constant is an array of static size", code="type-mismatch")
    if not shape.num_elements:
        return c.b.literal(Literal(shape, np.empty(shape.dims, shape.element_type.dtype)))
    # The text of HLO elides arrays only.
    literal = Literal(shape if shape.rank else array(shape.element_type, (1,)))
    constant = c.b.literal(c.converter.filled(literal))
    return constant if shape.rank else c.b.reshape(constant, ())


def broadcast_in_dim(c: Context) -> Instruction:
    """Append a broadcast."""
    return broadcast_to(c, c.ints("broadcast_dimensions"), sized(c))


def reshape(c: Context) -> Instruction:
    """Append a reshape."""
    sized(c)
    return c.make("reshape")


def broadcast_to(c: Context, dims: tuple[int, ...], result: Shape) -> Instruction:
    """Append the broadcast of operand 0; dimensions of size one to expand are dropped first."""
    x = c.operand(0)
    if not isinstance(result, ArrayShape) or len(dims) != x.array_shape.rank:
        raise InferError("dims does not name a dimension for each of the operand's",
                         code="bad-dimension")  # fmt: skip
    if any(not 0 <= d < result.rank for d in dims):
        raise InferError(f"dims {list(dims)} are not all below {result.rank}", code="bad-dimension")
    # HLO's broadcast does not expand dimensions of size one.
    sizes = x.array_shape.dims
    kept = [i for i, d in enumerate(dims) if sizes[i] == result.dims[d]]
    if any(sizes[i] != 1 for i in set(range(len(dims))) - set(kept)) or len(set(dims)) < len(dims):
        raise InferError(f"{x.shape.to_string(False)} does not fit dims {list(dims)} of "
                         f"{result.to_string(False)}", code="bad-dimension")  # fmt: skip
    if len(kept) < len(dims):
        x = c.b.reshape(x, [sizes[i] for i in kept])
        dims = tuple(dims[i] for i in kept)
    return c.b.op("broadcast", x, shape=result, dimensions=dims)


def broadcast(c: Context) -> Instruction:
    """Append a broadcast that adds dimensions in front."""
    sizes = c.ints("broadcast_sizes")
    dims = c.operand(0).array_shape.dims
    rank = len(dims)
    if not isinstance(c.shape, ArrayShape) or c.shape.dims != (*sizes, *dims):
        raise InferError(f"its type is {c.shape.to_string(False)}, its sizes are {list(sizes)} and "
                         f"those of the operand, {list(dims)}", code="shape-mismatch")  # fmt: skip
    return c.make("broadcast", dimensions=tuple(range(len(sizes), len(sizes) + rank)))


def slice_(c: Context) -> Instruction:
    """Append a slice."""
    parts = (c.ints("start_indices"), c.ints("limit_indices"), c.ints("strides"))
    return c.make("slice", slice=tuple(SliceDim(*d) for d in zip(*parts, strict=False)))


def pad(c: Context) -> Instruction:
    """Append a pad."""
    parts = (
        c.ints("edge_padding_low"), c.ints("edge_padding_high"),
        c.ints("interior_padding"),
    )  # fmt: skip
    return c.make("pad", padding=tuple(PadDim(*d) for d in zip(*parts, strict=False)))


_GATHER = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
           "start_indices_batching_dims")  # fmt: skip
_SCATTER = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
            "input_batching_dims", "scatter_indices_batching_dims")  # fmt: skip


def _dimension_numbers(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    attrs: dict[str, Any] = {name: integers(found.get(name, ()), name) for name in names}
    (vector,) = integers([found.get("index_vector_dim", 0)], "index_vector_dim")
    return attrs | {"index_vector_dim": vector}


def gather(c: Context) -> Instruction:
    """Append a gather."""
    return gather_with(c, c.ints("slice_sizes"))


def gather_with(c: Context, sizes: tuple[int, ...]) -> Instruction:
    """Append a gather of slices of these sizes; further operands are redundant."""
    return c.b.op(
        "gather", c.operand(0), c.operand(1),
        **_dimension_numbers(c.tagged("dimension_numbers"), _GATHER),
        slice_sizes=sizes, indices_are_sorted=c.flag("indices_are_sorted"),
    )  # fmt: skip


def torch_index_select(c: Context) -> Instruction:
    """Append a gather of whole slices at a dimension, one for each index.

    The first `batch_dims` dimensions of both operands are the same.
    """
    x, indices = c.operand(0), c.operand(1)
    dim, batch = c.integer("dim"), c.integer("batch_dims")
    dims, rank = x.array_shape.dims, indices.array_shape.rank
    if not 0 <= batch <= dim < len(dims) or batch > rank:
        raise InferError(f"dim {dim} and batch_dims {batch} do not fit {x.shape}",
                         code="bad-dimension")  # fmt: skip
    batches = tuple(range(batch))
    kept = [i for i in range(len(dims)) if i != dim and i >= batch]
    # Dimensions before `dim` stay first, the others follow those of the indices.
    offsets = tuple(i if i < dim else i + rank - batch - 1 for i in kept)
    return c.b.op(
        "gather", x, indices, offset_dims=offsets, collapsed_slice_dims=(dim,),
        start_index_map=(dim,), operand_batching_dims=batches,
        start_indices_batching_dims=batches, index_vector_dim=rank,
        slice_sizes=tuple(1 if i == dim or i < batch else n for i, n in enumerate(dims)),
    )  # fmt: skip


def scatter(c: Context) -> Instruction:
    """Append a scatter."""
    return c.make(
        "scatter", **_dimension_numbers(c.tagged("scatter_dimension_numbers"), _SCATTER),
        indices_are_sorted=c.flag("indices_are_sorted"),
        unique_indices=c.flag("unique_indices"), to_apply=c.combiner(),
    )  # fmt: skip
