"""The kernels of each stored value: their inputs and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.fusion.operations import is_uninitialized
from hlo.analysis.fusion.roles import Role
from hlo.codegen.plan.liveness import array_leaves, collect_leaves
from hlo.codegen.plan.tree import computations_of
from hlo.codegen.targets.base import Plan, Target
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_empty


@dataclass(frozen=True)
class KernelPlan:
    """The kernels of one instruction. reads: the values that are loaded, or passed as scalars, in
    order."""

    reads: tuple[Instruction, ...]
    plan: Plan


def plan_kernels(
    entry: Computation, roles: Mapping[Instruction, Role], target: Target
) -> dict[Instruction, KernelPlan]:
    """Return the plan of each instruction of a tree that has kernels of its own.

    Constants have none, nor have values without anything to write. Raises HloError for an operation
    that the target has no kernels for.
    """
    return {
        inst: KernelPlan(tuple(collect_leaves(inst, roles)), target.plan(inst, roles))
        for comp in computations_of(entry)
        for inst in comp.in_order()
        if roles[inst] is Role.KERNEL and inst.opcode != "constant" and not writes_nothing(inst)
    }


def writes_nothing(inst: Instruction) -> bool:
    """True for a result without elements, or one whose elements may be anything."""
    return all(is_empty(leaf) for _, leaf in array_leaves(inst)) or is_uninitialized(inst)
