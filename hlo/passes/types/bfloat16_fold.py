"""Operations on bf16 that are written as ones on f32 between conversions."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.passes.types._contractions import CONTRACTIONS
from hlo.values.types import ELEMENT_TYPES, F32, ArrayShape

_RULES = RuleSet("bfloat16_fold")
_BF16 = ELEMENT_TYPES["bf16"]


@module_pass
def bfloat16_fold(module: Module, rewrites: Rewrites) -> None:
    """Fold conversions between bf16 and f32 into operations that support bf16."""
    _RULES.apply(module, rewrites)


@_RULES.rule(
    "convert",
    "bf16(f(f32(x), ...)) = f(x, ...): arithmetic on bf16 is that on f32, rounded once",
)
def elementwise_between_conversions(inst: Instruction, b: Builder) -> Instruction | None:
    inner = _only_rounded(inst)
    if inner is None or not inner.spec.has(Trait.ELEMENTWISE) or inner.called_computations:
        return None
    operands = [_as_bf16(o) for o in inner.operands]
    if any(o is None for o in operands):
        return None
    new = b.copy(inner, [o for o in operands if o is not None])
    new.shape = inst.shape
    return new


@_RULES.rule(
    "convert",
    "bf16(dot(a, b)) = dot(a, b) that gives bf16, rounded once rather than twice",
    approximate=True,
)
def contraction_rounded_to_bf16(inst: Instruction, b: Builder) -> Instruction | None:
    inner = _only_rounded(inst)
    if inner is None or inner.opcode not in CONTRACTIONS:
        return None
    new = b.copy(inner, inner.operands)
    new.shape = inst.shape
    return new


def _only_rounded(inst: Instruction) -> Instruction | None:
    """Return the f32 value of which nothing but this conversion to bf16 is used."""
    inner = inst.operands[0]
    if not isinstance(inst.shape, ArrayShape) or not isinstance(inner.shape, ArrayShape):
        return None
    if inst.shape.element_type is not _BF16 or inner.shape.element_type is not F32:
        return None
    return inner if inner.num_users == 1 and inst.shape.layout == inner.shape.layout else None


def _as_bf16(inst: Instruction) -> Instruction | None:
    """Return what is converted to f32 here, if it is bf16."""
    if inst.opcode != "convert":
        return None
    shape = inst.operands[0].shape
    if not isinstance(shape, ArrayShape) or shape.element_type is not _BF16:
        return None
    return inst.operands[0] if shape.layout == inst.array_shape.layout else None
