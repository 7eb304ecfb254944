"""Appends instructions to a computation, with shapes inferred by the op table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ir.computation import Computation
from hlo.ir.instruction import Instruction
from hlo.values.layout.bitcasts import layout_after_reshape, layout_of, reshape_is_bitcast
from hlo.values.literal import Literal
from hlo.values.types import (
    HOST_MEMORY_SPACE,
    PRED,
    TOKEN,
    ArrayShape,
    BufferShape,
    ElementType,
    Layout,
    Shape,
    TupleShape,
    array,
)


class Builder:
    """Appends to `comp`. New instructions have the metadata and source location of `like`.

    built: the appended instructions, in order.
    """

    def __init__(self, comp: Computation, like: Instruction | None = None) -> None:
        self.comp = comp
        self.like = like
        self.built: list[Instruction] = []

    def op(
        self, opcode: str, *operands: Instruction, shape: Shape | None = None, **attrs: Any
    ) -> Instruction:
        """Append an operation. Its shape is inferred by the op table unless given.

        Raises InferError when the operands do not fit the operation.
        """
        inst = Instruction(opcode, opcode, shape or TOKEN, operands, attrs)
        if shape is None:
            try:
                inst.shape = inst.spec.infer(inst)
            except BaseException:
                inst.drop_edges()
                raise
        return self._add(inst)

    def copy(self, inst: Instruction, operands: Sequence[Instruction]) -> Instruction:
        """Append a copy of an instruction on other operands. It calls the same computations."""
        return self._add(inst.clone(operands))

    def parameter(self, number: int, shape: Shape, name: str) -> Instruction:
        """Append a parameter."""
        return self._add(Instruction(name, "parameter", shape, (), {"number": number}))

    def _add(self, inst: Instruction) -> Instruction:
        like = self.like
        if like is not None:
            inst.span = like.span
            if "metadata" in like.annotations:
                inst.annotations["metadata"] = like.annotations["metadata"]
        self.built.append(inst)
        return self.comp.add(inst)

    def literal(self, literal: Literal) -> Instruction:
        """Append a constant."""
        return self.op("constant", shape=literal.shape, literal=literal)

    def constant(self, et: ElementType, value: Any) -> Instruction:
        """Append a constant of a type with the dimensions of `value`, a number or an array."""
        return self.literal(Literal.of(np.asarray(value).astype(et.dtype)))

    def zero(self, et: ElementType) -> Instruction:
        """Append the scalar of which all bits are zero; not all types have the number."""
        return self.constant(et, np.zeros((), f"V{et.byte_width}").view(et.dtype))

    def zeros(self, shape: Shape) -> Instruction:
        """Append a value of a shape in which everything is zero."""
        if isinstance(shape, BufferShape):
            shape = shape.element
        if isinstance(shape, TupleShape):
            return self.op("tuple", *(self.zeros(s) for s in shape.elements))
        if isinstance(shape, ArrayShape):
            zero = self.zero(shape.element_type)
            return self.broadcast(zero, shape)
        if shape.is_token:
            return self.op("after-all", shape=TOKEN)
        what = f"{self.like.opcode}: " if self.like is not None else ""
        raise InferError(f"{what}there is no value of {shape}", code="bad-value")

    def filled(self, et: ElementType, dims: Sequence[int], value: Any) -> Instruction:
        """Append an array filled with one number."""
        return self.broadcast(self.constant(et, value), array(et, dims))

    def broadcast(self, scalar: Instruction, like: ArrayShape) -> Instruction:
        """Append a broadcast of a scalar; for rank 0 the scalar itself.

        like: has the dimensions and the layout; the type is the scalar's.
        """
        if not like.dims:
            return scalar
        shape = like.with_type(scalar.array_shape.element_type)
        return self.op("broadcast", scalar, shape=shape, dimensions=())

    def convert(self, value: Instruction, et: ElementType) -> Instruction:
        """Append a conversion, if one is needed."""
        shape = value.array_shape
        if shape.element_type is et:
            return value
        return self.op("convert", value, shape=shape.with_type(et))

    def reshape(self, value: Instruction, dims: Sequence[int]) -> Instruction:
        """Append a reshape to static dimensions, if one is needed; a bitcast if possible."""
        shape = value.array_shape
        if shape.dims == tuple(dims) and not shape.is_dynamic:
            return value
        result = array(shape.element_type, dims)
        if not shape.is_dynamic and not reshape_is_bitcast(shape, result):
            layout = layout_after_reshape(shape, result)
            result = result.with_layout(layout or result.layout)
        return self.op("reshape", value, shape=result)

    def relaid(self, value: Instruction, shape: Shape) -> Instruction:
        """Return a value in the layouts of a shape, with copies where they differ."""
        if value.shape == shape:
            return value
        if isinstance(shape, ArrayShape):
            arrived = _as_it_arrives(value.array_shape, layout_of(shape))
            if arrived not in (value.shape, shape):
                value = self.op("copy", value, shape=arrived)
            return self.op("copy", value, shape=shape)
        if isinstance(shape, TupleShape):
            parts = (self.relaid(self.element(value, n), s) for n, s in enumerate(shape.elements))
            return self.tuple(*parts)
        return value

    def compare(self, x: Instruction, y: Instruction, direction: str) -> Instruction:
        """Append a comparison in the layout of `x`, by the default order of the element type."""
        return self.op("compare", x, y, shape=x.array_shape.with_type(PRED), direction=direction)

    def element(self, value: Instruction, index: int) -> Instruction:
        """Return an element of a tuple; of a `tuple` instruction, its operand."""
        if value.opcode == "tuple":
            return value.operands[index]
        return self.op("get-tuple-element", value, index=index)

    def tuple(self, *elements: Instruction) -> Instruction:
        return self.op("tuple", *elements)


def _as_it_arrives(shape: ArrayShape, layout: Layout) -> ArrayShape:
    """Return the layout in which an array comes out of host memory: unchanged."""
    old = layout_of(shape)
    if old.memory_space != HOST_MEMORY_SPACE or layout.memory_space == HOST_MEMORY_SPACE:
        return shape
    return shape.with_layout(replace(old, memory_space=layout.memory_space))


def build_computation(
    name: str,
    shapes: Sequence[Shape],
    body: Callable[..., Instruction],
    like: Instruction | None = None,
) -> Computation:
    """Return a new computation without a module.

    body: takes a `Builder` and one parameter for each of `shapes`, and returns the root.
    """
    comp = Computation(name)
    b = Builder(comp, like)
    parameters = [b.parameter(n, shape, f"p{n}") for n, shape in enumerate(shapes)]
    comp.set_root(body(b, *parameters))
    return comp


def build_reducer(
    opcode: str, et: ElementType, like: Instruction | None = None, name: str = ""
) -> Computation:
    """Return a new computation that applies a binary operation to two scalars of a type.

    name: the computation's; by default the opcode.
    """
    scalar = array(et, ())
    return build_computation(
        name or opcode, [scalar, scalar], lambda b, x, y: b.op(opcode, x, y), like
    )
