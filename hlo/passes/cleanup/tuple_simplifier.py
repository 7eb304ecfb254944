"""Simplification of tuples and get-tuple-elements."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("tuple_simplifier")


@module_pass
def tuple_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Forward elements of tuples to their users, and tuples that are rebuilt unchanged."""
    _RULES.apply(module, rewrites)


@_RULES.rule("get-tuple-element", "tuple(x0, x1, ...)[i] = xi")
def element_of_tuple(inst: Instruction, b: Builder) -> Instruction | None:
    whole = inst.operands[0]
    return whole.operands[inst.tuple_index] if whole.opcode == "tuple" else None


@_RULES.rule("tuple", "tuple(t[0], t[1], ...) = t, when these are all of t's elements in order")
def tuple_of_elements(inst: Instruction, b: Builder) -> Instruction | None:
    if not inst.operands or inst.operands[0].opcode != "get-tuple-element":
        return None
    whole = inst.operands[0].operands[0]
    taken = all(
        o.opcode == "get-tuple-element" and o.operands[0] is whole and o.tuple_index == n
        for n, o in enumerate(inst.operands)
    )
    return whole if taken and whole.shape == inst.shape else None
