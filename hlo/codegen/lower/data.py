"""Constants and copies that are tuples, as tuples of constants and copies."""

from __future__ import annotations

from hlo.expansions import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Shape, TokenShape, TupleShape


@expansion("constant")
def _constant(inst: Instruction) -> Computation | None:
    """Each array by itself."""
    if not isinstance(inst.shape, TupleShape):
        return None
    d = Draft(inst)

    def value(literal: Literal) -> Instruction:
        if isinstance(literal.shape, TupleShape):
            return d.tuple(*map(value, literal.elements))
        return d.op("after-all") if isinstance(literal.shape, TokenShape) else d.literal(literal)

    # The constant's own shape has the layouts.
    return d.done(value(inst.literal.with_shape(inst.shape)))


@expansion("copy")
def _copy(inst: Instruction) -> Computation | None:
    """Each array by itself."""
    if not isinstance(inst.shape, TupleShape):
        return None
    d = Draft(inst)

    def copied(value: Instruction, shape: Shape) -> Instruction:
        if isinstance(shape, TupleShape):
            parts = enumerate(shape.elements)
            return d.tuple(*(copied(d.element(value, n), s) for n, s in parts))
        return d.op("copy", value, shape=shape) if isinstance(shape, ArrayShape) else value

    return d.done(copied(d.parameters[0], inst.shape))
