"""GPUs whose kernels are chosen by `planners`: what makers have in common above the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hlo.codegen.targets.gpu.base import Gpu

if TYPE_CHECKING:
    from hlo.analysis.fusion.chains import ChainLimits
    from hlo.analysis.fusion.roles import Role
    from hlo.codegen.targets.base import LlvmTarget, Plan
    from hlo.ir import Instruction

# Keys and values go by: there may be any number of them.
_ANY = 1 << 62


class PlannedGpu(Gpu):
    """A GPU that computes everything by the kernels of this folder."""

    @property
    def chain_limits(self) -> ChainLimits | None:
        from hlo.analysis.fusion.chains import ChainLimits
        from hlo.codegen.targets.gpu.kernels.attention.plan import attention_of

        return ChainLimits(
            longest=_ANY, reduced_bytes=_ANY, plain_bytes=_ANY, stores=False,
            takes=lambda chain, roles: attention_of(chain, roles, self) is not None,
        )  # fmt: skip

    def plan(self, inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan:
        from hlo.codegen.targets.gpu.planners import plan_on_grid

        return plan_on_grid(inst, roles, self)

    def plan_on_thread(
        self, inst: Instruction, roles: Mapping[Instruction, Role], thread: LlvmTarget
    ) -> Plan:
        from hlo.codegen.targets.gpu.planners import plan_on_thread

        return plan_on_thread(inst, roles, thread)
