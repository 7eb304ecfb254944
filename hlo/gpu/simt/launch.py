"""A launch of a kernel: its blocks in batches, what it counts, what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from hlo.errors import HloError
from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.arguments import Dims
from hlo.gpu.simt.batch import Batch
from hlo.gpu.simt.code import Kernel
from hlo.gpu.simt.frame import LANES, Frame
from hlo.gpu.simt.machine import Machine
from hlo.gpu.simt.memory import Memory
from hlo.gpu.simt.order import Order
from hlo.gpu.simt.problems import Kind, Problem, error_of
from hlo.gpu.simt.races import Races, shared_races
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.stamps import Stamps
from hlo.gpu.simt.traffic import Tally

# Threads that run together: enough for numpy, few enough for the caches.
_THREADS = 1 << 14
# Shared and local memory of the blocks that run together.
_BATCH_BYTES = 1 << 26
# Of a block.
MOST_THREADS, MOST_SHARED_BYTES = 1024, 227 << 10
# Local memory of a thread, and dimensions of a grid and of a block.
_MOST_LOCAL_BYTES = 512 << 10
_MOST_BLOCKS, _MOST_OF_BLOCK = ((1 << 31) - 1, 65535, 65535), (1024, 1024, 64)
# What it takes to begin a batch.
_BATCH_INSTRUCTIONS = 64
# Problems that one launch reports.
_MOST_PROBLEMS = 16


def check_launch(
    kernel: Kernel, grid: Dims, block: Dims, shared_bytes: int, arguments: int
) -> None:
    """Raise HloError for a launch that no GPU accepts."""
    function, threads = kernel.function, math.prod(block)
    most, shared = function.threads or MOST_THREADS, kernel.launched(max(0, shared_bytes)).size
    wrong = ""
    if not all(1 <= n <= limit for n, limit in zip(grid, _MOST_BLOCKS, strict=True)):
        wrong = f"{_times(grid)} blocks"
    elif threads > most or not all(
        1 <= n <= limit for n, limit in zip(block, _MOST_OF_BLOCK, strict=True)
    ):
        wrong = f"{_times(block)} threads a block, at most {most} are allowed"
    elif shared_bytes < 0 or shared > MOST_SHARED_BYTES:
        wrong = f"{min(shared_bytes, 0) or shared} bytes of shared memory"
    elif kernel.local.size > _MOST_LOCAL_BYTES:
        wrong = f"{kernel.local.size} bytes of local memory"
    elif arguments != len(function.parameters):
        wrong = f"{arguments} parameters for {len(function.parameters)}"
    if wrong:
        raise HloError.at("bad-launch", f"kernel {kernel.name}: {wrong}")


def _times(dims: Dims) -> str:
    return " by ".join(map(str, dims)) if dims[1:] != (1, 1) else str(dims[0])


def _named(name: str, dims: Dims) -> dict[str, int]:
    """Return dimensions by the names of special registers; without an axis, it is x."""
    return {name: dims[0], **{f"{name}.{axis}": n for axis, n in zip("xyz", dims, strict=True)}}


class LaunchState:
    """A launch while it runs."""

    def __init__(
        self, machine: Machine, kernel: Kernel, grid: Dims, block: Dims, shared_bytes: int,
        parameters: Sequence[np.ndarray], instruction: str,
    ) -> None:  # fmt: skip
        """parameters: each as a row of words of 64 bits."""
        self._machine, self.kernel, self.instruction = machine, kernel, instruction
        self.grid, self.block_dims = grid, block
        self.blocks, self.threads = blocks, threads = math.prod(grid), math.prod(block)
        self._report = machine.report.of(kernel.number, kernel.name, instruction.removeprefix("%"))
        self.shared = kernel.launched(shared_bytes)
        self.shared_bytes = shared_bytes
        self.parameters = list(parameters)
        self.has_checks = machine.has_checks
        size = -(-threads // LANES) * LANES
        numbers = None if machine.order is None else machine.order(blocks)
        self.stamps = Stamps(machine.next_stamp, blocks * size, numbers)
        self._epochs = 0
        races = None
        if machine.has_checks:
            unit = kernel.units["global"]
            machine.cells.prepare(machine.heap.end // unit)
            races = Races(machine.cells, self.stamps, unit, Order(blocks))
        self.device_memory = replace(machine.space, size=machine.heap.end, races=races)
        self.problems: dict[tuple[Kind, int], Problem] = {}
        self._executed = 0
        # Runs of each piece, by warps and by lanes.
        self._runs = [0] * len(kernel.pieces)
        self._lanes = [0] * len(kernel.pieces)
        self._lengths = [len(p.piece.body) + 1 for p in kernel.pieces]

    def run(self) -> None:
        """Run all blocks. Raises HloError for what is wrong, all of it at the end."""
        size = -(-self.threads // LANES) * LANES
        bytes_ = self.shared.size + self.kernel.local.size * size
        together = max(1, min(_THREADS // size, _BATCH_BYTES // max(1, bytes_)))
        try:
            with np.errstate(all="ignore"):
                for first in range(0, self.blocks, together):
                    self._run_batch(first, min(together, self.blocks - first))
        finally:
            self._machine.next_stamp = self.stamps.after(self._epochs)
            self._add_counts()
        if self.problems:
            self.fail()

    def _run_batch(self, first: int, blocks: int) -> None:
        self._executed += _BATCH_INSTRUCTIONS
        batch = Batch(self, first, blocks)
        try:
            batch.run()
        finally:
            self._epochs = max(self._epochs, int(batch.epoch.max()))

    def special(self, name: str) -> np.ndarray | None:
        """Return the value of a special register that is equal for all threads of the launch."""
        known = {
            **_named("%ntid", self.block_dims), **_named("%nctaid", self.grid),
            "%dynamic_smem_size": self.shared_bytes, "%total_smem_size": self.shared.size,
            "WARP_SZ": LANES, "%nsmid": 1, "%smid": 0, "%gridid": 0,
            # All threads are in the same place where there is one only.
            **{n: 0 for n, size in _named("%tid", self.block_dims).items() if size == 1},
            **{n: 0 for n, size in _named("%ctaid", self.grid).items() if size == 1},
        }  # fmt: skip
        if name in known:
            return np.array([[known[name]]])
        if name.startswith(("%clock", "%globaltimer")):
            return np.array([[0]])
        return None

    def unknown_register(self, name: str) -> HloError:
        """Return the error of a special register that the machine does not have."""
        return HloError.at("unsupported-ptx", f"{name} in kernel {self.kernel.name}")

    def watch_shared(self, memory: Memory) -> Races | None:
        """Return what looks for races on the shared memory of a batch."""
        if not self.has_checks:
            return None
        return shared_races(memory, self.stamps, self.kernel.units["shared"])

    def describe(self, offset: int) -> str:
        return self._machine.heap.describe(offset)

    # --- counts ---------------------------------------------------------------------------------

    def count(self, number: int, frame: Frame) -> None:
        """Count a run of a piece. Raises HloError when too much has run."""
        self._executed += self._lengths[number]
        self._runs[number] += frame.warps
        self._lanes[number] += frame.count
        if self._executed > self._machine.limit:
            piece = self.kernel.pieces[number].piece
            inst = piece.body[0] if piece.body else piece.end
            batch = frame.batch
            batch.stop(
                Kind.ENDLESS_LOOP,
                f"still runs after {self._machine.limit} instructions", inst, frame, frame.active,
            )  # fmt: skip

    def tally(self, space: str, request: Request) -> Tally:
        """Return what counts the accesses of an instruction."""
        key = space, request.does, request.inst.line
        found = self._report.tallies.get(key)
        if found is None:
            found = self._report.tallies[key] = request.inst, request.bytes, Tally()
        return found[2]

    def _add_counts(self) -> None:
        """Add what has run to the report."""
        report = self._report
        report.launches += 1
        report.threads += self.blocks * self.threads
        for compiled, runs, lanes in zip(self.kernel.pieces, self._runs, self._lanes, strict=True):
            piece = compiled.piece
            code = piece.body if piece.end is None else (*piece.body, piece.end)
            report.instructions += runs * len(code)
            report.lanes += lanes * len(code)
            for inst in code:
                report.opcodes[inst.opcode] += runs

    # --- problems -------------------------------------------------------------------------------

    def problem(
        self, kind: Kind, message: str, inst: Instruction | None, block: int, thread: int,
        count: int,
    ) -> None:  # fmt: skip
        """Remember a problem, once for each instruction."""
        line = inst.line if inst is not None else 0
        block = self.stamps.block(block)
        if (kind, line) in self.problems or len(self.problems) >= _MOST_PROBLEMS:
            return
        self.problems[kind, line] = Problem(
            kind, message, self.kernel.name, self.instruction, inst, block, thread, count
        )

    def fail(self) -> NoReturn:
        """Raise HloError for the problems so far."""
        found = list(self.problems.values())
        self._machine.report.problems += found
        raise error_of(found)
