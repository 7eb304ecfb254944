"""Contractions of wide operands with narrow results."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._contractions import (
    CONTRACTIONS,
    factor_types,
    has_values_of,
)
from hlo.passes.types._retype import Retyper


@module_pass
def result_caster(module: Module, rewrites: Rewrites) -> None:
    """Compute dots and convolutions in their operands' type, and downcast the result.

    Integers wrap the same either way; floats are rounded twice.
    """
    for comp in module.computations:
        for inst in comp:
            if inst.opcode not in CONTRACTIONS:
                continue
            narrow, factors = inst.array_shape.element_type, set(factor_types(inst))
            if len(factors) != 1 or not has_values_of(wide := factors.pop(), narrow):
                continue
            retyper = Retyper(module, {narrow: wide})
            if retyper.can(inst) and rewrites.allow(
                "result_caster.cast", inst, approximate=narrow.is_float
            ):
                retyper.change(inst)
