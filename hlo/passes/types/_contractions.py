"""Element types of contractions."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ops.elementwise.casts import widens
from hlo.values.types import ArrayShape, ElementType

CONTRACTIONS = frozenset({"dot", "ragged-dot", "convolution"})


def has_values_of(wide: ElementType, narrow: ElementType) -> bool:
    """True for another type of the same kind that has every value of `narrow`."""
    same = (wide.is_integer and narrow.is_integer) or (wide.is_float and narrow.is_float)
    return same and wide is not narrow and widens(narrow, wide)


def factor_types(inst: Instruction) -> list[ElementType]:
    """Return the element types of a contraction's factors."""
    return [s.element_type for s in inst.operand_shapes[:2] if isinstance(s, ArrayShape)]
