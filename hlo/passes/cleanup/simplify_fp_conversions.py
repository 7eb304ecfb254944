"""Chains of conversions between floating-point types."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.elementwise.casts import widens
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ElementType

_RULES = RuleSet("simplify_fp_conversions")


@module_pass
def simplify_fp_conversions(module: Module, rewrites: Rewrites) -> None:
    """Remove float conversions through an intermediate type that is at least as wide.

    XLA also drops steps through narrower types, which changes values; this pass does not.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("convert", "convert(convert(x)) = convert(x), where the first keeps every value")
def through_wider(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "convert":
        return None
    x = inner.operands[0]
    source, between, to = _type(x), _type(inner), _type(inst)
    if not all(t.is_float for t in (source, between, to)) or not widens(source, between):
        return None
    return b.convert(x, to)


def _type(inst: Instruction) -> ElementType:
    return inst.array_shape.element_type
