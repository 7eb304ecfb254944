"""Collectives on values that are equal on all devices."""

from __future__ import annotations

from hlo.analysis.patterns import applies, single_binary_op
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.ops.collective.device_groups import CROSS_BOTH, group_mode
from hlo.passes.collectives._collective import groups_in, is_movable
from hlo.passes.collectives._replicated import is_constant
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import compatible

_RULES = RuleSet("all_reduce_simp")


@module_pass
def all_reduce_simp(module: Module, rewrites: Rewrites) -> None:
    """Eliminate collectives in groups of one device, and all-reduces of constants."""
    _RULES.apply(module, rewrites)


def _members(inst: Instruction) -> int | None:
    """Return the group size, None if groups differ in size."""
    sizes = {len(group) for group in groups_in(inst)}
    if len(sizes) > 1:
        return None
    assert inst.parent is not None and inst.parent.module is not None
    _, partitions = inst.parent.module.device_counts
    return sizes.pop() * (partitions if group_mode(inst) == CROSS_BOTH else 1)


@_RULES.rule("all-gather all-reduce reduce-scatter", "collective(x) = x, in groups of one")
def met_alone(inst: Instruction, b: Builder) -> Instruction | None:
    if not is_movable(inst) or _members(inst) != 1:
        return None
    return inst.operands[0] if compatible(inst.shape, inst.operands[0].shape) else None


@_RULES.rule("all-reduce", "max(c, c, ...) = c; and so for min, and, or")
def same_everywhere(inst: Instruction, b: Builder) -> Instruction | None:
    same = applies(inst.to_apply, Trait.IDEMPOTENT)
    return inst.operands[0] if same and _is_constant(inst) else None


@_RULES.rule("all-reduce", "c + c + ... = n * c, exactly for integers")
def times_members(inst: Instruction, b: Builder) -> Instruction | None:
    return _times(inst, b) if inst.operands[0].array_shape.element_type.is_integer else None


@_RULES.rule("all-reduce", "c + c + ... = n * c for floats, but for rounding", approximate=True)
def times_members_of_floats(inst: Instruction, b: Builder) -> Instruction | None:
    return _times(inst, b) if inst.operands[0].array_shape.element_type.is_float else None


def _is_constant(inst: Instruction) -> bool:
    value = inst.operands[0]
    value = value.operands[0] if value.opcode == "broadcast" else value
    return is_movable(inst) and is_constant(value)


def _times(inst: Instruction, b: Builder) -> Instruction | None:
    if single_binary_op(inst.to_apply) != "add" or not _is_constant(inst):
        return None
    members, x = _members(inst), inst.operands[0]
    if members is None:
        return None
    count = b.constant(x.array_shape.element_type, members)
    return b.op("multiply", x, b.broadcast(count, x.array_shape))
