"""Removal of optimization barriers."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("cse_barrier_expander")


@module_pass
def cse_barrier_expander(module: Module, rewrites: Rewrites) -> None:
    """Remove optimization barriers, after the passes that they are meant to block."""
    _RULES.apply(module, rewrites)


@_RULES.rule("opt-barrier", "opt-barrier(x) = x")
def value_of_barrier(inst: Instruction, b: Builder) -> Instruction | None:
    return inst.operands[0]
