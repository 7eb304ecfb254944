"""What moves elements, by places known beforehand or computed."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from to_onnx.graph import Graph, Value, elements, need, onnx_type, translates


@translates("broadcast")
def _broadcast(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (x,), dims = operands, [1] * inst.array_shape.rank
    need(list(inst.dimensions) == sorted(inst.dimensions), "a transposing broadcast")
    for at, size in zip(inst.dimensions, x.dims, strict=True):
        dims[at] = size
    return graph.reshape(x, dims)


@translates("reshape")
def _reshape(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (x,) = operands
    if elements(x.dims) == 1:
        return graph.reshape(x, [1] * inst.array_shape.rank)
    return graph.reshape(*graph.whole(inst, operands), inst.array_shape.dims)


@translates("transpose")
def _transpose(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    return graph.transpose(operands[0], inst.dimensions)


@translates("slice")
def _slice(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (x,) = graph.whole(inst, operands)
    cut = [i for i, (s, d) in enumerate(zip(inst.slice, x.dims, strict=True))
           if (s.start, s.limit, s.stride) != (0, d, 1)]  # fmt: skip
    if not cut:
        return x
    inputs = [
        [inst.slice[i].start for i in cut], [inst.slice[i].limit for i in cut], cut,
        [inst.slice[i].stride for i in cut],
    ]  # fmt: skip
    places = map(graph.integers, inputs)
    return graph.node("Slice", [x, *places], inst.array_shape.dims)


@translates("reverse")
def _reverse(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (x,) = graph.whole(inst, operands)
    n = len(inst.dimensions)
    lowest = int(np.iinfo(np.int64).min)
    inputs = ([-1] * n, [lowest] * n, inst.dimensions, [-1] * n)
    return graph.node("Slice", [x, *map(graph.integers, inputs)], x.dims)


@translates("concatenate")
def _concatenate(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    (axis,), dims = inst.dimensions, inst.array_shape.dims
    return graph.node("Concat", graph.whole(inst, operands), dims, axis=axis)


@translates("pad")
def _pad(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    need(all(p.interior == 0 for p in inst.padding), "padding between elements")
    x, value = graph.whole(inst, operands)
    amounts = [p.low for p in inst.padding] + [p.high for p in inst.padding]
    return graph.node("Pad", [x, graph.integers(amounts), value], inst.array_shape.dims)


def _starts(graph: Graph, dims: list[int], sizes: list[int], indices: list[Value]) -> Value:
    """Return where a window starts that lies inside of an array, as HLO says."""
    parts = [graph.cast(graph.reshape(i, [1]), TensorProto.INT64) for i in indices]
    starts = graph.node("Concat", parts, [len(parts)], axis=0)
    last = graph.integers([d - s for d, s in zip(dims, sizes, strict=True)])
    below = graph.node("Min", [starts, last], starts.dims)
    return graph.node("Max", [below, graph.integers([0] * len(dims))], starts.dims)


@translates("dynamic-slice")
def _dynamic_slice(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    x, *indices = graph.whole(inst, operands)
    sizes = list(inst.dynamic_slice_sizes)
    starts = _starts(graph, list(x.dims), sizes, indices)
    ends = graph.node("Add", [starts, graph.integers(sizes)], starts.dims)
    return graph.node("Slice", [x, starts, ends], sizes)


@translates("gather")
def _gather(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    """Whole slices along one dimension: rows of an embedding, columns."""
    x, indices = graph.whole(inst, operands)
    need(len(inst.start_index_map) == 1 and not inst.operand_batching_dims, "a gather of windows")
    (axis,) = inst.start_index_map
    sizes = [1 if i == axis else d for i, d in enumerate(x.dims)]
    need(list(inst.slice_sizes) == sizes, "a gather of windows")
    need(inst.collapsed_slice_dims == (axis,), "a gather of windows")
    shape = list(indices.dims)
    if inst.index_vector_dim < len(shape):
        need(inst.index_vector_dim == len(shape) - 1, "indices that are not last")
        shape.pop()
    indices = graph.reshape(graph.cast(indices, TensorProto.INT64), shape)
    low, high = graph.integers([0]), graph.integers([x.dims[axis] - 1])
    indices = graph.node("Min", [graph.node("Max", [indices, low], shape), high], shape)
    indices = graph.reshape(indices, shape)
    dims = [*x.dims[:axis], *shape, *x.dims[axis + 1 :]]
    offsets = [i for i in range(len(dims)) if not axis <= i < axis + len(shape)]
    need(list(inst.offset_dims) == offsets, "a gather that transposes")
    return graph.node("Gather", [x, indices], dims, axis=axis)


@translates("sort")
def _sort(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    """Keys alone, up or down: ONNX's top elements, as many as there are."""
    need(len(operands) == 1 and not inst.is_stable, "a sort of several arrays or a stable one")
    root = inst.to_apply.root
    need(root.opcode == "compare" and list(root.operands) == inst.to_apply.parameters, "a sort")
    need(root.direction in ("LT", "GT") and onnx_type(inst), "a sort")
    (x,) = graph.whole(inst, operands)
    (axis,) = inst.dimensions
    kept, places = graph.fresh(), graph.fresh()
    graph.nodes.append(helper.make_node(
        "TopK", [x.name, graph.integers([x.dims[axis]]).name], [kept, places], axis=axis,
        largest=int(root.direction == "GT"), sorted=1))  # fmt: skip
    return Value(kept, x.dims)


_SCATTERS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


@translates("scatter")
def _scatter(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    """Whole rows into the first dimension, where all indices are inside (nothing tells ONNX)."""
    need(len(operands) == 3 and not inst.input_batching_dims, "a scatter of windows")
    x, indices, updates = graph.whole(inst, operands)
    combine = single_binary_op(inst.to_apply)
    need(combine in _SCATTERS, "a scatter with another combiner")
    need(inst.scatter_dims_to_operand_dims == (0,), "a scatter of windows")
    need(inst.inserted_window_dims == (0,), "a scatter of windows")
    rank = len(updates.dims)
    window = tuple(range(rank - len(x.dims) + 1, rank))
    need(inst.update_window_dims == window, "a scatter that transposes")
    need(updates.dims[rank - len(window) :] == x.dims[1:], "a scatter of windows")
    shape = list(indices.dims)
    if inst.index_vector_dim == len(shape):
        shape.append(1)
    need(inst.index_vector_dim >= len(shape) - 1, "indices that are not last")
    indices = graph.reshape(graph.cast(indices, TensorProto.INT64), shape)
    return graph.node("ScatterND", [x, indices, updates], x.dims, reduction=_SCATTERS[combine])
