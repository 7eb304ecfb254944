"""Operations whose elements are found by values: dynamic slices, gather, scatter, sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder import comparison, control, slicing, tuples
from hlo.frontends.builder.callee import Callee, callee_of, check_arity
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.frontends.builder.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from hlo.frontends.builder.handle import Handle
from hlo.frontends.builder.movement import Operands, listed, scalars
from hlo.values.types import S32, ArrayShape, array

# --- one slice ------------------------------------------------------------------------------


@operation
def dynamic_slice(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    start_indices: XlaOp | Sequence[Any],
    slice_sizes: Sequence[int],
) -> XlaOp:
    """Append a part of an array at a position that is a value.

    start_indices: a scalar of an integer type, or a number, for each dimension, or one vector
    of them; moved so that the slice lies inside.
    slice_sizes: the dimensions of the result, at most the operand's.

    Raises HloError for other numbers and types of them. Source: "DynamicSlice" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.dynamic_slice(b.constant([1, 2, 3, 4]), [b.constant(1)], [2])).array
    array([2, 3], dtype=int32)
    """
    starts = _starts(builder, start_indices)
    return emit(builder, "dynamic-slice", operand, *starts, dynamic_slice_sizes=tuple(slice_sizes))


@operation
def dynamic_update_slice(
    builder: BuilderCore[XlaOp], operand: XlaOp, update: XlaOp, start_indices: XlaOp | Sequence[Any]
) -> XlaOp:
    """Append an array with a part replaced, at a position that is a value.

    update: of the operand's type and rank, nowhere larger.
    start_indices: as for `dynamic_slice`.
    The result has the operand's shape.

    Raises HloError for others. Source: "DynamicUpdateSlice" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.dynamic_update_slice(b.constant([1, 2, 3, 4]), b.constant([9]), [2])
    >>> b.compute_constant(y).array
    array([1, 2, 9, 4], dtype=int32)
    """
    starts = _starts(builder, start_indices)
    return emit(builder, "dynamic-update-slice", operand, update, *starts)


def _starts(builder: BuilderCore[XlaOp], indices: Operands[XlaOp] | Sequence[Any]) -> list[XlaOp]:
    """Return the scalars of start indices; numbers among them become s32."""
    if not isinstance(indices, Handle):
        return [value_of(builder, i, S32) for i in indices]
    if indices.rank != 1:
        return [indices]
    return [slicing.index(builder, indices, i) for i in range(indices.dims[0])]


# --- many slices ----------------------------------------------------------------------------


@operation
def gather(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, start_indices: XlaOp, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int], indices_are_sorted: bool = False,
) -> XlaOp:  # fmt: skip
    """Append slices of an array, at positions that another array holds, put together.

    operand: of rank r.
    start_indices: integers; their dimension `index_vector_dim` holds positions, the others are
    a batch.
    dimension_numbers: how the dimensions belong together.
    indices_are_sorted: a promise, which changes no result if it is kept.
    slice_sizes: r sizes, at most the operand's. Positions are moved so that slices lie inside.
    The result has the batch's dimensions, and at `offset_dims` those of a slice without its
    collapsed ones.

    Raises HloError naming the dimension numbers that do not fit. Source: "Gather" (000, 002,
    003).

    >>> from hlo.builder import GatherDimensionNumbers
    >>> b = hlo.XlaBuilder("m")
    >>> numbers = GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
    >>> y = b.gather(b.constant([[1, 2], [3, 4], [5, 6]]), b.constant([2, 0]), numbers, [1, 2])
    >>> b.compute_constant(y).array
    array([[5, 6],
           [1, 2]], dtype=int32)
    """
    return emit(
        builder, "gather", operand, start_indices, **dimension_numbers.attrs(),
        slice_sizes=tuple(slice_sizes), indices_are_sorted=indices_are_sorted,
    )  # fmt: skip


@operation
def scatter(
    builder: BuilderCore[XlaOp],
    operands: Operands[XlaOp], scatter_indices: XlaOp, updates: Operands[XlaOp],
    update_computation: Callee, dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False, unique_indices: bool = False,
) -> XlaOp:  # fmt: skip
    """Append arrays with slices of updates combined into them, at positions from an array.

    operands: an array, or several of the same dimensions.
    scatter_indices: integers; their dimension `index_vector_dim` holds positions.
    updates: for each operand an array with the other dimensions of the indices, and at
    `update_window_dims` those of a slice. What lies outside the operand is skipped.
    update_computation: from the present elements and those of the updates to the new elements,
    a tuple for several arrays.
    dimension_numbers: how the dimensions belong together.
    indices_are_sorted, unique_indices: promises, which change no result if they are kept.
    The result has the operand's shape, and is a tuple for several.

    Raises HloError naming the dimension numbers that do not fit. Source: "Scatter" (002, 003).

    >>> from hlo.builder import ScatterDimensionNumbers
    >>> b = hlo.XlaBuilder("m")
    >>> numbers = ScatterDimensionNumbers([], [0], [0], index_vector_dim=1)
    >>> x, at, new = (b.constant(v) for v in ([0, 0, 0], [2, 0, 2], [1, 2, 3]))
    >>> b.compute_constant(b.scatter(x, at, new, lambda x, y: x + y, numbers)).array
    array([2, 0, 4], dtype=int32)
    """
    arrays, new = listed("scatter", operands), listed("scatter", updates)
    if len(arrays) != len(new):
        raise InferError(
            f"scatter: {len(arrays)} operands and {len(new)} updates", code="operand-count"
        )
    pairs = [*scalars(arrays), *scalars(new)]
    return emit(
        builder, "scatter", *arrays, scatter_indices, *new, **dimension_numbers.attrs(),
        indices_are_sorted=indices_are_sorted, unique_indices=unique_indices,
        to_apply=callee_of(builder, update_computation, pairs, "update"),
    )  # fmt: skip


# --- order ----------------------------------------------------------------------------------


@operation
def sort(
    builder: BuilderCore[XlaOp],
    operands: Operands[XlaOp], comparator: Callee | None = None, dimension: int = -1,
    is_stable: bool = False,
) -> XlaOp:  # fmt: skip
    """Append arrays sorted together along a dimension, the last one by default.

    operands: of the same dimensions.
    comparator: from two elements of each array, side by side, to whether the first come first;
    by default whether the element of the first array is smaller, floats by total order.
    is_stable: whether the order of equal elements stays.
    The result has the operand's shape, a tuple for several.

    Raises HloError for a dimension that is not there and a comparator of another type. Source:
    "Sort" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.sort(b.parameter(0, "s32[4]"), lambda x, y: x > y)
    >>> hlo.interpret(b.build().module(), [3, 1, 4, 1])
    array([4, 3, 1, 1], dtype=int32)
    """
    arrays = listed("sort", operands)
    pairs = [s for s in scalars(arrays) for _ in range(2)]
    if dimension == -1:
        if not arrays[0].rank:
            raise InferError("sort: a scalar has no dimension", code="bad-dimension")
        dimension = arrays[0].rank - 1

    def less(first: XlaOp, second: XlaOp, *_: XlaOp) -> XlaOp:
        return comparison.lt_total_order(first.builder, first, second)

    return emit(
        builder, "sort", *arrays, dimensions=(dimension,), is_stable=is_stable,
        to_apply=callee_of(builder, comparator or less, pairs, "comparator"),
    )  # fmt: skip


@operation
def top_k(
    builder: BuilderCore[XlaOp], operand: XlaOp, k: int, largest: bool | Callee = True,
    comparator: Callee | None = None,
) -> XlaOp:  # fmt: skip
    """Append the `k` largest or smallest elements along the last dimension, and their indices.

    operand: of rank 1 at least, with `k` elements at least in its last dimension.
    largest: whether those are taken; NaN is above all. In its place there may be a comparator.
    comparator: another order, as for `sort`; the first of that order are taken.
    Returns a tuple of values and s32 indices, [..., k]; of equal elements the first come first.

    Raises HloError for a larger `k`. Source: "Top-K" (002), "TopK" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> largest = b.top_k(b.constant([3, 1, 4, 1, 5]), 2)
    >>> [b.compute_constant(part).array.tolist() for part in largest]
    [[5, 4], [4, 2]]
    """
    if not isinstance(largest, bool):
        comparator = largest
    if comparator is None:
        return emit(builder, "topk", operand, k=k, largest=largest)
    shape: ArrayShape = operand.array_shape
    last = shape.rank - 1
    if not shape.rank or not 0 <= k <= shape.dims[last]:
        raise InferError(
            f"topk: k is {k}, the operand has shape {shape.to_string(False)}: a last dimension "
            "of at least that size is needed", operand=0, code="bad-value",
        )  # fmt: skip
    places = array(S32, shape.dims, shape.dynamic)
    indices = emit(builder, "iota", shape=places, iota_dimension=last)
    scalar, callee = array(shape.element_type, ()), comparator

    if callable(callee):
        check_arity(callee, "comparator", 2, f"{scalar}, {scalar}")

    def by_value(a: XlaOp, b: XlaOp, *_: XlaOp) -> Handle:
        if callable(callee):
            return callee(a, b)
        return control.call(a.builder, callee, [a, b])

    pairs = [scalar, scalar, array(S32, ()), array(S32, ())]
    both = emit(
        builder, "sort", operand, indices, dimensions=(last,), is_stable=True,
        to_apply=callee_of(builder, by_value, pairs, "comparator"),
    )  # fmt: skip
    limits = (*shape.dims[:-1], k)
    parts = [
        slicing.slice_(builder, part, [0] * shape.rank, limits) for part in tuples.elements(both)
    ]
    return emit(builder, "tuple", *parts)
