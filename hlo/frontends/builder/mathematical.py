"""Mathematical functions of each element of an array."""

from __future__ import annotations

from hlo.errors import InferError
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.ops.attrs import ResultAccuracy
from hlo.support.signature import shown

Accuracy = ResultAccuracy | str | None
"""The error that a function may have; `default`, as None, or `highest`."""


def accuracy_of(opcode: str, wanted: Accuracy) -> ResultAccuracy | None:
    """Return the attribute that says an accuracy. Raises InferError for what is none."""
    if wanted is None or wanted == "default":
        return None
    if wanted == "highest":
        return ResultAccuracy(True)
    if not isinstance(wanted, ResultAccuracy):
        raise InferError(
            f"{opcode}: result_accuracy is {shown(wanted)}", attr="result_accuracy",
            code="bad-value", hint="default, highest, or a ResultAccuracy with tolerances",
        )  # fmt: skip
    for what in ("atol", "rtol", "ulps"):
        if not getattr(wanted, what) >= 0:  # nor is a NaN
            raise InferError(
                f"{opcode}: result_accuracy has {what} {getattr(wanted, what)}, at least 0 is "
                "needed", attr="result_accuracy", code="bad-value",
            )  # fmt: skip
    return wanted


@operation
def acos(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the arc cosine of each element, in radians.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.acos(b.constant([1.0, 0.0]))).array.round(3)
    array([0.   , 1.571], dtype=float32)
    """
    return emit(builder, "acos", operand, result_accuracy=accuracy_of("acos", result_accuracy))


@operation
def acosh(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the inverse hyperbolic cosine of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.acosh(b.constant([1.0, 2.0]))).array.round(3)
    array([0.   , 1.317], dtype=float32)
    """
    return emit(builder, "acosh", operand, result_accuracy=accuracy_of("acosh", result_accuracy))


@operation
def asin(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the arc sine of each element, in radians.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.asin(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 1.571], dtype=float32)
    """
    return emit(builder, "asin", operand, result_accuracy=accuracy_of("asin", result_accuracy))


@operation
def asinh(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the inverse hyperbolic sine of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.asinh(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 0.881], dtype=float32)
    """
    return emit(builder, "asinh", operand, result_accuracy=accuracy_of("asinh", result_accuracy))


@operation
def atanh(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the inverse hyperbolic tangent of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.atanh(b.constant([0.0, 0.5]))).array.round(3)
    array([0.   , 0.549], dtype=float32)
    """
    return emit(builder, "atanh", operand, result_accuracy=accuracy_of("atanh", result_accuracy))


@operation
def cbrt(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the cube root of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.cbrt(b.constant([8.0, -27.0]))).array.round(3)
    array([ 2., -3.], dtype=float32)
    """
    return emit(builder, "cbrt", operand, result_accuracy=accuracy_of("cbrt", result_accuracy))


@operation
def cos(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the cosine of each element, in radians.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.cos(b.constant([0.0, 1.0]))).array.round(3)
    array([1.  , 0.54], dtype=float32)
    """
    return emit(builder, "cosine", operand, result_accuracy=accuracy_of("cosine", result_accuracy))


@operation
def cosh(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the hyperbolic cosine of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.cosh(b.constant([0.0, 1.0]))).array.round(3)
    array([1.   , 1.543], dtype=float32)
    """
    return emit(builder, "cosh", operand, result_accuracy=accuracy_of("cosh", result_accuracy))


@operation
def erf(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the error function of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.erf(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 0.843], dtype=float32)
    """
    return emit(builder, "erf", operand, result_accuracy=accuracy_of("erf", result_accuracy))


@operation
def exp(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append e to the power of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.exp(b.constant([0.0, 1.0]))).array.round(3)
    array([1.   , 2.718], dtype=float32)
    """
    return emit(
        builder, "exponential", operand, result_accuracy=accuracy_of("exponential", result_accuracy)
    )


@operation
def exp2(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append 2 to the power of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.exp2(b.constant([0.0, 3.0]))).array.round(3)
    array([1., 8.], dtype=float32)
    """
    return emit(builder, "exp2", operand, result_accuracy=accuracy_of("exp2", result_accuracy))


@operation
def expm1(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append e to the power of each element, less 1, also near 0.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.expm1(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 1.718], dtype=float32)
    """
    return emit(
        builder,
        "exponential-minus-one",
        operand,
        result_accuracy=accuracy_of("exponential-minus-one", result_accuracy),
    )


@operation
def log(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the natural logarithm of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.log(b.constant([1.0, 2.0]))).array.round(3)
    array([0.   , 0.693], dtype=float32)
    """
    return emit(builder, "log", operand, result_accuracy=accuracy_of("log", result_accuracy))


@operation
def log2(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the binary logarithm of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.log2(b.constant([1.0, 8.0]))).array.round(3)
    array([0., 3.], dtype=float32)
    """
    return emit(builder, "log2", operand, result_accuracy=accuracy_of("log2", result_accuracy))


@operation
def log1p(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the natural logarithm of 1 and each element, also near 0.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.log1p(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 0.693], dtype=float32)
    """
    return emit(
        builder,
        "log-plus-one",
        operand,
        result_accuracy=accuracy_of("log-plus-one", result_accuracy),
    )


@operation
def logistic(
    builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None
) -> XlaOp:
    """Append the logistic function of each element, 1 / (1 + exp(-x)).

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.logistic(b.constant([0.0, 1.0]))).array.round(3)
    array([0.5  , 0.731], dtype=float32)
    """
    return emit(
        builder, "logistic", operand, result_accuracy=accuracy_of("logistic", result_accuracy)
    )


@operation
def rsqrt(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append one over the square root of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.rsqrt(b.constant([1.0, 4.0]))).array.round(3)
    array([1. , 0.5], dtype=float32)
    """
    return emit(builder, "rsqrt", operand, result_accuracy=accuracy_of("rsqrt", result_accuracy))


@operation
def sin(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the sine of each element, in radians.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.sin(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 0.841], dtype=float32)
    """
    return emit(builder, "sine", operand, result_accuracy=accuracy_of("sine", result_accuracy))


@operation
def sinh(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the hyperbolic sine of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.sinh(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 1.175], dtype=float32)
    """
    return emit(builder, "sinh", operand, result_accuracy=accuracy_of("sinh", result_accuracy))


@operation
def sqrt(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the square root of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.sqrt(b.constant([4.0, 9.0]))).array.round(3)
    array([2., 3.], dtype=float32)
    """
    return emit(builder, "sqrt", operand, result_accuracy=accuracy_of("sqrt", result_accuracy))


@operation
def tan(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the tangent of each element, in radians.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.tan(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 1.557], dtype=float32)
    """
    return emit(builder, "tan", operand, result_accuracy=accuracy_of("tan", result_accuracy))


@operation
def tanh(builder: BuilderCore[XlaOp], operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
    """Append the hyperbolic tangent of each element.

    operand: floats or complex numbers, of any dimensions, which the result has too.
    result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances. Raises HloError for
    other types. Source: "Element-wise unary functions" (004, 000, 002), under its own name (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.tanh(b.constant([0.0, 1.0]))).array.round(3)
    array([0.   , 0.762], dtype=float32)
    """
    return emit(builder, "tanh", operand, result_accuracy=accuracy_of("tanh", result_accuracy))
