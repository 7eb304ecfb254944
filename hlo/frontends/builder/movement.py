"""Operations that place elements elsewhere: broadcasts, shapes, slices, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from hlo.errors import InferError
from hlo.frontends.builder.broadcasting import spread
from hlo.frontends.builder.coercion import ShapeLike, array_shape_of, sizes_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.frontends.builder.handle import Handle
from hlo.ops.attrs import PadDim, SliceDim
from hlo.ops.movement.reshape_groups import need_varying, reshaped
from hlo.support.signature import fitted
from hlo.values.types import Layout, Shape, array

Operands: TypeAlias = XlaOp | Sequence[XlaOp]


def listed(opcode: str, operands: Operands[XlaOp]) -> list[XlaOp]:
    """Return one handle, or several, as a list. Raises InferError for none."""
    found = [operands] if isinstance(operands, Handle) else list(operands)
    if not found:
        raise InferError(f"{opcode}: at least one operand is needed", code="operand-count")
    return found


def scalars(operands: Sequence[XlaOp]) -> list[Shape]:
    """Return the shapes of single elements of arrays."""
    return [array(o.element_type, ()) for o in operands]


# --- broadcasts and reshapes ----------------------------------------------------------------


@operation
def broadcast(builder: BuilderCore[XlaOp], operand: XlaOp, broadcast_sizes: Sequence[int]) -> XlaOp:
    """Append copies of an array along new dimensions of the given sizes, which come first.

    operand: of dimensions [b0, ...].
    broadcast_sizes: [a0, ...], from 0 on; the result has dimensions [a0, ..., b0, ...].

    Raises HloError for a negative size. Source: "Broadcast" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.broadcast(b.parameter(0, "s32[2]"), [3])
    >>> hlo.interpret(b.build().module(), [1, 2])
    array([[1, 2],
           [1, 2],
           [1, 2]], dtype=int32)
    """
    shape = operand.array_shape
    sizes = sizes_of("broadcast", broadcast_sizes)
    new = len(sizes)
    dynamic = [False] * new + [shape.is_dynamic_dim(d) for d in range(shape.rank)]
    result = array(shape.element_type, (*sizes, *shape.dims), dynamic)
    places = tuple(range(new, result.rank))
    return emit(builder, "broadcast", operand, shape=result, dimensions=places)


@operation
def broadcast_in_dim(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    out_dim_size: Sequence[int],
    broadcast_dimensions: Sequence[int],
) -> XlaOp:
    """Append copies of an array in a larger one.

    out_dim_size: the dimensions of the result.
    broadcast_dimensions: for each dimension of the operand its place in the result, in any
    order, where it has its own size or, if that is 1, any.

    Raises HloError for others. Source: "BroadcastInDim" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.broadcast_in_dim(b.parameter(0, "s32[2]"), [2, 3], [0])
    >>> hlo.interpret(b.build().module(), [1, 2])
    array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    shape = operand.array_shape
    out_dim_size = sizes_of("broadcast_in_dim", out_dim_size)
    if len(broadcast_dimensions) != shape.rank:
        raise InferError(
            f"broadcast_in_dim: broadcast_dimensions names {len(broadcast_dimensions)} "
            f"dimensions, operand 0 has shape {shape.to_string(False)}",
            code="bad-dimension",
        )
    for i, at in enumerate(broadcast_dimensions):
        if at in broadcast_dimensions[:i]:
            raise InferError(
                f"broadcast_in_dim: broadcast_dimensions names dimension {at} twice",
                code="bad-dimension",
            )
        if not 0 <= at < len(out_dim_size):
            raise InferError(
                f"broadcast_in_dim: broadcast_dimensions names dimension {at}, outside "
                f"[0, {len(out_dim_size)})",
                code="bad-dimension",
            )
        if shape.dims[i] not in (1, out_dim_size[at]):
            raise InferError(
                f"broadcast_in_dim: dimension {i} of {shape.to_string(False)} is neither 1 nor "
                f"{out_dim_size[at]}, the size of dimension {at} of the result",
                operand=0,
            )
    return spread(builder, "broadcast_in_dim", operand, out_dim_size, broadcast_dimensions)


@operation
def reshape(
    builder: BuilderCore[XlaOp],
    operand: XlaOp | ShapeLike,
    dimensions: Sequence[int] | XlaOp | None = None,
    new_sizes: Sequence[int] | None = None,
) -> XlaOp:
    """Append the elements of an array in other dimensions.

    `reshape(x, sizes)` takes the elements in row-major order. `reshape(x, dimensions, sizes)`
    takes them with `dimensions`, a permutation, from slowest to fastest. `reshape(shape, x)`
    names the whole shape, dynamic dimensions with it; the others find them. Sizes may be given
    as new_sizes.

    Raises HloError for sizes of another product, for what is no permutation, where it is open
    which dimension varies, and where a shape says none does. Source: "Reshape" (004, 000, 002,
    003).
    """
    if not isinstance(operand, Handle):
        shape = array_shape_of(operand, "reshape")
        if isinstance(dimensions, Handle):
            need_varying(dimensions.array_shape, shape)
        return emit(builder, "reshape", cast(XlaOp, dimensions), shape=shape)
    dimensions = cast(Sequence[int] | None, dimensions)
    order, sizes = (None, dimensions) if new_sizes is None else (dimensions, new_sizes)
    if sizes is None:
        raise InferError("reshape: it needs the new sizes", code="bad-value")
    if order is not None:
        if sorted(order) != list(range(operand.rank)):
            raise InferError(
                f"reshape: dimensions {{{','.join(map(str, order))}}} is not a permutation "
                f"of those of {operand.array_shape.to_string(False)}", code="bad-dimension",
            )  # fmt: skip
        operand = transpose(builder, operand, order)
    shape = reshaped(operand.array_shape, sizes_of("reshape", sizes))
    return emit(builder, "reshape", operand, shape=shape)


@operation
def collapse(builder: BuilderCore[XlaOp], operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Append an array with consecutive dimensions made one, whose size is their product.

    dimensions: numbers that ascend by 1; with none, or one, nothing changes.

    Raises HloError for others and for numbers of no dimension. Source: "Collapse" (004, 000,
    002, 003).
    """
    shape, dims = operand.array_shape, list(dimensions)
    if not dims:
        return operand
    first, last = dims[0], dims[-1]
    if dims != list(range(first, last + 1)):
        raise InferError(
            f"collapse: dimensions {{{','.join(map(str, dims))}}} are not consecutive and in "
            "order", code="bad-dimension",
        )  # fmt: skip
    if first < 0 or last >= shape.rank:
        raise InferError(
            f"collapse: dimensions names dimension {first if first < 0 else last}, outside "
            f"[0, {shape.rank})", code="bad-dimension",
        )  # fmt: skip
    one = math.prod(shape.dims[first : last + 1])
    return reshape(builder, operand, (*shape.dims[:first], one, *shape.dims[last + 1 :]))


@operation
def transpose(
    builder: BuilderCore[XlaOp], operand: XlaOp, permutation: Sequence[int] | None = None
) -> XlaOp:
    """Append an array whose dimension i is dimension `permutation[i]` of the operand.

    Without a permutation the dimensions are reversed.

    Raises HloError for what is no permutation. Source: "Transpose" (000, 002, 003).
    """
    if permutation is None:
        permutation = range(operand.rank)[::-1]
    return emit(builder, "transpose", operand, dimensions=tuple(permutation))


@operation
def trans(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the transpose of a matrix.

    operand: [m, n]; the result is [n, m].

    Raises HloError for any other rank. Source: "Trans" (004).
    """
    if operand.rank != 2:
        raise InferError(
            f"trans: operand 0 has shape {operand.array_shape.to_string(False)}, "
            "rank 2 is needed", operand=0,
        )  # fmt: skip
    return transpose(builder, operand, (1, 0))


@operation
def rev(builder: BuilderCore[XlaOp], operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
    """Append an array with its elements in the opposite order along some dimensions.

    dimensions: each once, in any order.
    The result has the operand's shape.

    Raises HloError for a dimension that is not there or is there twice. Source: "Rev" (004,
    000, 002, 003).
    """
    return emit(builder, "reverse", operand, dimensions=tuple(dimensions))


@operation
def rotate(
    builder: BuilderCore[XlaOp], operand: XlaOp, dimensions: Sequence[int], shifts: Sequence[int]
) -> XlaOp:
    """Append an array whose elements move towards the start, and around to the end.

    dimensions: each once, in any order. shifts: by how many places, for each of them.
    The result has the operand's shape.

    Raises HloError for a dimension that is not there or is there twice.
    """
    return emit(
        builder,
        "shuffle",
        operand,
        dimensions=tuple(dimensions),
        mode="rotate",
        shifts=tuple(shifts),
    )


@operation
def copy(builder: BuilderCore[XlaOp], operand: XlaOp, layout: Layout | None = None) -> XlaOp:
    """Append a copy of a value; of an array also into another layout.

    Source: "Copy" (003).
    """
    shape = operand.array_shape.with_layout(layout) if layout is not None else operand.shape
    return emit(builder, "copy", operand, shape=shape)


# --- slices and padding ---------------------------------------------------------------------


@operation
def slice_(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, start_indices: Sequence[int], limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> XlaOp:  # fmt: skip
    """Append every `strides[d]`-th element from `start_indices[d]` below `limit_indices[d]`.

    A number of each for every dimension; strides are 1 unless given. Dimension d of the result
    has ceil((limit - start) / stride) elements.

    Raises HloError unless 0 <= start <= limit <= size, and for a stride below 1. Source:
    "Slice" (004, 000, 002, 003).
    """
    strides = [1] * len(start_indices) if strides is None else strides
    if not len(start_indices) == len(limit_indices) == len(strides):
        raise InferError(
            f"slice: {len(start_indices)} start indices, {len(limit_indices)} limit indices "
            f"and {len(strides)} strides", code="bad-value",
        )  # fmt: skip
    dims = tuple(map(SliceDim, start_indices, limit_indices, strides))
    return emit(builder, "slice", operand, slice=dims)


@operation
def index(builder: BuilderCore[XlaOp], operand: XlaOp, index: Any) -> XlaOp:
    """Append the part of an array that Python's `x[index]` names: numbers, slices and `...`.

    Steps are positive. A dimension with a number is left out of the result.
    """
    shape = operand.array_shape
    wanted = list(index) if isinstance(index, tuple) else [index]
    # By identity: comparing handles makes operations.
    at = next((i for i, part in enumerate(wanted) if part is Ellipsis), len(wanted))
    given = len(wanted) - (at < len(wanted))
    wanted[at : at + 1] = [slice(None)] * (shape.rank - given)
    if len(wanted) != shape.rank:
        raise InferError(
            f"index: {given} indices for {shape.to_string(False)}", code="bad-dimension"
        )
    dims, kept = [], []
    for d, (part, size) in enumerate(zip(wanted, shape.dims, strict=True)):
        if isinstance(part, slice):
            ends = (part.start, part.stop, part.step)
            ends = fitted(ends, Sequence[int | None], f"index: part {d}")
            start, limit, step = slice(*ends).indices(size)
            if step < 1:
                raise InferError(f"index: step {step} is not positive", code="bad-value")
            limit = max(start, limit)
            kept.append(-(-(limit - start) // step))
        else:
            part = fitted(part, int, f"index: part {d}")
            start = part + size if part < 0 else part
            limit, step = start + 1, 1
            if not 0 <= start < size:
                raise InferError(
                    f"index: {part} is outside dimension {d} of {shape.to_string(False)}",
                    code="index-out-of-range",
                )
        dims.append(SliceDim(start, limit, step))
    part = emit(builder, "slice", operand, slice=tuple(dims))
    return part if len(kept) == shape.rank else reshape(builder, part, kept)


@operation
def pad(
    builder: BuilderCore[XlaOp], operand: XlaOp, padding_value: Any,
    padding_config: Sequence[tuple[int, int] | tuple[int, int, int] | PadDim],
) -> XlaOp:  # fmt: skip
    """Append an array with padding before, after and between its elements.

    padding_value: a scalar of the operand's type, or a number.
    padding_config: `(low, high)` or `(low, high, interior)` of each dimension; the interior
    goes in first, and negative low and high padding takes elements away. Dimension d of the
    result has low + n + max(n - 1, 0) * interior + high elements.

    Raises HloError for a negative interior and where that is negative. Source: "Pad" (004, 000,
    002, 003).
    """
    if any(len(d) not in (2, 3) for d in padding_config if not isinstance(d, PadDim)):
        raise InferError(
            "pad: padding_config needs low, high and optionally interior padding per dimension",
            code="bad-value",
        )
    dims = tuple(d if isinstance(d, PadDim) else PadDim(*d) for d in padding_config)
    return emit(builder, "pad", operand, value_of(builder, padding_value, operand), padding=dims)


@operation
def concat_in_dim(builder: BuilderCore[XlaOp], operands: Sequence[XlaOp], dimension: int) -> XlaOp:
    """Append arrays one after the other along a dimension.

    operands: one or more of one type, whose sizes differ in that dimension only.
    dimension: below their rank, which is at least 1.

    Raises HloError for others. Source: "Concatenate" (004, 000, 002, 003).
    """
    return emit(builder, "concatenate", *operands, dimensions=(dimension,))


concatenate = concat_in_dim
