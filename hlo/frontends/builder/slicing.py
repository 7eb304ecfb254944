"""Parts of arrays, padding, and arrays put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder import movement
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.ops.attrs import PadDim, SliceDim
from hlo.support.signature import fitted


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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.slice_(b.constant([0, 1, 2, 3, 4]), [1], [5], [2])).array
    array([1, 3], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.index(b.constant([[1, 2, 3], [4, 5, 6]]), (slice(None), -1))).array
    array([3, 6], dtype=int32)
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
    return part if len(kept) == shape.rank else movement.reshape(builder, part, kept)


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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.pad(b.constant([1, 2]), 0, [(1, 2, 1)])).array
    array([0, 1, 0, 2, 0, 0], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.concat_in_dim([b.constant([1, 2]), b.constant([3])], 0)).array
    array([1, 2, 3], dtype=int32)
    """
    return emit(builder, "concatenate", *operands, dimensions=(dimension,))


concatenate = concat_in_dim
