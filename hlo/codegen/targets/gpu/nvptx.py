"""NVIDIA's GPUs, through PTX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo.codegen.llvm import Builder, Val, i32
from hlo.codegen.targets.gpu.base import TOGETHER, Grid
from hlo.codegen.targets.gpu.planned import PlannedGpu
from hlo.llvm import Call

# Of dynamic shared memory a block may have, in KiB, by compute capability.
_SHARED_KIB = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99}


@dataclass(frozen=True)
class Nvptx(PlannedGpu):
    """A GPU of NVIDIA's, Ampere or later; `cpu` is `sm_80`, `sm_90a`, ..."""

    triple: str = "nvptx64-nvidia-cuda"
    data_layout: str = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

    name: ClassVar[str] = "nvptx64"
    models: ClassVar[tuple[str, ...]] = (
        "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f",
        "sm_103", "sm_103a", "sm_103f", "sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a",
        "sm_121f",
    )  # fmt: skip
    convention: ClassVar[str] = "ptx_kernel"
    thread_register: ClassVar[str] = "llvm.nvvm.read.ptx.sreg.tid.x"
    block_register: ClassVar[str] = "llvm.nvvm.read.ptx.sreg.ctaid.x"
    block_scope: ClassVar[str] = "block"
    device_scope: ClassVar[str] = "device"

    @property
    def capability(self) -> int:
        """Ten times the compute capability: 90 for `sm_90a`."""
        return int(self.cpu.removeprefix("sm_").rstrip("af"))

    @property
    def most_shared_bytes(self) -> int:
        return _SHARED_KIB.get(self.capability, 99) << 10

    def kernel_attributes(self, grid: Grid) -> tuple[str, ...]:
        most = f'"nvvm.maxntid"="{grid.threads}"'
        return (most, '"nvvm.minctasm"="1"') if grid.is_large else (most,)

    @property
    def has_counted_barriers(self) -> bool:
        return True

    def barrier(self, b: Builder, threads: Val | None = None) -> None:
        if threads is not None:
            name = "llvm.nvvm.barrier.cta.sync.aligned.count"
            b.module.declare(name, "void", ["i32", "i32"], TOGETHER)
            b.call_void(name, [i32(1), threads])
            return
        name = "llvm.nvvm.barrier.cta.sync.aligned.all"
        b.module.declare(name, "void", ["i32"], TOGETHER)
        b.call_void(name, [i32(0)])

    def exchange_word(self, b: Builder, word: Val, how: str, which: Val) -> Val:
        kind = {"xor": "bfly", "down": "down", "up": "up", "idx": "idx"}[how]
        name = f"llvm.nvvm.shfl.sync.{kind}.i32"
        b.module.declare(name, "i32", ["i32"] * 4, TOGETHER)
        # The last operand bounds the lanes: all 32 for `up` is 0.
        bound = i32(0 if how == "up" else 31)
        types, operands = ("i32",) * 4, ("-1", word.name, which.name, bound.name)
        return b.effect("i32", Call("", "i32", f"@{name}", types, operands))

    @property
    def matches_lanes(self) -> bool:
        return True

    def equal_lanes(self, b: Builder, number: Val) -> Val:
        name = "llvm.nvvm.match.any.sync.i32"
        b.module.declare(name, "i32", ["i32", "i32"], TOGETHER)
        return b.effect("i32", Call("", "i32", f"@{name}", ("i32", "i32"), ("-1", number.name)))
