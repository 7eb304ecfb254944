"""The choice of kernels on a GPU: those written for it, and else those of processors, by shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hlo.analysis.fusion.chains import chain_of
from hlo.analysis.fusion.endings import reduction_in
from hlo.analysis.fusion.operations import is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.planners import plan_of
from hlo.codegen.targets.base import Plan, Target
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.kernels import random, reduce, scatter, update, windows
from hlo.codegen.targets.gpu.kernels.attention.plan import plan_attention
from hlo.codegen.targets.gpu.kernels.elements import emit_elements
from hlo.codegen.targets.gpu.kernels.fft import fft
from hlo.codegen.targets.gpu.kernels.linalg import cholesky, triangular
from hlo.codegen.targets.gpu.kernels.matmul import contraction, convolution
from hlo.codegen.targets.gpu.kernels.matmul.sites import Site
from hlo.codegen.targets.gpu.kernels.rows import plan_rows
from hlo.codegen.targets.gpu.kernels.sort import sort, topk
from hlo.codegen.targets.gpu.kernels.transpose import plan_transposes
from hlo.ir import Instruction

GridPlanner = Callable[[Instruction, Mapping[Instruction, Role], Gpu], Plan | None]
# Of opcodes with kernels for GPUs: a planner returns None where they do not fit.
GRID_PLANNERS: dict[str, GridPlanner] = {
    **reduce.PLANNERS,
    **windows.PLANNERS,
    **contraction.PLANNERS,
    **convolution.PLANNERS,
    **cholesky.PLANNERS,
    **fft.PLANNERS,
    **random.PLANNERS,
    **scatter.PLANNERS,
    **sort.PLANNERS,
    **topk.PLANNERS,
    **triangular.PLANNERS,
    **update.PLANNERS,
}
# Of products that are fused into kernels.
ENDED_PLANNERS: dict[str, Callable[[Site, Mapping[Instruction, Role], Target], Plan]] = {
    "dot": contraction.plan_dot_at,
    "convolution": convolution.plan_convolution_at,
}


def plan_on_grid(inst: Instruction, roles: Mapping[Instruction, Role], gpu: Gpu) -> Plan:
    """Return the kernels of an instruction. Raises HloError."""
    if is_multi_output(inst):
        if inst.operands[0].opcode == "reduce":
            return reduce.plan_reductions(inst.operands, roles)
        return Plan((emit_elements,))
    site = Site.ended(inst, roles) if is_on_demand(inst) else None
    if site is not None:
        return ENDED_PLANNERS[site.product.opcode](site, roles, gpu)
    by_rows = plan_rows(inst, roles) if is_on_demand(inst) or inst.opcode == "reduce" else None
    if by_rows is not None:
        return by_rows
    if is_on_demand(inst):
        ended = reduction_in(inst, roles)
        if ended is not None:
            return reduce.plan_reductions([ended], roles)
        return plan_transposes(inst, roles) or Plan((emit_elements,))
    chain = chain_of(inst, roles) if inst.opcode == "dot" else None
    if chain is not None:
        return plan_attention(chain, roles, gpu)
    planner = GRID_PLANNERS.get(inst.opcode)
    found = planner(inst, roles, gpu) if planner is not None else None
    return found or plan_of(inst, roles, gpu)


def plan_on_thread(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Return the kernels of an instruction that one thread runs. Raises HloError."""
    product = ENDED_PLANNERS.get(inst.opcode)
    return product(Site.plain(inst), roles, target) if product else plan_of(inst, roles, target)
