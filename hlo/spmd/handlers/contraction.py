"""dot: partial products are added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import Partial, by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.value import Sharded, Value
from hlo.values.types import F32, PRED, ArrayShape

# Floats of so many bits or less are added up in f32.
_NARROW = 8


def sums(inst: Instruction) -> Partial:
    """Return how partial sums of products make the whole; of pred, a sum is a disjunction."""
    assert isinstance(inst.shape, ArrayShape)
    return Partial.by("or" if inst.shape.element_type is PRED else "add", 0)


@handles("dot")
def _dot(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    et = inst.array_shape.element_type
    if not et.is_float or et.bits > _NARROW:
        return by_factors(b, inst, operands, wanted, sums(inst))
    # Partial sums of a narrow type would be rounded, and reach its largest number, one by one.
    wide = inst.clone([], shape=inst.array_shape.with_type(F32))
    rule = inst.spec.factors(inst)
    total = by_factors(b, wide, operands, wanted, sums(wide), rule)
    assert isinstance(total, Sharded)
    return replace(total, local=b.convert(total.local, et), shape=total.shape.with_type(et))
