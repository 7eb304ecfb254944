"""Which element types sums of products take and give."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.types import ArrayShape, ElementType

CONTRACTIONS = frozenset({"dot", "ragged-dot", "convolution"})


def has_values_of(wide: ElementType, narrow: ElementType) -> bool:
    """True when a conversion to `wide` keeps every value of another type of the same kind."""
    if narrow.is_integer and wide.is_integer:
        room = wide.bits - wide.is_signed - narrow.bits + narrow.is_signed
        return room > 0 and (wide.is_signed or not narrow.is_signed)
    if not (narrow.is_float and wide.is_float):
        return False
    # f16 and bf16 have values that the other has not; f32 has those of all narrower ones.
    return wide.bits > narrow.bits and wide.bits >= 32


def factor_types(inst: Instruction) -> list[ElementType]:
    """Return the element types of what a contraction multiplies."""
    return [s.element_type for s in inst.operand_shapes[:2] if isinstance(s, ArrayShape)]


def result_type(inst: Instruction) -> ElementType:
    return inst.array_shape.element_type
