"""Operations that combine many elements into one: reductions, windows, normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hlo.errors import InferError
from hlo.frontends.builder.broadcasting import spread
from hlo.frontends.builder.callee import Callee, callee_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.frontends.builder.dimension_numbers import Dims, Padding, make_window
from hlo.frontends.builder.handle import Handle
from hlo.frontends.builder.movement import Operands, listed, scalars
from hlo.support.signature import fitted
from hlo.values.types import array


def need_like(opcode: str, what: str, value: XlaOp, other: str, like: XlaOp) -> None:
    """Check that what one function takes has one element type, or floats of two precisions.

    Said here rather than by what the function does with them. Raises InferError.
    """
    a, b = value.element_type, like.element_type
    if a is not b and not (a.is_float and b.is_float):
        raise InferError(
            f"{opcode}: {what} has element type {a}, {other} has {b}", code="type-mismatch"
        )


def _pairs(
    builder: BuilderCore[XlaOp], opcode: str, operands: Operands[XlaOp], init_values: Any
) -> tuple[list[XlaOp], list[XlaOp]]:
    """Return the arrays and an initial value for each."""
    arrays = listed(opcode, operands)
    inits = init_values
    if isinstance(operands, Handle) and not isinstance(init_values, (list, tuple)):
        inits = [init_values]
    inits = fitted(inits, Sequence[Any], f"{opcode}: init_values")
    if len(inits) != len(arrays):
        raise InferError(
            f"{opcode}: {len(inits)} initial values for {len(arrays)} operands",
            code="operand-count",
        )
    found = [value_of(builder, i, a) for i, a in zip(inits, arrays, strict=True)]
    for i, (init, a) in enumerate(zip(found, arrays, strict=True)):
        need_like(opcode, f"initial value {i}", init, f"operand {i}", a)
    return arrays, found


# --- reduce, map ----------------------------------------------------------------------------


@operation
def reduce(
    builder: BuilderCore[XlaOp], operands: Operands[XlaOp], init_values: Any, computation: Callee,
    dimensions_to_reduce: Sequence[int],
) -> XlaOp:  # fmt: skip
    """Append arrays with some dimensions reduced.

    operands: an array, or several of the same dimensions.
    init_values: a scalar, or a number, for each; each is used once.
    computation: from accumulated values and the elements of each array to new accumulated
    values, a tuple for several arrays; the order in which elements come is open.
    dimensions_to_reduce: in any order, each once.
    The result has the other dimensions, and is a tuple for several arrays.

    Raises HloError for dimensions that are not there and a computation of another type. Source:
    "Reduce" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.reduce(b.parameter(0, "s32[2,3]"), 0, lambda x, y: x + y, [1])
    >>> hlo.interpret(b.build().module(), [[1, 2, 3], [4, 5, 6]])
    array([ 6, 15], dtype=int32)
    """
    arrays, inits = _pairs(builder, "reduce", operands, init_values)
    return emit(
        builder, "reduce", *arrays, *inits, dimensions=tuple(dimensions_to_reduce),
        to_apply=callee_of(builder, computation, [*scalars(inits), *scalars(arrays)], "reducer"),
    )  # fmt: skip


@operation
def reduce_all(
    builder: BuilderCore[XlaOp], operand: XlaOp, init_value: Any, computation: Callee
) -> XlaOp:
    """Append an array reduced over all its dimensions to a scalar, from `init_value`.

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.reduce_all(b.constant([[1, 2], [3, 4]]), 0, lambda x, y: x + y)).array
    array(10, dtype=int32)
    """
    return reduce(builder, operand, init_value, computation, range(operand.rank))


@operation
def map_(
    builder: BuilderCore[XlaOp], operands: Operands[XlaOp], computation: Callee,
    dimensions: Sequence[int] | Sequence[XlaOp] | None = None,
    static_operands: Sequence[XlaOp] = (),
) -> XlaOp:  # fmt: skip
    """Append a function on scalars applied to the elements of arrays.

    operands: arrays of the same dimensions, which the result has too.
    computation: from an element of each to a scalar.
    dimensions: all of them in order, if given.
    static_operands: scalars that every call of the function gets after the elements; they may
    also be the third argument, as in 004. XLA's builder takes none at all: these become arrays
    of the operands' dimensions, since a `map` of the text has only such operands.

    Raises HloError for other dimensions, for a static operand that is an array, and for a
    computation of another type. Source: "Map" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.map_([b.constant([1, 2]), b.constant([3, 4])], lambda x, y: x * y + 1)
    >>> b.compute_constant(y).array
    array([4, 9], dtype=int32)
    """
    arrays = listed("map", operands)
    if dimensions and all(isinstance(d, Handle) for d in dimensions):
        static_operands = (*cast(Sequence[XlaOp], dimensions), *static_operands)
        dimensions = None
    for i, extra in enumerate(static_operands):
        if extra.rank:
            raise InferError(
                f"map: static operand {i} has shape {extra.array_shape.to_string(False)}, "
                "only scalars can be passed to every call", code="unsupported",
                hint="XLA's Map takes no static operands at all; a constant array, made in the "
                "function itself, is the same for every call",
            )  # fmt: skip
        arrays.append(spread(builder, "map", extra, arrays[0].dims, ()))
    dims = tuple(range(arrays[0].rank) if dimensions is None else cast(Dims, dimensions))
    callee = callee_of(builder, computation, scalars(arrays), "mapped")
    return emit(builder, "map", *arrays, dimensions=dims, to_apply=callee)


@operation
def scan(
    builder: BuilderCore[XlaOp],
    operands: Sequence[XlaOp], init_values: Sequence[XlaOp], computation: Callee,
    dimension: int, is_reverse: bool = False, is_associative: bool = False,
) -> XlaOp:  # fmt: skip
    """Append what a function gives that runs over slices of arrays and carries values along.

    computation: from slices without the dimension, then carries, to slices of the results, then
    carries. A function in its place gets parameters of those shapes.
    init_values: the carries at first, which the result has as they are at last.
    is_reverse: the last slice comes first. is_associative: a promise, which changes no result.

    >>> b = hlo.XlaBuilder("m")
    >>> def step(x: hlo.XlaOp, total: hlo.XlaOp) -> hlo.XlaOp:
    ...     return x.builder.tuple_([total + x, total + x])
    >>> sums = b.scan([b.constant([1, 2, 3])], [b.constant(0)], step, 0)
    >>> b.compute_constant(sums[0]).array
    array([1, 3, 6], dtype=int32)
    """
    slices = [
        array(o.element_type, (*o.dims[:dimension], *o.dims[dimension + 1 :])) for o in operands
    ]
    callee = callee_of(builder, computation, [*slices, *(i.shape for i in init_values)], "step")
    return emit(
        builder, "scan", *operands, *init_values, dimensions=(dimension,),
        num_carries=len(init_values), is_reverse=is_reverse, is_associative=is_associative,
        to_apply=callee,
    )  # fmt: skip


# --- windows --------------------------------------------------------------------------------


@operation
def reduce_window(
    builder: BuilderCore[XlaOp], operands: Operands[XlaOp], init_values: Any, computation: Callee,
    window_dimensions: Sequence[int], window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID", base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> XlaOp:  # fmt: skip
    """Append the reductions of all windows over arrays.

    operands, init_values, computation: as for `reduce`.
    window_dimensions, window_strides: the size of the window, and its steps, 1 unless given, in
    each dimension.
    padding: `VALID` or `SAME`, or a pair a dimension.
    base_dilations, window_dilations: the distances between elements of the arrays, and of the
    window. Padding and holes count as absent.
    The result has an element for each position of the window, and is a tuple for several
    arrays.

    Raises HloError for sizes, steps and distances below 1, and for lists of another length than
    the rank. Source: "ReduceWindow" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.reduce_window(b.constant([1, 2, 3, 4]), 0, lambda x, y: x + y, [2], [2])
    >>> b.compute_constant(y).array
    array([3, 7], dtype=int32)
    """
    arrays, inits = _pairs(builder, "reduce-window", operands, init_values)
    window = make_window(
        "reduce-window", arrays[0].dims, window_dimensions, window_strides, padding,
        base_dilations, window_dilations,
    )  # fmt: skip
    callee = callee_of(builder, computation, [*scalars(inits), *scalars(arrays)], "reducer")
    return emit(builder, "reduce-window", *arrays, *inits, window=window, to_apply=callee)


@operation
def reduce_window_with_general_padding(
    builder: BuilderCore[XlaOp], operands: Operands[XlaOp], init_values: Any, computation: Callee,
    window_dimensions: Sequence[int], window_strides: Sequence[int] | None,
    padding: Sequence[tuple[int, int]], base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> XlaOp:  # fmt: skip
    """Append the reductions of all windows; `padding` is a pair a dimension.

    All else as for `reduce_window`.

    Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.constant([1, 2, 3])
    >>> y = b.reduce_window_with_general_padding(x, 0, lambda x, y: x + y, [2], [1], [(1, 0)])
    >>> b.compute_constant(y).array
    array([1, 3, 5], dtype=int32)
    """
    return reduce_window(
        builder, operands, init_values, computation, window_dimensions, window_strides, padding,
        base_dilations, window_dilations,
    )  # fmt: skip


@operation
def select_and_scatter(
    builder: BuilderCore[XlaOp], operand: XlaOp, select: Callee, window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None, padding: Padding, source: XlaOp, init_value: Any,
    scatter: Callee,
) -> XlaOp:  # fmt: skip
    """Append an array with elements of `source` where windows over `operand` select one.

    select: whether the first of two elements, that of the lower index, is the selected one.
    scatter: from the present element, `init_value` at first, and that of the source to the new
    one.
    window_dimensions, window_strides, padding: as for `reduce_window`.
    source: an element for each position of the window.
    The result has the operand's shape.

    Raises HloError for a source of another shape and for computations of another type. Source:
    "SelectAndScatter" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, source = b.constant([1, 4, 3, 2]), b.constant([10, 20])
    >>> y = b.select_and_scatter(
    ...     x, lambda x, y: x >= y, [2], [2], "VALID", source, 0, lambda x, y: x + y
    ... )
    >>> b.compute_constant(y).array
    array([ 0, 10, 20,  0], dtype=int32)
    """
    window = make_window(
        "select-and-scatter", operand.dims, window_dimensions, window_strides, padding
    )
    init = value_of(builder, init_value, operand)
    need_like("select-and-scatter", "source", source, "operand", operand)
    need_like("select-and-scatter", "the initial value", init, "operand", operand)
    return emit(
        builder, "select-and-scatter", operand, source, init, window=window,
        select=callee_of(builder, select, scalars([operand, operand]), "select"),
        scatter=callee_of(builder, scatter, scalars([init, source]), "scatter"),
    )  # fmt: skip


@operation
def select_and_scatter_with_general_padding(
    builder: BuilderCore[XlaOp], operand: XlaOp, select: Callee, window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None, padding: Sequence[tuple[int, int]], source: XlaOp,
    init_value: Any, scatter: Callee,
) -> XlaOp:  # fmt: skip
    """Append `select_and_scatter` with a pair of padding a dimension.

    All else as for that.

    Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> x, source = b.constant([1, 4, 3]), b.constant([10, 20])
    >>> y = b.select_and_scatter_with_general_padding(
    ...     x, lambda x, y: x >= y, [2], [2], [(0, 1)], source, 0, lambda x, y: x + y
    ... )
    >>> b.compute_constant(y).array
    array([ 0, 10, 20], dtype=int32)
    """
    return select_and_scatter(
        builder, operand, select, window_dimensions, window_strides, padding, source, init_value,
        scatter,
    )  # fmt: skip


# --- batch normalization --------------------------------------------------------------------


@operation
def batch_norm_training(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    scale: XlaOp,
    offset: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """Append an array normalized by its own mean and variance in each feature.

    operand: floats of any dimensions; dimension `feature_index` has f features.
    scale, offset: [f].
    epsilon: what is added to the variances before their root is taken.
    Returns a tuple of the result, of the operand's shape, the means and the variances, [f].

    Raises HloError for a feature_index that is no dimension, and other shapes and types.
    Source: "BatchNormTraining" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, scale, offset = (b.constant(v) for v in ([[1.0], [3.0]], [2.0], [0.0]))
    >>> result, mean, variance = b.batch_norm_training(x, scale, offset, 0.0, 1)
    >>> [b.compute_constant(v).array.tolist() for v in (result, mean, variance)]
    [[[-2.0], [2.0]], [2.0], [1.0]]
    """
    return emit(
        builder, "batch-norm-training", operand, scale, offset,
        epsilon=epsilon, feature_index=feature_index,
    )  # fmt: skip


@operation
def batch_norm_inference(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, scale: XlaOp, offset: XlaOp, mean: XlaOp, variance: XlaOp,
    epsilon: float, feature_index: int,
) -> XlaOp:  # fmt: skip
    """Append an array normalized by the given mean and variance of each feature.

    operand, scale, offset, epsilon, feature_index and errors as for `batch_norm_training`;
    mean, variance: [f].
    The result has the operand's shape.

    Source: "BatchNormInference" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, scale, offset = (b.constant(v) for v in ([[1.0], [3.0]], [2.0], [0.0]))
    >>> y = b.batch_norm_inference(x, scale, offset, b.constant([2.0]), b.constant([1.0]), 0.0, 1)
    >>> b.compute_constant(y).array
    array([[-2.],
           [ 2.]], dtype=float32)
    """
    return emit(
        builder, "batch-norm-inference", operand, scale, offset, mean, variance,
        epsilon=epsilon, feature_index=feature_index,
    )  # fmt: skip


@operation
def batch_norm_grad(
    builder: BuilderCore[XlaOp], operand: XlaOp, scale: XlaOp, batch_mean: XlaOp, batch_var: XlaOp,
    grad_output: XlaOp, epsilon: float, feature_index: int,
) -> XlaOp:  # fmt: skip
    """Append the gradients of `batch_norm_training`.

    batch_mean, batch_var: [f], as that operation returns them.
    grad_output: of the operand's shape; epsilon, feature_index and errors as for
    `batch_norm_training`.
    Returns a tuple of the gradients of the operand, of the scale and of the offset.

    Source: "BatchNormGrad" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x, grad = b.parameter(0, "f32[8,3]"), b.parameter(1, "f32[8,3]")
    >>> scale, mean, variance = (b.parameter(n, "f32[3]") for n in (2, 3, 4))
    >>> print(b.batch_norm_grad(x, scale, mean, variance, grad, 1e-5, 1).shape)
    (f32[8,3]{1,0}, f32[3]{0}, f32[3]{0})
    """
    return emit(
        builder, "batch-norm-grad", operand, scale, batch_mean, batch_var, grad_output,
        epsilon=epsilon, feature_index=feature_index,
    )  # fmt: skip
