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
def simplify_fp_conversions(
    module: Module, rewrites: Rewrites, *, excess_precision: bool = False
) -> None:
    """Remove float conversions through an intermediate type that is at least as wide.

    excess_precision: remove those through a narrower one and back, too, as XLA does by default:
    values keep the digits that the conversion would have rounded away.
    """
    skipped = frozenset() if excess_precision else frozenset({f"{_RULES.name}.{back.__name__}"})
    _RULES.apply(module, rewrites, skipped=skipped)


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


@_RULES.rule(
    "convert",
    "convert(convert(x)) = x, where both ends have one type and between them is a narrower one",
    approximate=True,
)
def back(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "convert":
        return None
    x = inner.operands[0]
    if not _type(inner).is_float or not _type(x).is_float or _type(x) is not _type(inst):
        return None
    return x


def _type(inst: Instruction) -> ElementType:
    return inst.array_shape.element_type
