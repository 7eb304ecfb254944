"""Operations on each element of an array: signs, rounding, bits, parts of complex numbers."""

from __future__ import annotations

from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation


@operation
def abs_(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the absolute value of each element; of a complex number a real one.

    operand: signed integers, floats or complex numbers, of any dimensions, which the result has
    too. Raises HloError for other types. Source: "Element-wise unary functions" (004, 000, 002),
    under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.abs_(b.constant([-2, 3]))).array
    array([2, 3], dtype=int32)
    """
    return emit(builder, "abs", operand)


@operation
def ceil(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element rounded up to an integer.

    operand: floats, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.ceil(b.constant([1.5, -1.5]))).array
    array([ 2., -1.], dtype=float32)
    """
    return emit(builder, "ceil", operand)


@operation
def clz(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append how many zeros each element has in front of its first 1 in binary.

    operand: integers, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.clz(b.constant([1, 255]))).array
    array([31, 24], dtype=int32)
    """
    return emit(builder, "count-leading-zeros", operand)


@operation
def floor(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element rounded down to an integer.

    operand: floats, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.floor(b.constant([1.5, -1.5]))).array
    array([ 1., -2.], dtype=float32)
    """
    return emit(builder, "floor", operand)


@operation
def is_finite(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append whether each element is neither infinite nor NaN: a pred array.

    operand: floats, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.is_finite(b.constant([1.0, np.inf, np.nan]))).array
    array([ True, False, False])
    """
    return emit(builder, "is-finite", operand)


@operation
def neg(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element with the opposite sign.

    operand: numbers, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.neg(b.constant([1.5, -2.0]))).array
    array([-1.5,  2. ], dtype=float32)
    """
    return emit(builder, "negate", operand)


@operation
def not_(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element inverted: of pred its opposite, of integers every bit.

    operand: pred or integers, of any dimensions, which the result has too. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.not_(b.constant([0, 5]))).array
    array([-1, -6], dtype=int32)
    """
    return emit(builder, "not", operand)


@operation
def population_count(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append how many ones each element has in binary.

    operand: integers, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.population_count(b.constant([7, 256]))).array
    array([3, 1], dtype=int32)
    """
    return emit(builder, "popcnt", operand)


@operation
def round_(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element rounded to the nearest integer, ties away from zero.

    operand: floats, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.round_(b.constant([0.5, -1.5]))).array
    array([ 1., -2.], dtype=float32)
    """
    return emit(builder, "round-nearest-afz", operand)


@operation
def round_nearest_afz(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element rounded to the nearest integer, ties away from zero.

    operand: floats, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.round_nearest_afz(b.constant([2.5, -2.5]))).array
    array([ 3., -3.], dtype=float32)
    """
    return emit(builder, "round-nearest-afz", operand)


@operation
def round_nearest_even(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append each element rounded to the nearest integer, ties to even ones.

    operand: floats, of any dimensions, which the result has too. Raises HloError for other types.
    Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.round_nearest_even(b.constant([0.5, 1.5]))).array
    array([0., 2.], dtype=float32)
    """
    return emit(builder, "round-nearest-even", operand)


@operation
def sign(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the sign of each element: -1, 0 or 1; of a complex z, `z / abs(z)`.

    operand: signed integers, floats or complex numbers, of any dimensions, which the result has
    too. Raises HloError for other types. Source: "Element-wise unary functions" (004, 000, 002),
    under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.sign(b.constant([-2.5, 0.0, 4.0]))).array
    array([-1.,  0.,  1.], dtype=float32)
    """
    return emit(builder, "sign", operand)


@operation
def real(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the real part of each element; of a real number the number.

    Raises HloError for integers. Source: "Element-wise unary functions" (002), "Real" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.real(b.constant([1 + 2j]))).array
    array([1.], dtype=float32)
    """
    return emit(builder, "real", operand)


@operation
def imag(builder: BuilderCore[XlaOp], operand: XlaOp) -> XlaOp:
    """Append the imaginary part of each element; of a real number 0.

    Raises HloError for integers. Source: "Element-wise unary functions" (002), "Imag" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.imag(b.constant([1 + 2j]))).array
    array([2.], dtype=float32)
    """
    return emit(builder, "imag", operand)
