"""Which kernels compute each value that is stored: what they read, and in how many steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.fusion.operations import is_multi_output, is_on_demand, is_uninitialized
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import rows_of
from hlo.codegen.kernel import PLANNERS, Plan
from hlo.codegen.kernels.row_loops import emit_rows
from hlo.codegen.liveness import array_leaves, collect_leaves
from hlo.codegen.on_demand import emit_multi_output, emit_on_demand
from hlo.codegen.target import Target
from hlo.codegen.tree import computations_of
from hlo.errors import HloError
from hlo.ir import Computation, Instruction
from hlo.layout.plain import is_empty


@dataclass(frozen=True)
class KernelPlan:
    """The kernels of one instruction. reads: what is loaded, or passed as scalars, in order."""

    reads: tuple[Instruction, ...]
    plan: Plan


def plan_kernels(
    entry: Computation, roles: Mapping[Instruction, Role], target: Target
) -> dict[Instruction, KernelPlan]:
    """Return the plan of each instruction of a tree that has kernels of its own.

    Constants have none, nor has what leaves nothing to write. Raises HloError for an operation
    without native code.
    """
    return {
        inst: KernelPlan(tuple(collect_leaves(inst, roles)), _plan(inst, roles, target))
        for comp in computations_of(entry)
        for inst in comp.in_order()
        if roles[inst] is Role.KERNEL and inst.opcode != "constant" and not writes_nothing(inst)
    }


def writes_nothing(inst: Instruction) -> bool:
    """True for a result without elements, or one whose elements may be anything."""
    return all(is_empty(leaf) for _, leaf in array_leaves(inst)) or is_uninitialized(inst)


def _plan(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    if is_multi_output(inst):
        return Plan((emit_multi_output,))
    if is_on_demand(inst):
        by_rows = rows_of(inst, roles) is not None
        return Plan((emit_rows if by_rows else emit_on_demand,))
    planner = PLANNERS.get(inst.opcode)
    if planner is None:
        raise HloError.at(
            "unsupported", f"{inst.opcode} has no native code yet", inst.span,
            hint="the reference interpreter runs it",
        )  # fmt: skip
    return planner(inst, roles, target)
