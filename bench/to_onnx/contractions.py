"""Products, convolutions, reductions and windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from to_onnx.graph import Graph, Value, elements, need, onnx_type, translates

_REDUCTIONS = {"add": "ReduceSum", "multiply": "ReduceProd", "maximum": "ReduceMax",
               "minimum": "ReduceMin", "or": "ReduceMax", "and": "ReduceMin"}  # fmt: skip
_COMBINE = {"add": "Add", "multiply": "Mul", "maximum": "Max", "minimum": "Min"}


@translates("dot")
def _dot(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    a, b = graph.whole(inst, operands)
    types = {o.array_shape.element_type.name for o in inst.operands}
    result = inst.array_shape.element_type.name
    is_bytes = types <= {"s8", "u8"} and result == "s32"
    need(is_bytes or types == {result}, "a product of mixed types")

    def free(v: Value, batch: Sequence[int], contracted: Sequence[int]) -> list[int]:
        return [i for i in range(len(v.dims)) if i not in batch and i not in contracted]

    rows = free(a, inst.lhs_batch_dims, inst.lhs_contracting_dims)
    columns = free(b, inst.rhs_batch_dims, inst.rhs_contracting_dims)
    left = graph.transpose(a, [*inst.lhs_batch_dims, *rows, *inst.lhs_contracting_dims])
    right = graph.transpose(b, [*inst.rhs_batch_dims, *inst.rhs_contracting_dims, *columns])
    batch = [a.dims[i] for i in inst.lhs_batch_dims]
    m, n = (elements([v.dims[i] for i in f]) for v, f in ((a, rows), (b, columns)))
    k = elements([a.dims[i] for i in inst.lhs_contracting_dims])
    left, right = graph.reshape(left, [*batch, m, k]), graph.reshape(right, [*batch, k, n])
    product = graph.node("MatMulInteger" if is_bytes else "MatMul", [left, right], [*batch, m, n])
    return graph.reshape(product, inst.array_shape.dims)


@translates("convolution")
def _convolution(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    x, w = graph.whole(inst, operands)
    d, window = inst.dim_labels, inst.window
    need(inst.batch_group_count == 1, "groups of the batch")
    need(all(i.lhs_dilate == 1 and not i.reversal for i in window), "a dilated base")
    need(window and all(min(i.pad_low, i.pad_high) >= 0 for i in window), "a convolution that cuts")
    need(inst.operands[0].array_shape.element_type is inst.array_shape.element_type, "mixed types")
    x = graph.transpose(x, [d.input_batch, d.input_feature, *d.input_spatial])
    w = graph.transpose(w, [d.kernel_output, d.kernel_input, *d.kernel_spatial])
    order = [d.output_batch, d.output_feature, *d.output_spatial]
    result = graph.node(
        "Conv", [x, w], [inst.array_shape.dims[i] for i in order],
        strides=[i.stride for i in window], dilations=[i.rhs_dilate for i in window],
        pads=[i.pad_low for i in window] + [i.pad_high for i in window],
        group=inst.feature_group_count,
    )  # fmt: skip
    return graph.transpose(result, list(np.argsort(order)))


@translates("reduce")
def _reduce(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    need(len(operands) == 2, "a reduction of several arrays")
    op = single_binary_op(inst.to_apply)
    need(op in _REDUCTIONS, "a reduction by a function")
    x, init = graph.whole(inst, operands)
    kept = inst.array_shape.dims
    axes = graph.integers(inst.dimensions)
    found = graph.node(_REDUCTIONS[op], [x, axes], kept, keepdims=0)
    start = inst.operands[1]
    spec_identity = inst.to_apply.root.spec.identity
    if start.opcode == "constant" and spec_identity is not None:
        identity = np.asarray(spec_identity(inst.array_shape.element_type))
        if np.array_equal(start.literal.array, identity.astype(start.literal.array.dtype)):
            return found
    need(op in _COMBINE, "a reduction from another start")
    return graph.node(_COMBINE[op], [found, init], kept)


@translates("reduce-window")
def _reduce_window(graph: Graph, inst: Instruction, operands: list[Value]) -> Value:
    """Running sums, and maxima over two spatial dimensions in the middle (NHWC) or last (NCHW)."""
    need(len(operands) == 2, "windows of several arrays")
    x, _ = graph.whole(inst, operands)
    op, window = single_binary_op(inst.to_apply), inst.window
    need(all(w.lhs_dilate == 1 and w.rhs_dilate == 1 for w in window), "dilated windows")
    used = [i for i, w in enumerate(window) if w.size > 1 or w.stride > 1]
    start = inst.operands[1]
    need(start.opcode == "constant", "windows from a computed start")
    if op == "add" and len(used) == 1:
        (axis,) = used
        w, n = window[axis], x.dims[axis]
        need((w.size, w.stride, w.pad_low, w.pad_high) == (n, 1, n - 1, 0), "sums over windows")
        need(float(start.literal.array) == 0, "sums from another start")
        return graph.node("CumSum", [x, graph.constant(np.int64(axis))], x.dims)
    need(op == "maximum" and float(start.literal.array) == -np.inf, "windows by a function")
    need(len(x.dims) == 4 and used in ([1, 2], [2, 3]), "windows elsewhere")
    need(onnx_type(inst), "windows")
    order = [0, 3, 1, 2] if used == [1, 2] else [0, 1, 2, 3]
    dims = [inst.array_shape.dims[i] for i in order]
    places = [window[i] for i in used]
    found = graph.node(
        "MaxPool", [graph.transpose(x, order)], dims, kernel_shape=[w.size for w in places],
        strides=[w.stride for w in places],
        pads=[w.pad_low for w in places] + [w.pad_high for w in places],
    )  # fmt: skip
    return graph.transpose(found, list(np.argsort(order)))
