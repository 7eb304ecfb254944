"""Removal of promises about indices."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("assume_gather_indices_in_bound_rewrite_to_copy")


@module_pass
def assume_gather_indices_in_bound_rewrite_to_copy(module: Module, rewrites: Rewrites) -> None:
    """Replace the custom call that promises in-bounds indices by a copy."""
    _RULES.apply(module, rewrites)


@_RULES.rule("custom-call", "AssumeGatherIndicesInBound(i) = copy(i)")
def copied(inst: Instruction, b: Builder) -> Instruction | None:
    if inst.custom_call_target != "AssumeGatherIndicesInBound":
        return None
    return b.op("copy", inst.operands[0]) if len(inst.operands) == 1 else None
