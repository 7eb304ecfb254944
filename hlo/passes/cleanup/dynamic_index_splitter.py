"""Start indices of dynamic slices as one operand per dimension."""

from __future__ import annotations

from hlo.expansions.starts import has_vector, with_scalar_starts
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("dynamic_index_splitter")


@module_pass
def dynamic_index_splitter(module: Module, rewrites: Rewrites) -> None:
    """Split the index vectors of older dynamic slices and updates into scalars."""
    _RULES.apply(module, rewrites)


@_RULES.rule("dynamic-slice dynamic-update-slice", "starts i = i[0], i[1], ...")
def split_index(inst: Instruction, b: Builder) -> Instruction | None:
    return with_scalar_starts(b, inst, inst.operands) if has_vector(inst) else None
