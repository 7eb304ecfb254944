"""Data movement: each output element is one input element or a fill value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import INT, INTS, PADDING, SLICES, Attr, PadDim, enum, need
from hlo.ops.movement import factors
from hlo.ops.rules import (
    array_operand,
    array_operands,
    array_result,
    need_dims,
    need_memory,
    need_one_dim,
    need_rank,
    need_same_type,
)
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import MAX_ELEMENTS, UNBOUNDED, ArrayShape, Shape, array


def _same_type_as_result(op: OpView, operand: ArrayShape) -> ArrayShape:
    """Return the declared result, whose element type has to be the operand's."""
    result = array_result(op)
    if result.element_type is not operand.element_type:
        raise InferError(
            f"{op.opcode}: the operand has element type {operand.element_type}, "
            f"the result {result.element_type}",
            operand=0, code="type-mismatch",
        )  # fmt: skip
    return result


def _sized(op: OpView, shape: ArrayShape) -> ArrayShape:
    """Return a computed shape, whose element count has to fit 64 bits."""
    if UNBOUNDED not in shape.dims and shape.num_elements > MAX_ELEMENTS:
        raise InferError(
            f"{op.opcode}: the result {shape.to_string(False)} has more elements than "
            f"{MAX_ELEMENTS}",
            code="bad-value",
        )
    return shape


# --- broadcast ----------------------------------------------------------------------------------


def _infer_broadcast(op: OpView) -> Shape:
    operand = array_operand(op, 0)
    result, dims = _same_type_as_result(op, operand), op.dimensions
    if len(dims) != operand.rank:
        raise InferError(
            f"broadcast: dimensions names {len(dims)} dimensions, operand 0 has shape "
            f"{operand.to_string(False)}",
            attr="dimensions", code="bad-dimension",
        )  # fmt: skip
    need_dims(op, dims, result.rank, "dimensions")
    for i, d in enumerate(dims):
        have, want = operand.dims[i], result.dims[d]
        if have != want and UNBOUNDED not in (have, want):
            raise InferError(
                f"broadcast: dimension {i} of {operand.to_string(False)} has size {have}, "
                f"dimension {d} of the result {result.to_string(False)} has {want}",
                operand=0,
            )
    return array(result.element_type, result.dims, result.dynamic)


def _evaluate_broadcast(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    result, dims, x = array_result(op), op.dimensions, args[0]
    need_memory(op, result)
    placed = x.transpose(np.argsort(dims)) if dims else x
    spread = [1] * result.rank
    for i, d in enumerate(dims):
        spread[d] = x.shape[i]
    return np.array(np.broadcast_to(placed.reshape(spread), result.dims), order="C")


register(
    OpSpec(
        "broadcast", 1, _infer_broadcast, _evaluate_broadcast, Category.MOVEMENT,
        "003: BroadcastInDim",
        (
            "f32[2,3,4] broadcast(f32[2,4] x), dimensions={0,2}",
            "f32[4,3] broadcast(f32[3,4] x), dimensions={1,0}",
            "s8[2,2] broadcast(s8[] x), dimensions={}",
        ),
        attrs={"dimensions": Attr(INTS, default=(), always=True)},
        traits=Trait.VIEW | Trait.INDEXABLE,
        cost=0.0,
        moved=slice(1),
        factors=factors.broadcast,
    )
)  # fmt: skip

# --- reshape, transpose, reverse ----------------------------------------------------------------


def _infer_reshape(op: OpView) -> Shape:
    operand = array_operand(op, 0)
    result, inferred = _same_type_as_result(op, operand), op.inferred_dimension
    bounded = UNBOUNDED not in operand.dims and UNBOUNDED not in result.dims
    if bounded and operand.num_elements != result.num_elements:
        raise InferError(
            f"reshape: {operand.to_string(False)} has {operand.num_elements} elements, the result "
            f"{result.to_string(False)} has {result.num_elements}",
            operand=0,
        )
    if not -1 <= inferred < result.rank:
        raise InferError(
            f"reshape: inferred_dimension is {inferred}, outside [0, {result.rank})",
            attr="inferred_dimension", code="bad-dimension",
        )  # fmt: skip
    return array(result.element_type, result.dims, result.dynamic)


def _evaluate_reshape(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return args[0].reshape(array_result(op).dims)


def _infer_transpose(op: OpView) -> Shape:
    shape, dims = array_operand(op, 0), op.dimensions
    if len(dims) != shape.rank:
        raise InferError(
            f"transpose: dimensions {{{','.join(map(str, dims))}}} is not a permutation of the "
            f"dimensions of {shape.to_string(False)}",
            attr="dimensions", code="bad-dimension",
        )  # fmt: skip
    need_dims(op, dims, shape.rank, "dimensions")
    layout = shape.layout
    if layout is not None:
        # Each dimension keeps its place in memory, so that nothing has to move.
        layout = replace(layout, minor_to_major=tuple(dims.index(d) for d in layout.minor_to_major))
    return replace(
        shape,
        dims=tuple(shape.dims[d] for d in dims),
        dynamic=tuple(shape.dynamic[d] for d in dims) if shape.dynamic else (),
        layout=layout,
    )


def _evaluate_transpose(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return np.array(args[0].transpose(op.dimensions), order="C")


def _infer_reverse(op: OpView) -> Shape:
    shape = array_operand(op, 0)
    need_dims(op, op.dimensions, shape.rank, "dimensions")
    return shape


def _evaluate_reverse(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return np.array(np.flip(args[0], op.dimensions), order="C")


register(
    OpSpec(
        "reshape", 1, _infer_reshape, _evaluate_reshape, Category.MOVEMENT, "003: Reshape",
        ("f32[4,3] reshape(f32[2,6] x)", "s32[] reshape(s32[1,1] x)"),
        attrs={"inferred_dimension": Attr(INT, default=-1)},
        traits=Trait.VIEW | Trait.INDEXABLE,
        cost=0.0,
        moved=slice(1),
        factors=factors.reshape,
    )
)  # fmt: skip
register(
    OpSpec(
        "transpose", 1, _infer_transpose, _evaluate_transpose, Category.MOVEMENT, "003: Transpose",
        ("f32[4,2,3] transpose(f32[2,3,4] x), dimensions={2,0,1}",),
        attrs={"dimensions": need(INTS)},
        traits=Trait.INFERABLE | Trait.VIEW | Trait.INDEXABLE,
        cost=0.0,
        moved=slice(1),
        factors=factors.transpose,
    )
)  # fmt: skip
register(
    OpSpec(
        "reverse", 1, _infer_reverse, _evaluate_reverse, Category.MOVEMENT, "003: Rev",
        ("f32[2,3] reverse(f32[2,3] x), dimensions={1}",),
        attrs={"dimensions": need(INTS)},
        traits=Trait.INFERABLE | Trait.VIEW | Trait.KEEPS_LAYOUT | Trait.INDEXABLE,
        cost=0.0,
        moved=slice(1),
        factors=factors.moved_along_dimensions,
    )
)  # fmt: skip

# --- shuffle ------------------------------------------------------------------------------------


def _infer_shuffle(op: OpView) -> Shape:
    shape, dims, shifts = array_operand(op, 0), op.dimensions, op.shifts
    need_dims(op, dims, shape.rank, "dimensions")
    if not dims:
        raise InferError(
            "shuffle: dimensions={}, one at least is needed", attr="dimensions",
            code="bad-dimension",
        )  # fmt: skip
    if shifts is None or len(shifts) != len(dims):
        given = "no shifts" if shifts is None else f"{len(shifts)} shifts"
        raise InferError(
            f"shuffle: a rotation of {len(dims)} dimensions has {given}", attr="shifts",
            code="bad-value",
        )  # fmt: skip
    if shape.is_dynamic:
        raise InferError(
            f"shuffle: operand 0 {shape.to_string(False)} varies in size, a fixed one is needed",
            operand=0,
        )
    return shape


def _evaluate_shuffle(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    assert op.shifts is not None, op
    back = [-shift for shift in op.shifts]
    return np.array(np.roll(args[0], back, op.dimensions), order="C")


register(
    OpSpec(
        "shuffle", 1, _infer_shuffle, _evaluate_shuffle, Category.MOVEMENT,
        "xla/hlo/transforms/expanders/shuffle_expander.cc",
        ("f32[2,5] shuffle(f32[2,5] x), dimensions={1,0}, mode=rotate, shifts={2,-1}",),
        attrs={
            "dimensions": need(INTS), "mode": need(enum("rotate")), "shifts": Attr(INTS),
        },
        moved=slice(1),
        factors=factors.moved_along_dimensions,
    )
)  # fmt: skip

# --- slice --------------------------------------------------------------------------------------


def _infer_slice(op: OpView) -> Shape:
    shape, dims = array_operand(op, 0), op.slice
    if len(dims) != shape.rank:
        raise InferError(
            f"slice: {len(dims)} ranges for operand 0 of shape {shape.to_string(False)}",
            attr="slice", code="bad-dimension",
        )  # fmt: skip
    sizes = []
    for i, (size, d) in enumerate(zip(shape.dims, dims, strict=True)):
        if d.start < 0 or d.start > d.limit or (size != UNBOUNDED and d.limit > size):
            end = "?" if size == UNBOUNDED else size
            raise InferError(
                f"slice: range [{d.start}:{d.limit}] of dimension {i} is not inside [0:{end}]",
                attr="slice", code="index-out-of-range",
            )  # fmt: skip
        if d.stride < 1:
            raise InferError(
                f"slice: stride {d.stride} of dimension {i} is not positive",
                attr="slice", code="bad-value",
            )  # fmt: skip
        sizes.append(len(range(d.start, d.limit, d.stride)))
    # One element of a dynamic dimension is a static one; an unbounded one has got a size.
    dynamic = [
        shape.is_dynamic_dim(i) and size != 1 and shape.dims[i] != UNBOUNDED
        for i, size in enumerate(sizes)
    ]
    return array(shape.element_type, sizes, dynamic)


def _evaluate_slice(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    index = tuple(slice(d.start, d.limit, d.stride) for d in op.slice)
    return np.array(args[0][index], order="C")


register(
    OpSpec(
        "slice", 1, _infer_slice, _evaluate_slice, Category.MOVEMENT, "003: Slice",
        (
            "f32[2,2] slice(f32[4,5] x), slice={[1:3], [0:2]}",
            "f32[2,3] slice(f32[4,5] x), slice={[0:4:2], [0:5:2]}",
        ),
        attrs={"slice": need(SLICES)},
        resized=factors.resized_slice,
        traits=Trait.VIEW | Trait.KEEPS_LAYOUT | Trait.INDEXABLE,
        cost=0.0,
        moved=slice(1),
        factors=factors.slice_,
    )
)  # fmt: skip

# --- pad ----------------------------------------------------------------------------------------


def _padded_size(size: int, d: PadDim) -> int:
    return size + d.low + d.high + max(size - 1, 0) * d.interior


def _infer_pad(op: OpView) -> Shape:
    shape, padding = array_operand(op, 0), op.padding
    need_rank(op, 1, 0)
    need_same_type(op, 0, 1)
    if len(padding) != shape.rank:
        raise InferError(
            f"pad: padding of {len(padding)} dimensions for operand 0 of shape "
            f"{shape.to_string(False)}",
            attr="padding", code="bad-dimension",
        )  # fmt: skip
    sizes = []
    for i, (size, d) in enumerate(zip(shape.dims, padding, strict=True)):
        if d.interior < 0:
            raise InferError(
                f"pad: interior padding {d.interior} of dimension {i} is negative",
                attr="padding", code="bad-value",
            )  # fmt: skip
        sizes.append(UNBOUNDED if size == UNBOUNDED else _padded_size(size, d))
        if size != UNBOUNDED and sizes[-1] < 0:
            raise InferError(
                f"pad: dimension {i} of size {size} becomes {sizes[-1]} long, which is negative",
                attr="padding", code="bad-value",
            )  # fmt: skip
    return _sized(op, array(shape.element_type, sizes, shape.dynamic))


def _evaluate_pad(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    x, fill = args
    padding = op.padding
    sizes = [_padded_size(n, d) for n, d in zip(x.shape, padding, strict=True)]
    need_memory(op, array(array_operand(op, 0).element_type, sizes))
    result = np.empty(sizes, x.dtype)
    result[...] = fill
    kept, places = [], []
    for n, size, d in zip(x.shape, sizes, padding, strict=True):
        step = d.interior + 1
        # Element i goes to low + i * step; negative padding cuts some off at either end.
        first = max(0, -(d.low // step))
        last = min(n, (size - 1 - d.low) // step + 1)
        kept.append(slice(first, max(first, last)))
        start = d.low + first * step
        places.append(slice(start, start + max(0, last - first) * step, step))
    result[tuple(places)] = x[tuple(kept)]
    return result


register(
    OpSpec(
        "pad", 2, _infer_pad, _evaluate_pad, Category.MOVEMENT, "003: Pad",
        (
            "f32[4,7] pad(f32[2,3] x, f32[] fill), padding=1_1_0x0_0_2",
            "s32[2,2] pad(s32[3,4] x, s32[] fill), padding=-1_0x1_-3",
        ),
        attrs={"padding": need(PADDING)},
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT | Trait.INDEXABLE,
        moved=slice(2),
        factors=factors.pad,
    )
)  # fmt: skip

# --- concatenate --------------------------------------------------------------------------------


def _infer_concatenate(op: OpView) -> Shape:
    shapes = array_operands(op)
    first = shapes[0]
    along = need_one_dim(op, first.rank)
    for i, shape in enumerate(shapes[1:], 1):
        need_same_type(op, 0, i)
        if shape.rank != first.rank or any(
            x != y and d != along and UNBOUNDED not in (x, y)
            for d, (x, y) in enumerate(zip(first.dims, shape.dims, strict=True))
        ):
            raise InferError(
                f"concatenate: operands 0 and {i} differ outside dimension {along}: "
                f"{first.to_string(False)}, {shape.to_string(False)}",
                operand=i,
            )
    sizes, dynamic = [], []
    for d in range(first.rank):
        known = [s for s in shapes if s.dims[d] != UNBOUNDED]
        if d == along:
            whole = len(known) == len(shapes)
            sizes.append(sum(s.dims[d] for s in shapes) if whole else UNBOUNDED)
            dynamic.append(any(s.is_dynamic_dim(d) for s in shapes))
        else:
            # A stated size wins over an unbounded one, and brings its own kind.
            sizes.append(known[0].dims[d] if known else UNBOUNDED)
            dynamic.append(any(s.is_dynamic_dim(d) for s in known or shapes))
    return _sized(op, array(first.element_type, sizes, dynamic))


def _evaluate_concatenate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    need_memory(op, op.shape)
    return np.concatenate(args, axis=op.dimensions[0])


register(
    OpSpec(
        "concatenate", (1, None), _infer_concatenate, _evaluate_concatenate, Category.MOVEMENT,
        "003: Concatenate (ConcatInDim)",
        (
            "f32[2,5] concatenate(f32[2,3] x, f32[2,2] y), dimensions={1}",
            "s8[6] concatenate(s8[1] x, s8[0] y, s8[5] z), dimensions={0}",
        ),
        attrs={"dimensions": need(INTS)},
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT,
        moved=slice(None),
        factors=factors.concatenate,
    )
)  # fmt: skip
