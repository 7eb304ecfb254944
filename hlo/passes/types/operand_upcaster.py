"""Contractions of narrow operands with wide results."""

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
def operand_upcaster(module: Module, rewrites: Rewrites) -> None:
    """Upcast the operands of dots and convolutions to the result type, if it is wider.

    The products are the same, since every value of the narrow type is one of the wide type.
    """
    for comp in module.computations:
        for inst in comp:
            if inst.opcode not in CONTRACTIONS:
                continue
            wide = inst.array_shape.element_type
            narrow = {et for et in factor_types(inst) if et is not wide}
            if not narrow or not all(has_values_of(wide, et) for et in narrow):
                continue
            retyper = Retyper(module, dict.fromkeys(narrow, wide))
            if retyper.can(inst) and rewrites.allow("operand_upcaster.widen", inst):
                retyper.change(inst)
