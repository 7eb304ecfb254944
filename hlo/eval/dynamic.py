"""Operations on arrays with dynamic dimensions.

An operation is evaluated on the valid elements, as if the arrays had their dynamic sizes, and its
results are padded to their bounds again. That suffices for most operations; `dynamic_rules` has
the others. Nothing depends on the content of the padding, except slices that extend into it.

Source: "SetDimensionSize" of the specification; XLA's `dynamic_dimension_inference.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError, InferError
from hlo.eval.dynamic_rules import RULES, Arg, as_it_is, elementwise, share
from hlo.ops import OPS, Category, Trait
from hlo.ops.movement.dimension_sizes import SIZE_MAKERS
from hlo.ops.reduce import reduction_eval
from hlo.ops.reduce.reduction_eval import Parts, as_parts
from hlo.ops.rules import array_result
from hlo.ops.spec import EvalContext, OpRecord, OpView
from hlo.values.arrays import DynamicArray, actual, at_bounds, bounded, with_sizes
from hlo.values.types import UNBOUNDED, ArrayShape, Shape, TupleShape, array

# These forward values, or handle dynamic sizes themselves.
_DIRECT = frozenset(
    {Category.CONTROL, Category.STRUCTURE, Category.ASYNC, Category.HOST, Category.CUSTOM}
)


def may_be_dynamic(ops: Iterable[OpView]) -> bool:
    """True when some operations have operands or results of dynamic size."""
    return any(op.opcode in SIZE_MAKERS or op.shape.is_dynamic for op in ops)


def bind(value: Any, shape: Shape) -> Any:
    """Return an argument as a value of a parameter, with dynamic dimensions padded to their bounds.

    Raises HloError for a size above its bound.
    """
    if isinstance(shape, TupleShape):
        return tuple(bind(v, s) for v, s in zip(value, shape.elements, strict=True))
    if not isinstance(shape, ArrayShape) or not shape.dynamic or isinstance(value, DynamicArray):
        return value
    if not _fits(value, shape):
        raise HloError.at(
            "shape-mismatch",
            f"an argument of sizes {list(value.shape)} is given for {shape.to_string(False)}",
        )
    return bounded(value, shape.dims)


def _fits(value: np.ndarray, shape: ArrayShape) -> bool:
    return value.ndim == shape.rank and all(
        bound == UNBOUNDED or n == bound or (n < bound and shape.is_dynamic_dim(d))
        for d, (n, bound) in enumerate(zip(value.shape, shape.dims, strict=True))
    )


def evaluate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Evaluate an operation of which some operands may have dynamic dimensions.

    Raises InferError for inconsistent sizes.
    """
    spec = OPS[op.opcode]
    if spec.category in _DIRECT or not any(map(_varies, args, op.operand_shapes)):
        return spec.evaluate(op, args, ctx)
    if op.opcode in _AT_BOUNDS:
        return _AT_BOUNDS[op.opcode](op, args, ctx)
    for i, value in enumerate(args):
        if not isinstance(value, (np.ndarray, DynamicArray)):
            raise InferError(
                f"{op.opcode}: dynamic dimensions are not supported with operand {i} of shape "
                f"{op.operand_shapes[i].to_string(False)}",
                operand=i, code="unsupported",
            )  # fmt: skip
    parts = [Arg(value, shape) for value, shape in zip(args, op.operand_shapes, strict=True)]
    rule = elementwise if spec.has(Trait.ELEMENTWISE) else RULES.get(op.opcode, as_it_is)
    case = rule(op, parts)
    arrays = [p.array for p in parts]
    shapes = [
        array(s.element_type, a.shape)
        for s, a in zip(op.operand_shapes, arrays, strict=True)
        if isinstance(s, ArrayShape)
    ]
    record = OpRecord.of(op, shapes, {**op.attrs, **case.attrs})
    if op.opcode in _IN_PARTS:
        record.shape = _with_parts(op, shapes[0])
    record.shape = (
        spec.infer(record) if case.dims is None else array(array_result(op).element_type, case.dims)
    )
    return _stored(op, spec.evaluate(record, arrays, ctx), op.shape)


# Collectives whose number of parts is the ratio of an operand's and the result's dimension.
_IN_PARTS = frozenset({"all-gather", "all-gather-start", "reduce-scatter"})


def _with_parts(op: OpView, operand: ArrayShape) -> Shape:
    """Return the result of a collective for an operand of a smaller size, in as many parts."""
    (dim,) = op.dimensions
    first = op.operand_shapes[0]
    assert isinstance(first, ArrayShape)
    size, bound = operand.dims[dim], first.dims[dim]

    def scaled(shape: Shape) -> Shape:
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(map(scaled, shape.elements)))
        if not isinstance(shape, ArrayShape) or shape.rank <= dim or bound <= 0:
            return shape
        dims = (*shape.dims[:dim], shape.dims[dim] * size // bound, *shape.dims[dim + 1 :])
        return array(shape.element_type, dims)

    return scaled(op.shape)


def _varies(value: Any, shape: Shape) -> bool:
    return isinstance(value, DynamicArray) or (
        isinstance(shape, ArrayShape) and UNBOUNDED in shape.dims
    )


def _stored(op: OpView, value: Any, shape: Shape) -> Any:
    """Return a result padded to the bounds of its declared shape."""
    if isinstance(shape, TupleShape):
        return tuple(_stored(op, v, s) for v, s in zip(value, shape.elements, strict=True))
    assert isinstance(shape, ArrayShape)
    if len(shape.dims) != value.ndim or any(
        n > bound != UNBOUNDED for n, bound in zip(value.shape, shape.dims, strict=True)
    ):
        raise InferError(
            f"{op.opcode}: the result has sizes {list(value.shape)} at run time, "
            f"its shape is {shape.to_string(False)}"
        )
    return bounded(value, shape.dims)


# --- in place -----------------------------------------------------------------------------------


def _dynamic_update_slice(
    op: OpView, args: Sequence[Any], ctx: EvalContext
) -> np.ndarray | DynamicArray:
    """Write the valid part of the update into the operand; the start is clamped by the bounds."""
    operand, update = (Arg(v, s) for v, s in zip(args[:2], op.operand_shapes, strict=False))
    shapes = [array(s.element_type, v.shape) for s, v in _with_bounds(op, args)]
    record = OpRecord.of(op, shapes, shape=shapes[0])
    evaluate, starts = OPS[op.opcode].evaluate, list(args[2:])
    written = np.zeros(update.data.shape, bool)
    written[tuple(slice(0, n) for n in update.sizes)] = True
    mask = evaluate(record, [np.zeros(operand.data.shape, bool), written, *starts], ctx)
    moved = evaluate(record, [operand.data, update.data, *starts], ctx)
    # An update of a whole dimension sets its size.
    sizes = [
        update.sizes[d] if update.varies[d] and update.data.shape[d] == bound else operand.sizes[d]
        for d, bound in enumerate(operand.data.shape)
    ]
    return with_sizes(np.where(mask, moved, operand.data), sizes)


def _scatter(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Combine the valid part of the updates into the operands; their bounds decide what is in
    range."""
    parts = [Arg(value, shape) for value, shape in zip(args, op.operand_shapes, strict=True)]
    count = len(args) // 2
    operands, indices, updates = parts[:count], parts[count], parts[count + 1 :]
    for p in operands:
        p.part = list(p.data.shape)
    at = op.index_vector_dim
    if at < indices.data.ndim:
        indices.part[at] = indices.data.shape[at]
    index_dims = [d for d in range(indices.data.ndim) if d != at]
    update_dims = [d for d in range(updates[0].data.ndim) if d not in op.update_window_dims]
    for d, i in zip(update_dims, index_dims, strict=True):
        share(parts, [(count, i), *((count + 1 + k, d) for k in range(count))])
    batching = zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True)
    whole = [p.data for p in operands]
    for d, i in batching:
        for p in operands:
            p.part[d] = indices.part[i]
    arrays = [p.array for p in parts]
    shapes = [
        array(s.element_type, a.shape)
        for (s, _), a in zip(_with_bounds(op, args), arrays, strict=True)
    ]
    record = OpRecord.of(op, shapes)
    result = OPS[op.opcode].evaluate(record, arrays, ctx)
    results = []
    for p, old, new in zip(operands, whole, result if count > 1 else [result], strict=True):
        data = old.copy()
        data[tuple(slice(0, n) for n in new.shape)] = new
        results.append(with_sizes(data, p.sizes))
    return tuple(results) if count > 1 else results[0]


def _scan(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Call the function on the valid part of each slice; its last results determine sizes."""
    (dim,) = op.dimensions
    inputs = len(args) - op.num_carries
    outputs = [s for _, s in op.shape.leaves() if isinstance(s, ArrayShape)]
    del outputs[len(outputs) - op.num_carries :]
    parts = [Arg(x, s) for x, s in zip(args[:inputs], op.operand_shapes, strict=False)]
    if parts:
        share(parts, [(i, dim) for i in range(inputs)])
    arrays = [p.data.take(range(p.part[dim]), dim) for p in parts]
    slices = [(*p.sizes[:dim], *p.sizes[dim + 1 :]) for p in parts]
    made = [(*s.dims[:dim], *s.dims[dim + 1 :]) for s in outputs]

    def step(values: Sequence[Any]) -> Parts:
        pieces = [with_sizes(x, n) for x, n in zip(values, slices, strict=False)]
        results = as_parts(ctx.call(op.to_apply, [*pieces, *values[inputs:]]))
        made[:] = [actual(r).shape for r in results[: len(made)]]
        return (*map(at_bounds, results[: len(made)]), *results[len(made) :])

    results = reduction_eval.scan(arrays, args[inputs:], outputs, dim, step, reverse=op.is_reverse)
    stacked = []
    for x, s, sizes in zip(results, outputs, made, strict=False):
        whole = at_bounds(bounded(x, s.dims))
        stacked.append(with_sizes(whole, (*sizes[:dim], x.shape[dim], *sizes[dim:])))
    done = (*stacked, *results[len(made) :])
    return done if op.shape.is_tuple else done[0]


def _with_bounds(op: OpView, args: Sequence[Any]) -> list[tuple[ArrayShape, np.ndarray]]:
    return [
        (s, at_bounds(v))
        for s, v in zip(op.operand_shapes, args, strict=True)
        if isinstance(s, ArrayShape)
    ]


_AT_BOUNDS: dict[str, Callable[[OpView, Sequence[Any], EvalContext], Any]] = {
    "dynamic-update-slice": _dynamic_update_slice,
    "scatter": _scatter,
    "scan": _scan,
}
