"""Arrays without elements."""

from __future__ import annotations

import numpy as np

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.literal import Literal, brace_pairs
from hlo.values.types import ArrayShape

# A constant of f32[1000000000,0] would have that many in its text.
_MOST_BRACES = 1 << 16


@module_pass
def zero_sized_hlo_elimination(module: Module, rewrites: Rewrites) -> None:
    """Replace arrays without elements by empty constants."""
    effects = Effects()
    for comp in unfused(module):
        for inst in reversed(comp.in_order()):
            if effects.is_removable(inst) or not _is_empty(inst) or has_control_edges(inst):
                continue
            if effects.has_side_effect(inst) or not rewrites.allow(
                "zero_sized_hlo_elimination", inst
            ):
                continue
            empty = np.empty(inst.array_shape.dims, inst.array_shape.element_type.dtype)
            new = Builder(comp, inst).literal(Literal.of(empty).with_shape(inst.array_shape))
            if "sharding" in inst.annotations:
                new.annotations["sharding"] = inst.annotations["sharding"]
            inst.replace_all_uses_with(new)
            comp.remove(inst)


def _is_empty(inst: Instruction) -> bool:
    """True for what computes an array of fixed dimensions, one of them 0."""
    shape = inst.shape
    return (
        inst.opcode not in ("parameter", "constant")
        and isinstance(shape, ArrayShape)
        and not shape.is_dynamic
        and not shape.num_elements
        and brace_pairs(shape.dims) <= _MOST_BRACES
    )
