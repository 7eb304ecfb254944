"""Elementwise operations, with implicit broadcasting of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder.broadcasting import Broadcasting
from hlo.frontends.builder.core import operation
from hlo.frontends.builder.meanings import TypeLike, type_of
from hlo.frontends.builder.op import XlaOp
from hlo.ops.elementwise.arithmetic import ResultAccuracy
from hlo.support.signature import shown
from hlo.values.types import F32, compatible

Accuracy = ResultAccuracy | str | None
"""The error that a function may have; `default`, as None, or `highest`."""


def _accuracy(opcode: str, wanted: Accuracy) -> ResultAccuracy | None:
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


def _unary(opcode: str) -> Callable[[Any, XlaOp], XlaOp]:
    """Return the method of an operation on one array."""

    @operation
    def method(self: Elementwise, operand: XlaOp) -> XlaOp:
        return self._emit(opcode, operand)

    return _documented(method, f"Append `{opcode}` of each element.", _ARRAY, _UNARY)


def _accurate(opcode: str) -> Callable[..., XlaOp]:
    """Return the method of a function that can be had in several accuracies."""

    @operation
    def method(self: Elementwise, operand: XlaOp, result_accuracy: Accuracy = None) -> XlaOp:
        return self._emit(opcode, operand, result_accuracy=_accuracy(opcode, result_accuracy))

    what = _ARRAY + "result_accuracy: `default`, `highest`, or a ResultAccuracy with tolerances.\n"
    return _documented(method, f"Append `{opcode}` of each element.", what, _UNARY)


def _binary(opcode: str) -> Callable[..., XlaOp]:
    """Return the method of an operation on two arrays that broadcast together."""

    @operation
    def method(
        self: Elementwise, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
    ) -> XlaOp:
        return self._emit(opcode, *self._broadcast(opcode, lhs, rhs, broadcast_dimensions))

    first = f"Append `{opcode}` of two arrays, which broadcast together."
    return _documented(method, first, _ARRAYS, _BINARY)


def _comparison(direction: str, *, total_order: bool = False) -> Callable[..., XlaOp]:
    """Return the method of a comparison of two arrays that broadcast together."""

    @operation
    def method(
        self: Elementwise, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
    ) -> XlaOp:
        return self.compare(
            lhs, rhs, broadcast_dimensions, direction=direction, total_order=total_order
        )

    kind = "by total order" if total_order else "as IEEE 754 has it"
    first = f"Compare two arrays, {direction}, {kind}; the result is a pred array."
    return _documented(method, first, _ARRAYS, _COMPARISON)


_ARRAY = "operand: an array of any dimensions, which the result has too.\n"
_ARRAYS = """lhs, rhs: arrays of one element type; one may be a number or a numpy array.
broadcast_dimensions: for each dimension of the array of lower rank the dimension of the other
that it is matched to. Arrays of one rank, and scalars, need none.
The result has the larger of two sizes that meet, one of which is 1 if they differ.
"""
_UNARY = """Raises HloError for an element type that the operation does not take. Source:
"Element-wise unary functions" (004, 000, 002), under its own name (003)."""
_BINARY = """Raises HloError for an element type that the operation does not take, and for sizes
that do not meet. Source: "Element-wise binary arithmetic operations" (004, 000, 002), under its own
name (003), and "Broadcasting semantics" (004)."""
_COMPARISON = _BINARY.replace("binary arithmetic", "comparison")


def _documented(
    method: Callable[..., XlaOp], first: str, arguments: str, rest: str
) -> Callable[..., XlaOp]:
    method.__doc__ = f"{first}\n\n{arguments}\n{rest}"
    return method


class Elementwise(Broadcasting):
    """Operations on each element by itself.

    Those on two arrays take numbers in place of one operand, and `broadcast_dimensions`: for each
    dimension of the array of lower rank the dimension of the other that it is matched to.
    """

    abs_ = _unary("abs")
    ceil = _unary("ceil")
    clz = _unary("count-leading-zeros")
    floor = _unary("floor")
    is_finite = _unary("is-finite")
    neg = _unary("negate")
    not_ = _unary("not")
    population_count = _unary("popcnt")
    round_ = _unary("round-nearest-afz")
    round_nearest_afz = _unary("round-nearest-afz")
    round_nearest_even = _unary("round-nearest-even")
    sign = _unary("sign")

    acos = _accurate("acos")
    acosh = _accurate("acosh")
    asin = _accurate("asin")
    asinh = _accurate("asinh")
    atanh = _accurate("atanh")
    cbrt = _accurate("cbrt")
    cos = _accurate("cosine")
    cosh = _accurate("cosh")
    erf = _accurate("erf")
    exp = _accurate("exponential")
    exp2 = _accurate("exp2")
    expm1 = _accurate("exponential-minus-one")
    log = _accurate("log")
    log2 = _accurate("log2")
    log1p = _accurate("log-plus-one")
    logistic = _accurate("logistic")
    rsqrt = _accurate("rsqrt")
    sin = _accurate("sine")
    sinh = _accurate("sinh")
    sqrt = _accurate("sqrt")
    tan = _accurate("tan")
    tanh = _accurate("tanh")

    add = _binary("add")
    and_ = _binary("and")
    atan2 = _binary("atan2")
    complex_ = _binary("complex")
    div = _binary("divide")
    max_ = _binary("maximum")
    min_ = _binary("minimum")
    mul = _binary("multiply")
    mulhi = _binary("mulhi")
    or_ = _binary("or")
    pow_ = _binary("power")
    rem = _binary("remainder")
    shift_left = _binary("shift-left")
    shift_right_arithmetic = _binary("shift-right-arithmetic")
    shift_right_logical = _binary("shift-right-logical")
    sub = _binary("subtract")
    xor = _binary("xor")

    eq = _comparison("EQ")
    ne = _comparison("NE")
    ge = _comparison("GE")
    gt = _comparison("GT")
    le = _comparison("LE")
    lt = _comparison("LT")
    eq_total_order = _comparison("EQ", total_order=True)
    ne_total_order = _comparison("NE", total_order=True)
    ge_total_order = _comparison("GE", total_order=True)
    gt_total_order = _comparison("GT", total_order=True)
    le_total_order = _comparison("LE", total_order=True)
    lt_total_order = _comparison("LT", total_order=True)

    @operation
    def compare(
        self, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = (), *,
        direction: str, total_order: bool = False,
    ) -> XlaOp:  # fmt: skip
        """Compare two arrays, which broadcast together. direction: EQ, NE, GE, GT, LE or LT.

        lhs, rhs, broadcast_dimensions: as for `add`.
        total_order: floats as ordered by their bits, where NaN is above all, rather than as IEEE
        754 has it.
        The result is a pred array.

        Raises HloError for others, and for complex numbers by order. Source: "Element-wise
        comparison operations" (004, 000, 002), "Compare" (003).
        """
        lhs, rhs = self._broadcast("compare", lhs, rhs, broadcast_dimensions)
        ordered = lhs.element_type.is_float or lhs.element_type.is_complex
        # The order of integers is total already.
        kind = "TOTALORDER" if total_order and ordered else None
        return self._emit("compare", lhs, rhs, direction=direction, type=kind)

    # --- parts of complex numbers ---------------------------------------------------------------

    @operation
    def real(self, operand: XlaOp) -> XlaOp:
        """Append the real part of each element; of a real number the number.

        Raises HloError for integers. Source: "Element-wise unary functions" (002), "Real" (003).
        """
        return self._emit("real", operand)

    @operation
    def imag(self, operand: XlaOp) -> XlaOp:
        """Append the imaginary part of each element; of a real number 0.

        Raises HloError for integers. Source: "Element-wise unary functions" (002), "Imag" (003).
        """
        return self._emit("imag", operand)

    # --- names of the first documents -----------------------------------------------------------

    @operation
    def logical_and(self, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
        """Append `and` of two arrays, which broadcast together; of integers bit by bit.

        Raises HloError for floats. Source: "Element-wise binary arithmetic operations" (000, 002).
        """
        return self.and_(lhs, rhs, broadcast_dimensions)

    @operation
    def logical_or(self, lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
        """Append `or` of two arrays, which broadcast together; of integers bit by bit.

        Raises HloError for floats. Source: "Element-wise binary arithmetic operations" (000, 002).
        """
        return self.or_(lhs, rhs, broadcast_dimensions)

    @operation
    def logical_not(self, operand: XlaOp) -> XlaOp:
        """Append `not` of each element; of integers bit by bit.

        Raises HloError for floats. Source: "Element-wise unary functions" (000, 002).
        """
        return self.not_(operand)

    @operation
    def sqrt_f32(self, operand: XlaOp) -> XlaOp:
        """Append the square root of each element of an f32 array.

        Raises HloError for any other type. Source: "C++ interface" (004).
        """
        return self.sqrt(self._f32("sqrt_f32", operand))

    @operation
    def square_f32(self, operand: XlaOp) -> XlaOp:
        """Append the square of each element of an f32 array.

        Raises HloError for any other type. Source: "C++ interface" (004).
        """
        self._f32("square_f32", operand)
        return self.mul(operand, operand)

    @operation
    def reciprocal_f32(self, operand: XlaOp) -> XlaOp:
        """Append the reciprocal of each element of an f32 array.

        Raises HloError for any other type. Source: "C++ interface" (004).
        """
        return self.div(1.0, self._f32("reciprocal_f32", operand))

    def _f32(self, name: str, operand: XlaOp) -> XlaOp:
        if operand.element_type is not F32:
            raise InferError(
                f"{name}: operand 0 has element type {operand.element_type}, f32 is needed",
                operand=0, code="type-mismatch",
            )  # fmt: skip
        return operand

    # --- three operands -------------------------------------------------------------------------

    @operation
    def clamp(self, min_: Any, operand: XlaOp, max_: Any) -> XlaOp:
        """Append `clamp`; the bounds are numbers, scalars, or arrays of the operand's shape.

        That is `min(max(min_, operand), max_)`, of the operand's shape.

        Raises HloError for bounds of another shape or type. Source: "Clamp" (004, 000, 002, 003).
        """
        return self._emit("clamp", self._value(min_, operand), operand, self._value(max_, operand))

    @operation
    def select(self, pred: XlaOp, on_true: Any, on_false: Any) -> XlaOp:
        """Append `select`: elements of `on_true` where `pred` is true, else of `on_false`.

        pred: an array of the dimensions of the others, or a scalar, which chooses the whole. With a
        scalar, the others may be tuples of one shape. One of the others may be a number or a
        scalar.

        Raises HloError for others. Source: "Select" (004, 000, 002, 003).
        """
        on_true, on_false = self._value(on_true, on_false), self._value(on_false, on_true)
        if not (on_true.shape.is_tuple or on_false.shape.is_tuple):
            dims = next((o.dims for o in (on_true, on_false, pred) if o.rank), ())
            on_true, on_false = (
                o if o.rank else self._spread("select", o, dims, ()) for o in (on_true, on_false)
            )
            return self._emit("select", pred, on_true, on_false)
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
        pairs = zip(on_true, on_false, strict=True)
        parts = [self.select(pred, t, f) for t, f in pairs]
        return self._emit("tuple", *parts)

    # --- conversion -----------------------------------------------------------------------------

    @operation
    def convert_element_type(self, operand: XlaOp, new_element_type: TypeLike) -> XlaOp:
        """Append the conversion of each element to another type.

        new_element_type: by name, or as a numpy dtype. Floats become integers by cutting off,
        within the type's limits, and NaN becomes 0; numbers become floats by rounding to the
        nearest, ties to even.

        Raises HloError for a tuple. Source: "ConvertElementType" (004, 000, 002, 003).
        """
        return self._emit("convert", operand, element_type=type_of(new_element_type))

    @operation
    def bitcast_convert_type(self, operand: XlaOp, new_element_type: TypeLike) -> XlaOp:
        """Append the bits of an array as elements of another type.

        new_element_type: by name, or as a numpy dtype, of real numbers as the operand or of complex
        ones. A narrower type adds a last dimension, a wider one takes it away.

        Raises HloError where that has another size than fits. Source: "BitcastConvertType" (000,
        002, 003).
        """
        return self._emit("bitcast-convert", operand, element_type=type_of(new_element_type))

    @operation
    def reduce_precision(self, operand: XlaOp, exponent_bits: int, mantissa_bits: int) -> XlaOp:
        """Append the effect of a conversion to a narrower floating-point format and back.

        exponent_bits: from 1 on.
        mantissa_bits: from 0 on. Rounds to the nearest, ties to even; what is too large becomes
        infinite.

        Raises HloError for others. Source: "ReducePrecision" (000, 002, 003).
        """
        return self._emit(
            "reduce-precision", operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
        )

    @operation
    def stochastic_convert(
        self, operand: XlaOp, random: XlaOp, new_element_type: TypeLike
    ) -> XlaOp:
        """Append the conversion of each element that rounds up or down by random bits.

        random: unsigned integers of the operand's shape and width. new_element_type: narrower.
        """
        return self._emit(
            "stochastic-convert", operand, random, element_type=type_of(new_element_type)
        )


for _name, _method in list(vars(Elementwise).items()):
    if getattr(_method, "__name__", "") == "method":  # made by one of the functions above
        _method.__name__, _method.__qualname__ = _name, f"Elementwise.{_name}"
