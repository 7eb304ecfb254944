"""Convolutions whose groups have few features: sums over a window, without a matrix product.

A task copies its part of the input to a panel, with zero padding, and processes that in vectors:
along rows where the result's columns are contiguous, across groups where those are. Groups of
several features are always taken across. The gradient of
the filter is the same with positions and taps exchanged: few positions, many taps, and sums over
images too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.kernels.conv.stencil_plan import Stencil, StencilTiling
from hlo.codegen.kernels.conv.stencil_task import PackFactors, RunTasks
from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.shares import AddShares
from hlo.codegen.targets.base import Target


def add_stencils(steps: Steps, stencils: Sequence[Stencil], target: Target) -> None:
    """Append the steps of stencils that write different parts of one result."""
    together: dict[tuple[int, ...], list[StencilTiling]] = {}
    for s in stencils:
        lanes = max(1, target.vector_bits // (8 * s.arithmetic.bytes))
        enough = s.features * 2 >= lanes
        contiguous = s.groups.a == 1 if s.correlates else s.groups.c == s.outputs.size
        across = s.inputs.size > 1 or (enough and contiguous)
        plan = StencilTiling(s, lanes, across, target.vector_registers)
        # Interleaved phases are written while the result is in the cache.
        together.setdefault(tuple(plan.task_sizes), []).append(plan)
    for plans in together.values():
        _add_plans(steps, plans, target)


def _add_plans(steps: Steps, plans: Sequence[StencilTiling], target: Target) -> None:
    first = plans[0]
    factors = []
    for plan in plans:
        if not plan.s.correlates:
            number = steps.memory(plan.factor_count * plan.s.arithmetic.bytes)
            steps.emitters.append(PackFactors(plan, number))
            factors.append(number)
    s, shares, partial = first.s, first.shares, -1
    if shares > 1:
        partial = steps.memory(shares * s.elements * s.arithmetic.bytes)
    slot_bytes = max(plan.slot_bytes for plan in plans)
    own = steps.memory(slot_bytes * target.slots(first.tasks))
    steps.emitters.append(RunTasks(tuple(plans), own, slot_bytes, tuple(factors), partial))
    if shares > 1:
        steps.emitters.append(AddShares(s.arithmetic, s.store, shares, partial, s.elements))
