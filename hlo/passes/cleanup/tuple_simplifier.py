"""Simplification of tuples and get-tuple-elements."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import idempotent, module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("tuple_simplifier")


@module_pass
@idempotent
def tuple_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Forward elements of tuples to their users, and tuples that are rebuilt unchanged.

    What has a sharding of its own stays.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("get-tuple-element", "tuple(x0, x1, ...)[i] = xi", on="tuple")
def element_of_tuple(inst: Instruction, b: Builder) -> Instruction | None:
    whole = inst.operands[0]
    if whole.opcode != "tuple" or not _same_sharding(inst, whole.operands[inst.tuple_index]):
        return None
    return whole.operands[inst.tuple_index]


@_RULES.rule("tuple", "tuple(t[0], t[1], ...) = t, when these are all of t's elements in order",
             on="get-tuple-element")  # fmt: skip
def tuple_of_elements(inst: Instruction, b: Builder) -> Instruction | None:
    if not inst.operands or inst.operands[0].opcode != "get-tuple-element":
        return None
    whole = inst.operands[0].operands[0]
    taken = all(
        o.opcode == "get-tuple-element" and o.operands[0] is whole and o.tuple_index == n
        for n, o in enumerate(inst.operands)
    )
    same = taken and whole.shape == inst.shape and _same_sharding(inst, whole)
    return whole if same else None


def _same_sharding(inst: Instruction, by: Instruction) -> bool:
    """True when an instruction may be replaced without loss of a sharding that is annotated."""
    sharding = inst.annotations.get("sharding")
    return sharding is None or sharding == by.annotations.get("sharding")
