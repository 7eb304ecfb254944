"""The choice of kernels: those of an opcode, or a loop nest over elements."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.chains import chain_of
from hlo.analysis.fusion.operations import is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import rows_of
from hlo.codegen import kernels  # noqa: F401  (registers its planners)
from hlo.codegen.kernels.chain.chain import plan_chain
from hlo.codegen.kernels.reduce.row_loops import emit_rows
from hlo.codegen.loops.kernel import PLANNERS
from hlo.codegen.loops.on_demand import emit_multi_output, emit_on_demand
from hlo.codegen.targets.base import Plan, Target
from hlo.errors import HloError
from hlo.ir import Instruction


def plan_of(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Return the kernels of an instruction, by shapes and target. Raises HloError."""
    if is_multi_output(inst):
        return Plan((emit_multi_output,))
    if is_on_demand(inst):
        chain = chain_of(inst, roles)
        if chain is not None:
            return plan_chain(chain, roles, target)
        by_rows = rows_of(inst, roles) is not None
        return Plan((emit_rows if by_rows else emit_on_demand,))
    planner = PLANNERS.get(inst.opcode)
    if planner is None:
        raise HloError.at(
            "unsupported", f"{inst.opcode} has no native code yet", inst.span,
            hint="the reference interpreter runs it",
        )  # fmt: skip
    return planner(inst, roles, target)
