"""Operations that place elements elsewhere: broadcasts, shapes, slices, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, cast

from hlo.errors import InferError
from hlo.frontends.builder.broadcasting import spread
from hlo.frontends.builder.coercion import ShapeLike, array_shape_of, sizes_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.frontends.builder.handle import Handle
from hlo.ops.movement.reshape_groups import need_varying, reshaped
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.reshape(b.constant([[1, 2, 3], [4, 5, 6]]), [3, 2])).array
    array([[1, 2],
           [3, 4],
           [5, 6]], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.collapse(b.parameter(0, "f32[2,3,4]"), [1, 2]).shape)
    f32[2,12]{1,0}
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.transpose(b.constant([[1, 2, 3]]), [1, 0])).array
    array([[1],
           [2],
           [3]], dtype=int32)
    """
    if permutation is None:
        permutation = range(operand.rank)[::-1]
    return emit(builder, "transpose", operand, dimensions=tuple(permutation))


@operation
def trans(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the transpose of a matrix.

    operand: [m, n]; the result is [n, m].

    Raises HloError for any other rank. Source: "Trans" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.trans(b.constant([[1, 2], [3, 4]]))).array
    array([[1, 3],
           [2, 4]], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.rev(b.constant([1, 2, 3]), [0])).array
    array([3, 2, 1], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.rotate(b.constant([1, 2, 3]), [0], [1])).array
    array([2, 3, 1], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> from hlo.values.types import Layout
    >>> print(b.copy(b.parameter(0, "f32[2,3]"), Layout((0, 1))).shape)
    f32[2,3]{0,1}
    """
    shape = operand.array_shape.with_layout(layout) if layout is not None else operand.shape
    return emit(builder, "copy", operand, shape=shape)
