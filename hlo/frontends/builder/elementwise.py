"""Elementwise operations of other kinds: selection, conversion, and the names of old documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder import binary, mathematical, tuples, unary
from hlo.frontends.builder.broadcasting import spread
from hlo.frontends.builder.coercion import TypeLike, type_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation, value_of
from hlo.values.types import F32, compatible

# --- selection -------------------------------------------------------------------------


@operation
def clamp(builder: BuilderCore[XlaOp], min_: Any, operand: XlaOp, max_: Any) -> XlaOp:
    """Append `clamp`; the bounds are numbers, scalars, or arrays of the operand's shape.

    That is `min(max(min_, operand), max_)`, of the operand's shape.

    Raises HloError for bounds of another shape or type. Source: "Clamp" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.clamp(0, b.constant([-5, 3, 12]), 10)).array
    array([ 0,  3, 10], dtype=int32)
    """
    return emit(
        builder,
        "clamp",
        value_of(builder, min_, operand),
        operand,
        value_of(builder, max_, operand),
    )


@operation
def select(builder: BuilderCore[XlaOp], pred: XlaOp, on_true: Any, on_false: Any) -> XlaOp:
    """Append `select`: elements of `on_true` where `pred` is true, else of `on_false`.

    pred: an array of the dimensions of the others, or a scalar, which chooses the whole. With a
    scalar, the others may be tuples of one shape. One of the others may be a number or a
    scalar.

    Raises HloError for others. Source: "Select" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.select(b.constant([True, False]), b.constant([1, 2]), 0)).array
    array([1, 0], dtype=int32)
    """
    on_true, on_false = value_of(builder, on_true, on_false), value_of(builder, on_false, on_true)
    if not (on_true.shape.is_tuple or on_false.shape.is_tuple):
        dims = next((o.dims for o in (on_true, on_false, pred) if o.rank), ())
        on_true, on_false = (
            o if o.rank else spread(builder, "select", o, dims, ()) for o in (on_true, on_false)
        )
        return emit(builder, "select", pred, on_true, on_false)
    if not compatible(on_true.shape, on_false.shape):
        raise InferError(
            f"select: on_true has shape {on_true.shape.to_string(False)}, on_false "
            f"{on_false.shape.to_string(False)}: tuples of one shape are needed", operand=1,
        )  # fmt: skip
    if pred.rank or not pred.element_type.is_pred:
        raise InferError(
            f"select: pred has shape {pred.shape.to_string(False)}, a scalar of type pred is "
            "needed to choose between tuples", operand=0,
        )  # fmt: skip
    # Of tuples there is no operation, of their elements there is.
    pairs = zip(tuples.elements(on_true), tuples.elements(on_false), strict=True)
    parts = [select(builder, pred, t, f) for t, f in pairs]
    return emit(builder, "tuple", *parts)


# --- conversion -----------------------------------------------------------------------------


@operation
def convert_element_type(
    builder: BuilderCore[XlaOp], operand: XlaOp, new_element_type: TypeLike
) -> XlaOp:
    """Append the conversion of each element to another type.

    new_element_type: by name, or as a numpy dtype. Floats become integers by cutting off,
    within the type's limits, and NaN becomes 0; numbers become floats by rounding to the
    nearest, ties to even.

    Raises HloError for a tuple. Source: "ConvertElementType" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.convert_element_type(b.constant([1.7, -1.7]), "s32")).array
    array([ 1, -1], dtype=int32)
    """
    return emit(builder, "convert", operand, element_type=type_of(new_element_type))


@operation
def bitcast_convert_type(
    builder: BuilderCore[XlaOp], operand: XlaOp, new_element_type: TypeLike
) -> XlaOp:
    """Append the bits of an array as elements of another type.

    new_element_type: by name, or as a numpy dtype, of real numbers as the operand or of complex
    ones. A narrower type adds a last dimension, a wider one takes it away.

    Raises HloError where that has another size than fits. Source: "BitcastConvertType" (000,
    002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.bitcast_convert_type(b.constant([1.0, -2.0]), "s32")).array
    array([ 1065353216, -1073741824], dtype=int32)
    """
    return emit(builder, "bitcast-convert", operand, element_type=type_of(new_element_type))


@operation
def reduce_precision(
    builder: BuilderCore[XlaOp], operand: XlaOp, exponent_bits: int, mantissa_bits: int
) -> XlaOp:
    """Append the effect of a conversion to a narrower floating-point format and back.

    exponent_bits: from 1 on.
    mantissa_bits: from 0 on. Rounds to the nearest, ties to even; what is too large becomes
    infinite.

    Raises HloError for others. Source: "ReducePrecision" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.reduce_precision(b.constant([1.1, 3.3]), 5, 2)).array
    array([1. , 3.5], dtype=float32)
    """
    return emit(
        builder,
        "reduce-precision",
        operand,
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
    )


@operation
def stochastic_convert(
    builder: BuilderCore[XlaOp], operand: XlaOp, random: XlaOp, new_element_type: TypeLike
) -> XlaOp:
    """Append the conversion of each element that rounds up or down by random bits.

    random: unsigned integers of the operand's shape and width. new_element_type: narrower.

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.stochastic_convert(b.constant([1.5]), b.constant([0], "u32"), "s32")
    >>> b.compute_constant(y).array
    array([2], dtype=int32)
    """
    return emit(
        builder, "stochastic-convert", operand, random, element_type=type_of(new_element_type)
    )


# --- names of the first documents


@operation
def logical_and(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append `and` of two arrays, which broadcast together; of integers bit by bit.

    Raises HloError for floats. Source: "Element-wise binary arithmetic operations" (000, 002).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.logical_and(b.constant([True, True]), b.constant([True, False]))).array
    array([ True, False])
    """
    return binary.and_(builder, lhs, rhs, broadcast_dimensions)


@operation
def logical_or(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append `or` of two arrays, which broadcast together; of integers bit by bit.

    Raises HloError for floats. Source: "Element-wise binary arithmetic operations" (000, 002).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.logical_or(b.constant([False, False]), b.constant([True, False]))
    >>> b.compute_constant(y).array
    array([ True, False])
    """
    return binary.or_(builder, lhs, rhs, broadcast_dimensions)


@operation
def logical_not(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append `not` of each element; of integers bit by bit.

    Raises HloError for floats. Source: "Element-wise unary functions" (000, 002).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.logical_not(b.constant([True, False]))).array
    array([False,  True])
    """
    return unary.not_(builder, operand)


@operation
def sqrt_f32(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the square root of each element of an f32 array.

    Raises HloError for any other type. Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.sqrt_f32(b.constant([4.0, 9.0]))).array
    array([2., 3.], dtype=float32)
    """
    return mathematical.sqrt(builder, _f32("sqrt_f32", operand))


@operation
def square_f32(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the square of each element of an f32 array.

    Raises HloError for any other type. Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.square_f32(b.constant([2.0, 3.0]))).array
    array([4., 9.], dtype=float32)
    """
    _f32("square_f32", operand)
    return binary.mul(builder, operand, operand)


@operation
def reciprocal_f32(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the reciprocal of each element of an f32 array.

    Raises HloError for any other type. Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.reciprocal_f32(b.constant([2.0, 4.0]))).array
    array([0.5 , 0.25], dtype=float32)
    """
    return binary.div(builder, 1.0, _f32("reciprocal_f32", operand))


def _f32(name: str, operand: XlaOp) -> XlaOp:
    if operand.element_type is not F32:
        raise InferError(
            f"{name}: operand 0 has element type {operand.element_type}, f32 is needed",
            operand=0, code="type-mismatch",
        )  # fmt: skip
    return operand
