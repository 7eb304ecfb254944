"""Constants that are tuples, as tuples of constants."""

from __future__ import annotations

from hlo.expansions import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.literal import Literal
from hlo.types import TokenShape, TupleShape


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
    return d.done(value(inst.attrs["literal"].with_shape(inst.shape)))
