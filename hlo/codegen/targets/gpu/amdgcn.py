"""AMD's GPUs. What is written here LLVM accepts; it has not run on hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo.codegen.llvm import Builder, Val, i32
from hlo.codegen.targets.gpu.base import TOGETHER, Grid
from hlo.codegen.targets.gpu.planned import PlannedGpu
from hlo.llvm import Call, Fence

# Models from here on have warps (AMD's word is wavefront) of 32 threads, those before of 64.
_FIRST_NARROW = 1000


@dataclass(frozen=True)
class AmdGcn(PlannedGpu):
    """A GPU of AMD's; `cpu` is `gfx90a`, `gfx942`, `gfx1100`, ..."""

    triple: str = "amdgcn-amd-amdhsa"
    data_layout: str = (
        "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-"
        "p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-"
        "v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
    )

    name: ClassVar[str] = "amdgcn"
    models: ClassVar[tuple[str, ...]] = ("gfx90a", "gfx942", "gfx950", "gfx1100")
    convention: ClassVar[str] = "amdgpu_kernel"
    thread_register: ClassVar[str] = "llvm.amdgcn.workitem.id.x"
    block_register: ClassVar[str] = "llvm.amdgcn.workgroup.id.x"
    block_scope: ClassVar[str] = "workgroup"
    device_scope: ClassVar[str] = "agent"

    @property
    def model(self) -> int:
        """The number in the name: 942 for `gfx942`, the last two digits of it hexadecimal."""
        digits = self.cpu.removeprefix("gfx")
        return int(digits[:-2]) * 100 + int(digits[-2:], 16)

    @property
    def lanes(self) -> int:
        return 32 if self.model >= _FIRST_NARROW else 64

    @property
    def most_shared_bytes(self) -> int:
        return 64 << 10

    def kernel_attributes(self, grid: Grid) -> tuple[str, ...]:
        return (
            f'"amdgpu-flat-work-group-size"="{grid.threads},{grid.threads}"',
            '"uniform-work-group-size"="true"',
        )

    def barrier(self, b: Builder, threads: Val | None = None) -> None:
        assert threads is None
        # The instruction orders threads, not what they have written.
        name = "llvm.amdgcn.s.barrier"
        b.module.declare(name, "void", [], TOGETHER)
        b.write(Fence("workgroup", "release"))
        b.call_void(name, [])
        b.write(Fence("workgroup", "acquire"))

    def exchange_word(self, b: Builder, word: Val, how: str, which: Val) -> Val:
        lane = self._lane(b)
        if how == "xor":
            source = b.binary("xor", lane, which)
        elif how == "idx":
            source = b.binary("and", which, i32(self.lanes - 1))
        else:
            moved = b.binary("add" if how == "down" else "sub", lane, which)
            # A lane that would read beyond the warp keeps its own; -1 is a large unsigned number.
            source = b.select(b.icmp("ult", moved, self.lanes), moved, lane)
        name = "llvm.amdgcn.ds.bpermute"
        b.module.declare(name, "i32", ["i32", "i32"], TOGETHER)
        address = b.binary("shl", source, i32(2))
        operands = (address.name, word.name)
        return b.effect("i32", Call("", "i32", f"@{name}", ("i32", "i32"), operands))

    def _lane(self, b: Builder) -> Val:
        """Return the number of the lane: how many bits of the warp's mask are below it."""
        count = i32(0)
        for half in ("lo", "hi")[: self.lanes // 32]:
            name = f"llvm.amdgcn.mbcnt.{half}"
            b.module.declare(name, "i32", ["i32", "i32"], "nounwind memory(none)")
            operands = ("-1", count.name)
            count = b.op("i32", Call("", "i32", f"@{name}", ("i32", "i32"), operands))
        return count
