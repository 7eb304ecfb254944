"""What GPUs have in common: threads in blocks in a grid, shared memory, lanes that exchange values.

A kernel is written for one thread. Kernels for GPUs ask which thread they are (`block.py`) and say
how large their grid is, by returning a `Grid`. All others, written for processors, loop over a
share of their iterations: there, each thread has a share of its own, of one iteration if it can.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo.codegen.targets.base import Extent, Launcher, LlvmTarget, Plan
from hlo.gpu.work import Work

if TYPE_CHECKING:
    from hlo.analysis.fusion.chains import ChainLimits
    from hlo.analysis.fusion.limits import FusionLimits
    from hlo.analysis.fusion.roles import Role
    from hlo.analysis.fusion.rows import RowLimits
    from hlo.codegen.llvm import Builder, Val
    from hlo.ir import Instruction

# Attributes of what all threads of a warp or a block have to reach together.
TOGETHER = "convergent nounwind"
# What stands for the width of vectors: threads compute elements one by one.
_SCALAR_BITS = 32
# Of a block.
MOST_THREADS = 1024
# Threads of a block of a kernel that is not written for GPUs.
SHARE_THREADS = 128
# Those that have work space of their own are so many at the most.
_MOST_SHARES = 1 << 14

# What decides whether kernels compute a value again, see `FusionLimits`: a launch takes two
# microseconds, in which a device of 30 Tflop/s does so many operations, and 8 for each byte that
# its memory reads. Code of more transcendental functions in a row takes long to compile.
_LAUNCH, _BYTE, _AGAIN, _IN_A_ROW = float(1 << 26), 8.0, 80.0, 32
# So many rows of a product are one tile.
_ROWS = 128
# Kernels over arrays of so many bytes take hardly longer than their launches.
_JOINED_BYTES = 1 << 22


@dataclass(frozen=True)
class Grid(Extent):
    """How many threads compute a kernel that is written for GPUs.

    shared_bytes: dynamic shared memory of a block, beside the arrays that the kernel defines. work:
    what the kernel does, if it knows better than the counts of its instruction. is_final: loops are
    as ptxas wants them, so that LLVM's whole pipeline finds little more. is_large: threads may have
    all registers that there are, though fewer blocks run at a time then.
    """

    blocks: int = 1
    threads: int = 1
    shared_bytes: int = 0
    work: Work | None = None
    is_final: bool = False
    is_large: bool = False


class ScalarTarget(LlvmTarget):
    """A GPU, or one thread of it: a thread computes elements one by one, and calls kernels."""

    @property
    def vector_bits(self) -> int:
        return _SCALAR_BITS

    @property
    def has_vectors(self) -> bool:
        return False

    @property
    def has_half_conversion(self) -> bool:
        return True

    @property
    def folds_loops(self) -> bool:
        return False

    @property
    def chain_limits(self) -> ChainLimits | None:
        return None

    def launcher(self, b: Builder) -> Launcher:
        return SequentialLauncher(b)


@dataclass(frozen=True)
class Gpu(ScalarTarget):
    """A GPU by LLVM's names; a subclass for each maker.

    cpu: LLVM's name of the model, `sm_90`. name: the first part of a triple. models: those that
    are supported, the oldest first. shared_space: LLVM's address space of the memory that a block
    shares. convention: LLVM's calling convention of a kernel. thread_register, block_register:
    LLVM's functions that return the number of the thread, and of the block.
    is_one_block: kernels are called by one block, which does the work of all blocks of each.
    """

    cpu: str
    features: frozenset[str] = frozenset()
    is_one_block: bool = False

    name: ClassVar[str]
    models: ClassVar[tuple[str, ...]]
    shared_space: ClassVar[int] = 3
    convention: ClassVar[str]
    thread_register: ClassVar[str]
    block_register: ClassVar[str]
    # LLVM's names of the threads of a block, and of the device.
    block_scope: ClassVar[str]
    device_scope: ClassVar[str]

    @property
    def lanes(self) -> int:
        """How many threads a warp has: they run in step, and exchange values."""
        return 32

    @property
    def most_shares(self) -> int:
        return _MOST_SHARES

    @property
    def wanted_iterations(self) -> int:
        # Threads are cheap: only the innermost loop is one thread's.
        return 1 << 62

    @property
    def has_endings(self) -> bool:
        return True

    @property
    def row_limits(self) -> RowLimits:
        from hlo.analysis.fusion.rows import RowLimits

        # Even one row saves launches: a block is busy with it for less than they take.
        return RowLimits(shortest=2, count=1, takes=self.joins_reduction)

    @property
    def fusion_limits(self) -> FusionLimits:
        from hlo.analysis.fusion.limits import FusionLimits

        return FusionLimits(
            in_a_row=_IN_A_ROW, delay=math.inf, again=_AGAIN, launch=_LAUNCH, byte=_BYTE,
            joined_bytes=_JOINED_BYTES, joins_rare=True, rows=_ROWS,
        )  # fmt: skip

    def joins_reduction(self, inst: Instruction) -> bool:
        from hlo.codegen.kernels.reduce.combiner import Combiner

        return Combiner.of(inst.to_apply).known is not None

    @property
    def buffer_alignment(self) -> int:
        return 256

    @property
    def capability(self) -> int:
        """Ten times NVIDIA's compute capability; 0 where there is none."""
        return 0

    @property
    def most_shared_bytes(self) -> int:
        """The largest shared memory of a block, static and dynamic."""
        return 48 << 10

    @property
    def most_blocks(self) -> int:
        """How many blocks a launch has at the most."""
        return (1 << 31) - 1

    @property
    def most_parameters(self) -> int:
        """How many addresses a kernel takes at the most."""
        return 4095

    @abstractmethod
    def plan_on_thread(
        self, inst: Instruction, roles: Mapping[Instruction, Role], thread: LlvmTarget
    ) -> Plan:
        """Return the kernels of an instruction that one thread runs. Raises HloError."""

    @abstractmethod
    def kernel_attributes(self, grid: Grid) -> tuple[str, ...]:
        """Return LLVM's attributes of a kernel."""

    @property
    def has_counted_barriers(self) -> bool:
        """True when the first threads of a block can wait for each other, without the others."""
        return False

    @abstractmethod
    def barrier(self, b: Builder, threads: Val | None = None) -> None:
        """Write a barrier of the block's threads. threads: how many of them, if not all."""

    @abstractmethod
    def exchange_word(self, b: Builder, word: Val, how: str, which: Val) -> Val:
        """Return an i32 of another lane of the warp, all of whose lanes do this.

        how: `xor` of the lane's number, so much `up` or `down` from it, or `idx`, the number.
        """

    @property
    def matches_lanes(self) -> bool:
        """True when there is `equal_lanes`."""
        return False

    def equal_lanes(self, b: Builder, number: Val) -> Val:
        """Return the lanes of the warp that have the same i32, as the bits of an i32.

        All lanes of the warp do this.
        """
        raise NotImplementedError

    @property
    def thread(self) -> LlvmTarget:
        """One thread as a machine of its own, which runs whole kernels alone."""
        return ThreadTarget(self)


@dataclass(frozen=True)
class ThreadTarget(ScalarTarget):
    """One thread of a GPU: functions that are applied to elements run on it."""

    gpu: Gpu

    @property
    def triple(self) -> str:  # type: ignore[override]
        return self.gpu.triple

    @property
    def data_layout(self) -> str:  # type: ignore[override]
        return self.gpu.data_layout

    @property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        return self.gpu.features

    @property
    def most_shares(self) -> int:
        return 1

    def plan(self, inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan:
        return self.gpu.plan_on_thread(inst, roles, self)


class SequentialLauncher(Launcher):
    """Writes calls: the thread that launches a kernel does all of its iterations."""

    def __init__(self, b: Builder) -> None:
        self._b = b

    def divides(self, extent: Extent) -> bool:
        return not isinstance(extent, Grid)

    def launch(self, function: str, arguments: Sequence[Val], extent: Extent) -> float:
        from hlo.codegen.llvm import i64

        assert self.divides(extent), function
        self._b.call_void(function, [*arguments, i64(0), i64(extent.iterations)])
        return extent.iterations * extent.cost

    def finish(self) -> None:
        """Launches share nothing."""

    @property
    def is_parallel(self) -> bool:
        return False
