"""AMD's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.targets.gpu.base import TOGETHER, Gpu

if TYPE_CHECKING:
    from hlo.analysis.fusion.roles import Role
    from hlo.codegen.targets.base import Plan
    from hlo.ir import Instruction


@dataclass(frozen=True)
class AmdGcn(Gpu):
    """A GPU of AMD's; `cpu` is `gfx90a`, `gfx942`, ..."""

    triple: str = "amdgcn-amd-amdhsa"
    data_layout: str = (
        "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-"
        "p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-"
        "v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
    )

    name: ClassVar[str] = "amdgcn"
    lanes: ClassVar[int] = 64
    convention: ClassVar[str] = "amdgpu_kernel"
    thread_register: ClassVar[str] = "llvm.amdgcn.workitem.id.x"
    block_register: ClassVar[str] = "llvm.amdgcn.workgroup.id.x"

    @property
    def most_shared_bytes(self) -> int:
        return 64 << 10

    def plan(self, inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan:
        from hlo.codegen.targets.gpu.planners import plan_on_grid

        return plan_on_grid(inst, roles, self)

    def barrier(self, b: Builder) -> None:
        name = "llvm.amdgcn.s.barrier"
        b.module.declare(name, "void", [], TOGETHER)
        b.call_void(name, [])

    def exchange_word(self, b: Builder, word: Val, how: str, which: Val) -> Val:
        raise NotImplementedError
