"""How one block runs a kernel: block by block, all of its threads together.

So several kernels, and the loops around them, are one launch. A kernel is a function of the number
of the block whose work is done, and of how many threads it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hlo.codegen.llvm import Builder, Index, Val, i32, i64
from hlo.codegen.targets.base import Extent, Launcher
from hlo.codegen.targets.gpu.base import SHARE_THREADS, Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.errors import HloError


class NotForOneBlock(HloError):
    """A kernel is too large for one block."""


class OneBlockLauncher(Launcher):
    """Writes calls of kernels by all threads of a block, between barriers.

    threads: how many some kernel needs.
    """

    def __init__(self, b: Builder, gpu: Gpu) -> None:
        self._b = b
        self.block = Block(b, replace(gpu, is_one_block=False))
        self._most_shares = gpu.most_shares
        self.threads = gpu.lanes
        self._functions: set[str] = set()

    @property
    def shared_bytes(self) -> int:
        """The static shared memory of all kernels that are called."""
        module = self._b.module
        symbols = {s for name in self._functions for s in module.functions[name].symbols}
        return sum(module.block_memory.get(symbol, 0) for symbol in symbols)

    def divides(self, extent: Extent) -> bool:
        return not isinstance(extent, Grid)

    def parameters(self, extent: Extent) -> list[str]:
        if isinstance(extent, Grid):
            return ["i32 %block", "i32 %threads"]
        return super().parameters(extent)

    def launch(self, function: str, arguments: Sequence[Val], extent: Extent) -> float:
        self._functions.add(function)
        self.block.barrier()  # for what scalars were read from before
        if isinstance(extent, Grid):
            self._blocks(function, arguments, extent)
        else:
            self._shares(function, arguments, extent)
        self.block.barrier()
        return extent.iterations * extent.cost

    def _blocks(self, function: str, arguments: Sequence[Val], grid: Grid) -> None:
        if grid.shared_bytes:
            raise NotForOneBlock.at("unsupported", f"{function} has dynamic shared memory")
        b, threads = self._b, grid.threads
        self.threads = max(self.threads, threads)
        with b.when(b.icmp("ult", self.block.thread(), threads)), b.loop(0, grid.blocks) as n:
            number = b.cast("trunc", i64(n), "i32")
            b.call_void(function, [*arguments, number, i32(threads)])
            if grid.blocks > 1:
                # The next may use the same shared memory.
                self.block.barrier_of(threads)

    def _shares(self, function: str, arguments: Sequence[Val], extent: Extent) -> None:
        if extent.iterations > self._most_shares:
            raise NotForOneBlock.at("unsupported", f"{function} has {extent.iterations} shares")

        def share(at: Index) -> None:
            call = [*arguments, i64(at), i64(self._b.add(at, 1))]
            self._b.call_void(function, call)

        self.each(extent.iterations, share)

    def each(self, count: int, body: Callable[[Index], None]) -> None:
        """Write a loop over indices that the threads of the block share."""
        b, threads = self._b, SHARE_THREADS
        self.threads = max(self.threads, threads)
        with (
            b.when(b.icmp("ult", self.block.thread(), threads)),
            b.loop(0, -(-count // threads)) as n,
        ):
            at = b.add(b.mul(n, threads), self.block.thread_index())
            with b.when(b.compare("slt", at, count)):
                body(at)

    def finish(self) -> None:
        """Launches share nothing."""

    @property
    def is_parallel(self) -> bool:
        return False
