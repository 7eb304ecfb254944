"""The handle of a value in a program under construction, with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from hlo.errors import HloError, InferError
from hlo.frontends.builder.place import Unnamed, call_site, error_here
from hlo.ir import Instruction
from hlo.values.types import ArrayShape, ElementType, Shape, TupleShape

if TYPE_CHECKING:
    from hlo.frontends.builder.builder import XlaBuilder


class XlaOp:
    """A value of the program that a builder builds: an operation, not a number.

    Operators append operations: `x + 1`, `-x`, `x < y` (a pred array), `x @ y` (dot), `x[1:3]`
    (slice), and on a tuple `t[0]` or `a, b = t`. A number on one side becomes a constant of the
    other side's element type, and so does a numpy array.

    >>> x = hlo.XlaBuilder("m").parameter(0, "f32[2,3]")
    >>> x.dims, (x > 0).shape, x[:, 1:].shape
    ((2, 3), <ArrayShape pred[2,3]{1,0}>, <ArrayShape f32[2,2]{1,0}>)
    """

    __slots__ = ("_error", "_instruction", "builder")
    # An array on the left of an operator is one operand; numpy would take it element by element.
    __array_ufunc__ = None

    def __init__(
        self, builder: XlaBuilder, instruction: Instruction | None, error: HloError | None = None
    ) -> None:
        self.builder = builder
        self._instruction = instruction
        # What went wrong, where a builder defers errors and there is no instruction.
        self._error = error

    @property
    def instruction(self) -> Instruction:
        """The instruction behind the handle. Raises the HloError that kept it from being made."""
        if self._instruction is None:
            assert self._error is not None
            raise self._error
        return self._instruction

    @property
    def shape(self) -> Shape:
        """The shape of the value, inferred when it was appended."""
        return self.instruction.shape

    @property
    def array_shape(self) -> ArrayShape:
        """The shape of a value that has to be an array. Raises HloError for anything else."""
        shape = self.shape
        if not isinstance(shape, ArrayShape):
            raise self._error_of_type("an array")
        return shape

    @property
    def element_type(self) -> ElementType:
        """The element type of an array."""
        return self.array_shape.element_type

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of an array's dimensions; of a dynamic one its bound."""
        return self.array_shape.dims

    @property
    def rank(self) -> int:
        """The number of dimensions of an array."""
        return self.array_shape.rank

    def _error_of_type(self, needed: str) -> Unnamed:
        inst = self.instruction
        message = f"{inst.name} has shape {inst.shape.to_string(False)}, {needed} is needed"
        return Unnamed.at("type-mismatch", message, call_site())

    def __repr__(self) -> str:
        if self._instruction is None:
            return "<XlaOp in error>"
        return f"<XlaOp {self._instruction.name}: {self._instruction.shape.to_string(False)}>"

    # --- arithmetic -----------------------------------------------------------------------------

    def __add__(self, other: Any) -> XlaOp:
        return self.builder.add(self, other)

    def __radd__(self, other: Any) -> XlaOp:
        return self.builder.add(other, self)

    def __sub__(self, other: Any) -> XlaOp:
        return self.builder.sub(self, other)

    def __rsub__(self, other: Any) -> XlaOp:
        return self.builder.sub(other, self)

    def __mul__(self, other: Any) -> XlaOp:
        return self.builder.mul(self, other)

    def __rmul__(self, other: Any) -> XlaOp:
        return self.builder.mul(other, self)

    def __truediv__(self, other: Any) -> XlaOp:
        return self.builder.div(self, other)

    def __rtruediv__(self, other: Any) -> XlaOp:
        return self.builder.div(other, self)

    def __mod__(self, other: Any) -> XlaOp:
        """The remainder with the sign of the left side, as `rem` has it, not Python's."""
        return self.builder.rem(self, other)

    def __rmod__(self, other: Any) -> XlaOp:
        return self.builder.rem(other, self)

    def __pow__(self, other: Any) -> XlaOp:
        return self.builder.pow_(self, other)

    def __rpow__(self, other: Any) -> XlaOp:
        return self.builder.pow_(other, self)

    def __matmul__(self, other: Any) -> XlaOp:
        return self.builder.dot(self, other)

    def __rmatmul__(self, other: Any) -> XlaOp:
        return self.builder.dot(other, self)

    def __neg__(self) -> XlaOp:
        return self.builder.neg(self)

    def __abs__(self) -> XlaOp:
        return self.builder.abs_(self)

    # --- bits and truth -------------------------------------------------------------------------

    def __invert__(self) -> XlaOp:
        return self.builder.not_(self)

    def __and__(self, other: Any) -> XlaOp:
        return self.builder.and_(self, other)

    def __rand__(self, other: Any) -> XlaOp:
        return self.builder.and_(other, self)

    def __or__(self, other: Any) -> XlaOp:
        return self.builder.or_(self, other)

    def __ror__(self, other: Any) -> XlaOp:
        return self.builder.or_(other, self)

    def __xor__(self, other: Any) -> XlaOp:
        return self.builder.xor(self, other)

    def __rxor__(self, other: Any) -> XlaOp:
        return self.builder.xor(other, self)

    def __lshift__(self, other: Any) -> XlaOp:
        return self.builder.shift_left(self, other)

    def __rlshift__(self, other: Any) -> XlaOp:
        return self.builder.shift_left(other, self)

    def __rshift__(self, other: Any) -> XlaOp:
        """Shift right: with copies of the sign for a signed type, with zeros for an unsigned."""
        return self._shift_right()(self, other)

    def __rrshift__(self, other: Any) -> XlaOp:
        return self._shift_right()(other, self)

    def _shift_right(self) -> Callable[..., XlaOp]:
        # What is no array is left to the method, whose error may have to wait for `build`.
        shape = self._instruction and self._instruction.shape
        if isinstance(shape, ArrayShape) and not shape.element_type.is_signed:
            return self.builder.shift_right_logical
        return self.builder.shift_right_arithmetic

    def __eq__(self, other: Any) -> XlaOp:  # type: ignore[override]
        return self.builder.eq(self, other)

    def __ne__(self, other: Any) -> XlaOp:  # type: ignore[override]
        return self.builder.ne(self, other)

    def __lt__(self, other: Any) -> XlaOp:
        return self.builder.lt(self, other)

    def __le__(self, other: Any) -> XlaOp:
        return self.builder.le(self, other)

    def __gt__(self, other: Any) -> XlaOp:
        return self.builder.gt(self, other)

    def __ge__(self, other: Any) -> XlaOp:
        return self.builder.ge(self, other)

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise error_here(
            InferError(
                f"{self!r} has no value until the program runs",
                code="bad-value",
                hint="use select, conditional or while_ for control flow that depends on a value",
            )
        )

    # --- parts ----------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> XlaOp:
        """Return an element of a tuple, or a part of an array as Python slices it."""
        if self._instruction is not None and self.shape.is_tuple:
            return self.builder.get_tuple_element(self, index)
        return self.builder.index(self, index)

    def __len__(self) -> int:
        shape = self.shape
        if not isinstance(shape, TupleShape):
            raise self._error_of_type("a tuple")
        return len(shape.elements)

    def __iter__(self) -> Iterator[XlaOp]:
        return (self.builder.get_tuple_element(self, i) for i in range(len(self)))
