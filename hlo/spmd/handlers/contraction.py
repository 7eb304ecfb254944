"""dot: partial products are added up."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import Partial, by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.value import Value
from hlo.values.types import PRED, ArrayShape


def sums(inst: Instruction) -> Partial:
    """Return how partial sums of products make the whole; of pred, a sum is a disjunction."""
    assert isinstance(inst.shape, ArrayShape)
    return Partial.by("or" if inst.shape.element_type is PRED else "add", 0)


@handles("dot")
def _dot(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    return by_factors(b, inst, operands, wanted, sums(inst))
