"""Dimensions whose sizes are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.frontends.builder.coercion import (
    sizes_of,
)
from hlo.frontends.builder.core import (
    BuilderCore,
    XlaOp,
    emit,
    operation,
    value_of,
)
from hlo.values.types import (
    S32,
    array,
)


@operation
def get_dimension_size(builder: BuilderCore[XlaOp], operand: XlaOp, dimension: int) -> XlaOp:
    """Append the size of a dimension, an s32 scalar; of a dynamic one that which it has.

    Raises HloError for a dimension that is not there. Source: "GetDimensionSize" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.get_dimension_size(b.constant([[1, 2, 3]]), 1)).array
    array(3, dtype=int32)
    """
    return emit(builder, "get-dimension-size", operand, dimensions=(dimension,))


@operation
def set_dimension_size(
    builder: BuilderCore[XlaOp], operand: XlaOp, val: Any, dimension: int
) -> XlaOp:
    """Append an array of which only the first `val` elements along a dimension are meant.

    val: an s32 scalar, or a number. The result has the operand's shape, where that dimension
    varies up to its size: `f32[<=10]`. Reductions leave out what lies beyond.

    Raises HloError for a dimension that is not there. Source: "SetDimensionSize" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.set_dimension_size(b.constant([1, 2, 3]), 2, 0)
    >>> print(y.shape, b.compute_constant(b.reduce_all(y, 0, lambda x, y: x + y)).array)
    s32[<=3]{0} 3
    """
    return emit(
        builder, "set-dimension-size", operand, value_of(builder, val, S32), dimensions=(dimension,)
    )


@operation
def dynamic_reshape(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, dim_sizes: Sequence[Any], new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> XlaOp:  # fmt: skip
    """Append an array in dimensions whose sizes are values.

    dim_sizes: an s32 scalar, or a number, for each dimension of the result.
    new_size_bounds: what it is at most.
    dims_are_dynamic: whether it varies; else it is the bound.

    Raises HloError for bounds of another product than the operand's sizes. Source:
    "DynamicReshape" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, n = b.parameter(0, "f32[<=12]"), b.parameter(1, "s32[]")
    >>> print(b.dynamic_reshape(x, [n, 3], [4, 3], [True, False]).shape)
    f32[<=4,3]{1,0}
    """
    bounds = sizes_of("dynamic-reshape", new_size_bounds)
    result = array(operand.element_type, bounds, dims_are_dynamic)
    sizes = [value_of(builder, n, S32) for n in dim_sizes]
    return emit(builder, "dynamic-reshape", operand, *sizes, shape=result)
