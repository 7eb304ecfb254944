"""Formulas on arrays in mathematical notation: each operator appends an instruction."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.values.types import F32, ElementType


class Number:
    """An array in a formula; floats are broadcast."""

    __slots__ = ("b", "inst")

    def __init__(self, b: Builder, inst: Instruction) -> None:
        self.b = b
        self.inst = inst

    @property
    def element_type(self) -> ElementType:
        return self.inst.array_shape.element_type

    def number(self, value: float) -> Number:
        """Return an array of this shape filled with one number."""
        shape = self.inst.array_shape
        constant = self.b.constant(shape.element_type, value)
        return Number(self.b, self.b.broadcast(constant, shape))

    def of(self, opcode: str, *others: Number | float) -> Number:
        """Apply an operation to this and other arrays."""
        args = [o if isinstance(o, Number) else self.number(o) for o in others]
        return Number(self.b, self.b.op(opcode, self.inst, *(a.inst for a in args)))

    def is_(self, direction: str, other: Number | float) -> Number:
        """Return a comparison, `LT` and the like, with another number."""
        other = other if isinstance(other, Number) else self.number(other)
        return Number(self.b, self.b.compare(self.inst, other.inst, direction))

    def where(self, yes: Number, no: Number) -> Number:
        """Select from two arrays: where this one is true, from the first."""
        return Number(self.b, self.b.op("select", self.inst, yes.inst, no.inst))

    def __add__(self, other: Number | float) -> Number:
        return self.of("add", other)

    def __sub__(self, other: Number | float) -> Number:
        return self.of("subtract", other)

    def __mul__(self, other: Number | float) -> Number:
        return self.of("multiply", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self.of("divide", other)

    def __rsub__(self, other: float) -> Number:
        return self.number(other) - self

    def __rmul__(self, other: float) -> Number:
        return self.number(other) * self

    def __rtruediv__(self, other: float) -> Number:
        return self.number(other) / self

    def __neg__(self) -> Number:
        return self.of("negate")

    def __abs__(self) -> Number:
        return self.of("abs")

    def __and__(self, other: Number) -> Number:
        return self.of("and", other)

    def __or__(self, other: Number) -> Number:
        return self.of("or", other)


def polynomial(x: Number, coefficients: Sequence[float]) -> Number:
    """Return a polynomial by Horner's rule. coefficients: from the highest power down."""
    first, second, *rest = coefficients
    y = x * first + second
    for c in rest:
        y = y * x + c
    return y


def chebyshev(x: Number, coefficients: Sequence[float]) -> Number:
    """Return a sum of Chebyshev polynomials of x / 2. coefficients: the highest first."""
    b0 = x.number(0)
    b1 = b2 = b0
    for c in coefficients:
        b0, b1, b2 = x * b0 - b1 + c, b0, b1
    return (b0 - b2) * 0.5


def numbers(c: Context, count: int) -> list[Number]:
    """Return the operands as f32 or f64, for which the formulas hold. Raises InferError."""
    found = []
    if len(c.operands) != count:
        raise InferError(
            f"{count} operands are needed, not {len(c.operands)}", code="operand-count"
        )
    for i in range(count):
        x = c.operand(i)
        et = x.array_shape.element_type
        if not et.is_float:
            raise InferError(f"there is none in {et}", code="type-mismatch")
        found.append(Number(c.b, x if et.byte_width >= 4 else c.b.convert(x, F32)))
    if len({x.inst.shape for x in found}) != 1:
        raise InferError("operands of one shape are needed", code="type-mismatch")
    return found


def result(c: Context, value: Number) -> Instruction:
    """Convert the value of a formula back to the element type of the operands."""
    return c.b.convert(value.inst, c.operand(0).array_shape.element_type)
