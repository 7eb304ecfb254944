"""An operation in conversion: its operands and typed attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from hlo.errors import InferError, did_you_mean
from hlo.frontends.stablehlo.constants import dense_array
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.frontends.stablehlo.fold import constant_value
from hlo.frontends.stablehlo.quantized_types import storage
from hlo.frontends.stablehlo.syntax import Block, Op
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS
from hlo.values.literal import Literal
from hlo.values.sharding.shardy import Mesh
from hlo.values.types import UNBOUNDED, ArrayShape, Shape, TupleShape, array, compatible

Values = dict[str, list[Instruction]]


class Conversion(Protocol):
    """The interface of the converter of a whole text for operations."""

    meshes: dict[str, Mesh]
    # Constants that were sizes, which attributes and shapes now contain.
    sizes: list[Instruction]

    def function(self, name: str, start: int) -> Computation:
        """Return the computation of a function; functions are converted before their callers."""

    def region(
        self, block: Block, name: str, shapes: Sequence[Shape], op: Op, outer: Values
    ) -> Computation:
        """Return the computation of a region that takes values of these shapes one by one."""

    def unpacking(
        self, block: Block, name: str, names: Sequence[str], elements: Sequence[Instruction],
        c: Context, rest: int = 0,
    ) -> Computation:  # fmt: skip
        """Return the computation of a region that takes its values in one tuple.

        A single value is not wrapped. names: of the values inside. rest: how many of the last
        values it passes through after its results.
        """

    def filled(self, literal: Literal) -> Literal:
        """Return an elided literal with values that no other one of the module has."""

    def adopt(self, comp: Computation) -> Computation:
        """Add a new computation to the module."""

    def discard(self, comp: Computation) -> None:
        """Remove a computation that is not called."""


def shape_of(op: Op) -> Shape:
    """Return the declared shape of an operation's result: a tuple for several."""
    types = op.result_types
    return types[0] if len(types) == 1 else TupleShape(tuple(types))


@dataclass(frozen=True)
class Context:
    """An operation that is being converted."""

    converter: Conversion
    b: Builder
    op: Op
    operands: list[Instruction]
    values: Values

    @property
    def shape(self) -> Shape:
        return shape_of(self.op)

    def on(self, operands: Sequence[Instruction]) -> Context:
        """Return the same operation on other operands."""
        return replace(self, operands=list(operands))

    def region(self, index: int) -> Block:
        """Return a region."""
        if index >= len(self.op.regions):
            raise InferError("a region is missing", code="bad-computation")
        return self.op.regions[index]

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute."""
        value = self.op.attrs.get(name, default)
        if value is None:
            raise InferError(f"{name} is missing", code="missing-attribute")
        return value

    def operand(self, index: int) -> Instruction:
        """Return an operand that is an array."""
        if index >= len(self.operands):
            raise InferError(f"{len(self.operands)} operands are too few", code="operand-count")
        if not isinstance(self.operands[index].shape, ArrayShape):
            raise InferError(f"operand {index} is not an array", code="type-mismatch")
        return self.operands[index]

    def constant(self, index: int) -> np.ndarray | None:
        """Return the value of an operand computed from constants, else None."""
        return constant_value(self.operand(index))

    def constants(self, index: int) -> tuple[int, ...]:
        """Return the integers of an operand that contains sizes. Raises InferError unless it is
        constant."""
        value = self.constant(index)
        if value is None or value.dtype.kind not in "iu" or value.ndim > 1:
            raise InferError(f"its operand {index} is not a constant, and HLO has no operation "
                             "whose sizes are known when it runs", code="not-constant")  # fmt: skip
        self.converter.sizes.append(self.operand(index))
        return tuple(int(n) for n in value.reshape(-1))

    def ints(self, name: str, default: Any = None) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        value = self.attr(name, default)
        if isinstance(value, Tagged) and value.type is not None:
            value = dense_array(value.text, value.type, value.start).reshape(-1).tolist()
        return integers(value, name)

    def flag(self, name: str) -> bool:
        """Return an attribute that is true or false, false where it is absent."""
        value = self.op.attrs.get(name, False)
        if not isinstance(value, bool):
            raise InferError(f"{name} is true or false, not {value!r}", code="bad-value")
        return value

    def integer(self, name: str, default: Any = None) -> int:
        """Return an attribute that is one integer."""
        value = self.attr(name, default)
        if type(value) is not int:
            raise InferError(f"{name} is an integer, not {value!r}", code="bad-value")
        return value

    def word(self, name: str, default: Any = None) -> str:
        """Return the word of an enumeration, `#stablehlo<precision HIGH>`."""
        value = self.attr(name, default)
        words = (value.text if isinstance(value, Tagged) else str(value)).split()
        return words[-1] if words else ""

    def tagged(self, name: str) -> dict[str, Any]:
        """Return the pairs inside an attribute such as `#stablehlo.gather<...>`."""
        value = self.attr(name)
        if not isinstance(value, Tagged):
            raise InferError(f"{name} is an attribute in brackets", code="bad-value")
        return value.pairs()

    def listed(self, name: str) -> list[Tagged]:
        """Return an attribute that is a list of attributes in brackets, empty where absent."""
        values = self.op.attrs.get(name, [])
        if not isinstance(values, list) or not all(isinstance(v, Tagged) for v in values):
            raise InferError(f"{name} is a list of attributes in brackets", code="bad-value")
        return values

    def make(self, opcode: str, **attrs: Any) -> Instruction:
        """Append an instruction on the operands, of the operation's declared shape."""
        spec = OPS[opcode]
        spec.check_arity(len(self.operands))
        for key, value in attrs.items():
            words = spec.attrs[key].codec.words
            if words and value is not None and value not in words:
                hint = did_you_mean(str(value), words)
                message = f"{key} is one of {', '.join(words)}, not {value!r}"
                raise InferError(message, code="bad-value", hint=hint)
        shape = self.shape if self._sized() else None
        return self.b.op(opcode, *self.operands, shape=shape, **attrs)

    def _sized(self) -> bool:
        """False if the declared result is less specific than the operands, which became static."""
        return not unbounded(self.shape) or any(unbounded(o.shape) for o in self.operands)

    def combiner(self, index: int = 0) -> Computation:
        """Return the computation of a region that combines elements of the results."""
        wanted = [array(s.element_type, ()) for s in self.op.result_types
                  if isinstance(s, ArrayShape)]  # fmt: skip
        arguments = [storage(s) for _, s in self.region(index).arguments]
        if not all(map(compatible, arguments, wanted)):
            raise InferError(
                f"its region is on {arguments[0].to_string(False)}, its result on "
                f"{wanted[0].to_string(False)}", code="type-mismatch",
            )  # fmt: skip
        return self.reducer(index)

    def reducer(self, index: int = 0) -> Computation:
        """Return the computation of a region on scalars."""
        block = self.region(index)
        shapes = [s for _, s in block.arguments]
        return self.converter.region(block, "region", shapes, self.op, self.values)


Handler = Callable[[Context], Instruction]


def unbounded(shape: Shape) -> bool:
    """True if a dimension has neither a static size nor a bound."""
    return any(isinstance(s, ArrayShape) and UNBOUNDED in s.dims for _, s in shape.leaves())


def sized(c: Context) -> ArrayShape:
    """Return the declared shape of a result whose sizes, or bounds, its type has to say."""
    shape = c.shape
    if not isinstance(shape, ArrayShape) or unbounded(shape):
        raise InferError(f"its result is {shape.to_string(False)}, and its type has to say its "
                         "sizes or their bounds", code="unbounded-dimension")  # fmt: skip
    return shape


def is_constant(inst: Instruction) -> bool:
    """True for a constant, and for the broadcast of a splat constant."""
    return inst.opcode == "constant" or (
        inst.opcode == "broadcast" and inst.operands[0].opcode == "constant"
    )


def integers(value: Any, what: str) -> tuple[int, ...]:
    """Return a list of integers. Raises InferError for anything else."""
    if not isinstance(value, list | tuple) or not all(type(v) is int for v in value):
        raise InferError(f"{what} is a list of integers, not {value!r}", code="bad-value")
    return tuple(value)
