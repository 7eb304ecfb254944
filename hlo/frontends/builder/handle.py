"""The handle of a value in a program under construction: what it is, without operators."""

from __future__ import annotations

from typing import Any, NoReturn

from hlo.errors import HloError, InferError
from hlo.frontends.builder.call_site import Unnamed, call_site, error_here
from hlo.ir import Instruction
from hlo.values.types import ArrayShape, ElementType, Shape, TupleShape


class Handle:
    """A value of the program that a builder builds: an operation, not a number.

    `XlaOp` adds the operators. These are functions of this package, which are written for any class
    of handles, so that `XlaOp` can be defined on top of them.
    """

    __slots__ = ("_error", "_instruction", "builder")

    def __init__(
        self, builder: Any, instruction: Instruction | None, error: HloError | None = None
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

    def __len__(self) -> int:
        shape = self.shape
        if not isinstance(shape, TupleShape):
            raise self._error_of_type("a tuple")
        return len(shape.elements)

    def __bool__(self) -> NoReturn:
        raise error_here(
            InferError(
                f"{self!r} has no value until the program runs",
                code="bad-value",
                hint="use select, conditional or while_ for control flow that depends on a value",
            )
        )
