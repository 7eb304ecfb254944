"""Operations on two arrays, element by element, which broadcast together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.frontends.builder.broadcasting import broadcast_together
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation


def _append(
    builder: BuilderCore[XlaOp], opcode: str, lhs: Any, rhs: Any,
    broadcast_dimensions: Sequence[int],
) -> XlaOp:  # fmt: skip
    return emit(
        builder, opcode, *broadcast_together(builder, opcode, lhs, rhs, broadcast_dimensions)
    )


@operation
def add(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the sum of two arrays, which broadcast together.

    lhs, rhs: arrays of one element type; one may be a number or a numpy array.
    broadcast_dimensions: for each dimension of the array of lower rank the dimension of the other
    that it is matched to. Arrays of one rank, and scalars, need none.
    The result has the larger of two sizes that meet, one of which is 1 if they differ.

    Raises HloError for an element type that the operation does not take, and for sizes that do not
    meet. Source: "Element-wise binary arithmetic operations" (004, 000, 002), under its own name
    (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.add(b.constant([1, 2]), 10)).array
    array([11, 12], dtype=int32)
    """
    return _append(builder, "add", lhs, rhs, broadcast_dimensions)


@operation
def and_(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append `and` of two arrays of pred, or of the bits of integers.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.and_(b.constant([12, 10]), 6)).array
    array([4, 2], dtype=int32)
    """
    return _append(builder, "and", lhs, rhs, broadcast_dimensions)


@operation
def atan2(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the angle of the point `(rhs, lhs)`, in radians from -pi to pi.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.atan2(b.constant([1.0, 0.0]), 1.0)).array.round(3)
    array([0.785, 0.   ], dtype=float32)
    """
    return _append(builder, "atan2", lhs, rhs, broadcast_dimensions)


@operation
def complex_(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append complex numbers of their real and imaginary parts, f32 or f64.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.complex_(b.constant([1.0, 2.0]), 0.5)).array
    array([1.+0.5j, 2.+0.5j], dtype=complex64)
    """
    return _append(builder, "complex", lhs, rhs, broadcast_dimensions)


@operation
def div(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the quotient of two arrays, of integers cut off towards zero.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.div(b.constant([7, -7]), 2)).array
    array([ 3, -3], dtype=int32)
    """
    return _append(builder, "divide", lhs, rhs, broadcast_dimensions)


@operation
def max_(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the larger of two elements; NaN where one is.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.max_(b.constant([1, 5]), 3)).array
    array([3, 5], dtype=int32)
    """
    return _append(builder, "maximum", lhs, rhs, broadcast_dimensions)


@operation
def min_(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the smaller of two elements; NaN where one is.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.min_(b.constant([1, 5]), 3)).array
    array([1, 3], dtype=int32)
    """
    return _append(builder, "minimum", lhs, rhs, broadcast_dimensions)


@operation
def mul(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the product of two arrays.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.mul(b.constant([2, 3]), 10)).array
    array([20, 30], dtype=int32)
    """
    return _append(builder, "multiply", lhs, rhs, broadcast_dimensions)


@operation
def mulhi(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the upper half of the product of two integers.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.mulhi(b.constant([1 << 30]), 16)).array
    array([4], dtype=int32)
    """
    return _append(builder, "mulhi", lhs, rhs, broadcast_dimensions)


@operation
def or_(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append `or` of two arrays of pred, or of the bits of integers.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.or_(b.constant([12, 10]), 1)).array
    array([13, 11], dtype=int32)
    """
    return _append(builder, "or", lhs, rhs, broadcast_dimensions)


@operation
def pow_(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the left side to the power of the right one.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.pow_(b.constant([2.0, 3.0]), 2)).array
    array([4., 9.], dtype=float32)
    """
    return _append(builder, "power", lhs, rhs, broadcast_dimensions)


@operation
def rem(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the remainder of a division, with the sign of the left side.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.rem(b.constant([7, -7]), 3)).array
    array([ 1, -1], dtype=int32)
    """
    return _append(builder, "remainder", lhs, rhs, broadcast_dimensions)


@operation
def shift_left(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the bits of integers shifted left; 0 by their width or more.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.shift_left(b.constant([1, 3]), 4)).array
    array([16, 48], dtype=int32)
    """
    return _append(builder, "shift-left", lhs, rhs, broadcast_dimensions)


@operation
def shift_right_arithmetic(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the bits of integers shifted right, with copies of the sign.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.shift_right_arithmetic(b.constant([-8, 8]), 1)).array
    array([-4,  4], dtype=int32)
    """
    return _append(builder, "shift-right-arithmetic", lhs, rhs, broadcast_dimensions)


@operation
def shift_right_logical(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the bits of integers shifted right, with zeros.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.shift_right_logical(b.constant([-8, 8]), 1)).array
    array([2147483644,          4], dtype=int32)
    """
    return _append(builder, "shift-right-logical", lhs, rhs, broadcast_dimensions)


@operation
def sub(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append the difference of two arrays.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.sub(b.constant([1, 2]), 10)).array
    array([-9, -8], dtype=int32)
    """
    return _append(builder, "subtract", lhs, rhs, broadcast_dimensions)


@operation
def xor(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append `xor` of two arrays of pred, or of the bits of integers.

    lhs, rhs, broadcast_dimensions, the result and errors as for `add`. Source: "Element-wise binary
    arithmetic operations" (004, 000, 002), under its own name (003), and "Broadcasting semantics"
    (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.xor(b.constant([12, 10]), 6)).array
    array([10, 12], dtype=int32)
    """
    return _append(builder, "xor", lhs, rhs, broadcast_dimensions)
