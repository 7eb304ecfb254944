"""Blocks of a launch that run together: their threads, program counters, barriers.

All threads run in one loop: it takes the piece of code with the lowest number that a thread is at,
for all threads that are at it. A thread that waits at a barrier, or that is done, is at no piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import numpy as np

from hlo.errors import HloError
from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.access import Space
from hlo.gpu.simt.arguments import Dims
from hlo.gpu.simt.barriers import DONE, WAITING, count_of, passing
from hlo.gpu.simt.code import CompiledPiece, Kernel
from hlo.gpu.simt.copies import Copy
from hlo.gpu.simt.frame import LANES, Frame, Values
from hlo.gpu.simt.layout import Layout
from hlo.gpu.simt.memory import EMPTY, RESERVED, Memory
from hlo.gpu.simt.problems import Kind
from hlo.gpu.simt.races import Races
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.stamps import Stamps
from hlo.gpu.simt.traffic import Tally
from hlo.gpu.simt.undefined import Undefined, all_bits

_ALIGNMENT = 256


class Launch(Protocol):
    """The launch that blocks belong to; see `hlo.gpu.simt.launch`."""

    kernel: Kernel
    threads: int
    shared: Layout
    parameters: list[np.ndarray]
    grid: Dims
    block_dims: Dims
    has_checks: bool
    device_memory: Space
    stamps: Stamps

    def special(self, name: str) -> np.ndarray | None:
        """Return the value of a special register that is equal for all threads of the launch."""

    def unknown_register(self, name: str) -> HloError:
        """Return the error of a special register that the machine does not have."""

    def watch_shared(self, memory: Memory) -> Races | None:
        """Return what looks for races on the shared memory of a batch."""

    def describe(self, offset: int) -> str:
        """Return where an offset in the device's memory is."""

    def tally(self, space: str, request: Request) -> Tally:
        """Return what counts the accesses of an instruction."""

    def count(self, number: int, frame: Frame) -> None:
        """Count a run of a piece. Raises HloError when too much has run."""

    def problem(
        self, kind: Kind, message: str, inst: Instruction | None, block: int, thread: int,
        count: int,
    ) -> None:  # fmt: skip
        """Remember a problem."""

    def fail(self) -> NoReturn:
        """Raise HloError for the problems so far."""


class Batch:
    """The blocks `first` to `first + blocks` of a launch."""

    def __init__(self, launch: Launch, first: int, blocks: int) -> None:
        self.launch, self.first, self.blocks = launch, first, blocks
        self.stamps = launch.stamps
        self.warps_of_block = -(-launch.threads // LANES)
        self.warps = blocks * self.warps_of_block
        warp = np.arange(self.warps, dtype=np.int64)
        # The number of the block in the batch, and of the thread in the block.
        self.block = (warp // self.warps_of_block)[:, None]
        lane = np.arange(LANES, dtype=np.int64)
        self.thread = (warp % self.warps_of_block)[:, None] * LANES + lane
        # The number of the thread in the launch, as if blocks had whole warps.
        self.threads = (first * self.warps_of_block + warp)[:, None] * LANES + lane
        # How many barriers each block has passed.
        self.epoch = np.zeros((self.warps, 1), np.int64)
        self.spaces: Mapping[str, Any] = {
            "global": launch.device_memory,
            "shared": self._shared(launch.shared),
            "local": self._local(launch.kernel.local),
        }
        # Which threads are not done, or None for all.
        self.alive: np.ndarray | None = None
        self._alive_count = self.warps * LANES
        self.exists = np.broadcast_to(self.thread < launch.threads, self.thread.shape)
        if launch.threads % LANES:
            self._set_alive(self.exists, int(np.count_nonzero(self.exists)))
        self.undefined = Undefined()
        if launch.has_checks:
            self._unset_registers()
        # Copies by cp.async that are not done, and groups of them that each thread has committed.
        self.copies: list[Copy] = []
        self.committed = np.zeros((self.warps, LANES), np.int32)

    def _unset_registers(self) -> None:
        """Registers that are read before they are written have no value until then."""
        types = self.launch.kernel.slots.types
        for slot in self.launch.kernel.unset:
            self.undefined.slots[slot] = all_bits(np.ones((self.warps, LANES), bool), types[slot])

    # --- memory ---------------------------------------------------------------------------------

    def _shared(self, layout: Layout) -> Space:
        stride = _up(layout.size + _ALIGNMENT, _ALIGNMENT)
        self.shared_base = RESERVED + self.block * stride
        memory = Memory(RESERVED + self.blocks * stride, has_map=self.launch.has_checks)
        for begin, size in layout.parts:
            for block in range(self.blocks) if memory.map is not None else ():
                memory.define(RESERVED + block * stride + begin, size, EMPTY)
        races = self.launch.watch_shared(memory)
        return Space("shared", memory, 0, layout.size, "shared_base", races)

    def _local(self, layout: Layout) -> Space:
        stride = _up(layout.size, 16)
        threads = self.warps * LANES if stride else 0
        memory = Memory(RESERVED + threads * stride, has_map=self.launch.has_checks and stride > 0)
        index = np.arange(self.warps * LANES, dtype=np.int64).reshape(-1, LANES)
        self.local_base = RESERVED + index * stride
        memory.define(RESERVED, threads * stride, EMPTY)
        return Space("local", memory, 0, layout.size, "local_base")

    def count_access(self, space: str, frame: Frame, at: np.ndarray, request: Request) -> None:
        """Count what lanes of a frame access."""
        tally = self.launch.tally(space, request)
        if space == "local":
            # Equal places of the lanes of a warp lie side by side.
            element, byte = np.divmod(at - frame.local_base, request.bytes)
            at = (element * LANES + np.arange(LANES)) * request.bytes + byte
        tally.add(frame, at, request.bytes, is_shared=space == "shared")

    def describe(self, offset: int) -> str:
        """Return where an offset in the device's memory is."""
        return self.launch.describe(offset)

    # --- registers ------------------------------------------------------------------------------

    def special(self, name: str) -> np.ndarray:
        """Return the value of a special register. Raises HloError for one that is not known."""
        found = self.launch.special(name)
        if found is not None:
            return found
        lane = np.arange(LANES)[None, :]
        match name:
            case "%tid" | "%tid.x" | "%tid.y" | "%tid.z":
                return _along(self.thread, self.launch.block_dims, name)
            case "%ctaid" | "%ctaid.x" | "%ctaid.y" | "%ctaid.z":
                positions = self.first + (self.block if self.blocks > 1 else self.block[:1])
                return _along(self.stamps.blocks(positions), self.launch.grid, name)
            case "%laneid":
                return lane
            case "%warpid":
                return self.thread[:, :1] // LANES
            case "%lanemask_eq":
                return 1 << lane
            case "%lanemask_lt":
                return (1 << lane) - 1
            case "%lanemask_le":
                return (2 << lane) - 1
            case "%lanemask_gt":
                return 0xFFFFFFFF & ~((2 << lane) - 1)
            case "%lanemask_ge":
                return 0xFFFFFFFF & ~((1 << lane) - 1)
        raise self.launch.unknown_register(name)

    # --- problems -------------------------------------------------------------------------------

    def problem(
        self, kind: Kind, message: str, inst: Instruction | None, frame: Frame, bad: np.ndarray
    ) -> None:
        """Report what the lanes `bad` of a frame do."""
        row, lane = (int(x[0]) for x in np.nonzero(frame.spread(bad)))
        warp = row if frame.rows is None else int(frame.rows[row])
        block = self.first + warp // self.warps_of_block
        thread = warp % self.warps_of_block * LANES + lane
        count = int(np.count_nonzero(frame.spread(bad)))
        self.launch.problem(kind, message, inst, block, thread, count)

    def stop(
        self, kind: Kind, message: str, inst: Instruction | None, frame: Frame, bad: np.ndarray
    ) -> None:
        """Report what the lanes `bad` of a frame do, and end the launch."""
        self.problem(kind, message, inst, frame, bad)
        self.launch.fail()

    # --- running --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all threads to their end. Raises HloError."""
        launch = self.launch
        pieces = launch.kernel.pieces
        values = launch.kernel.slots.initial(launch.parameters, self.special)
        number = 0
        while True:
            frame = Frame(self, None, self.alive, self._alive_count)
            launch.count(number, frame)
            pieces[number].run(values, frame)
            after = self._after(number, values, frame)
            if isinstance(after, np.ndarray):
                if self.alive is not None:
                    after[~self.alive] = DONE
                found = self._run_apart(after, values)
            elif WAITING <= after < DONE and count_of(pieces[number].end):
                at = np.full((self.warps, LANES), after, np.int32)
                if self.alive is not None:
                    at[~self.alive] = DONE
                found = self._run_apart(at, values)
            elif WAITING <= after < DONE:
                self.epoch = self.epoch + 1
                found = pieces[number].targets[0]
            else:
                found = after
            if found >= DONE:
                return
            number = found

    def _after(self, number: int, values: Values, frame: Frame) -> int | np.ndarray:
        """Return where the lanes of a frame go: a number, or an array if they differ."""
        piece = self.launch.kernel.pieces[number]
        end = piece.end
        opcode = end.opcode if end is not None else ""
        to: int | np.ndarray = piece.targets[0] if piece.targets else DONE
        if opcode in ("ret", "exit", "trap"):
            to = DONE
        elif opcode in ("bar", "barrier"):
            to = WAITING + number
        elif piece.chosen is not None:
            to = self._by_table(piece, values[piece.chosen], frame)
        if self.undefined.slots:
            used = (x for x in (piece.guard, piece.chosen) if x is not None)
            self.undefined.require(frame, tuple(used), end, "branches by")
        if piece.guard is None:
            if opcode == "trap":
                self.stop(Kind.TRAP, "reaches a trap", end, frame, frame.active)
            return to
        guard = values[piece.guard]
        taken = frame.guarded(guard, piece.negated)
        if taken is None:
            return piece.targets[-1]
        if opcode == "trap":
            self.stop(Kind.TRAP, "reaches a trap", end, taken, taken.active)
        if taken is frame:
            return to
        return np.where(taken.active, np.int32(to), np.int32(piece.targets[-1]))

    def _by_table(self, piece: CompiledPiece, index: np.ndarray, frame: Frame) -> int | np.ndarray:
        """Return where a branch by a table leads."""
        count = len(piece.targets) - (piece.guard is not None)
        if index.size == 1 and index.item() < count:
            return piece.targets[int(index.item())]
        bad = frame.active & (index >= count)
        if bad.any():
            self.stop(Kind.OUT_OF_BOUNDS, "branches outside of a table", piece.end, frame, bad)
        table = np.array(piece.targets[:count], np.int32)
        return table[np.minimum(frame.spread(index), count - 1)]

    # --- threads that are apart -----------------------------------------------------------------

    def _run_apart(self, at: np.ndarray, values: Values) -> int:
        """Run threads that are at different pieces, until all that are alive are at the same one.

        at: where each is. Returns the number of that piece, or `DONE`.
        """
        alive = int(np.count_nonzero(at != DONE))
        while True:
            number = int(at.min())
            if number >= DONE:
                return DONE
            if number >= WAITING:
                at = self._release(at)
                continue
            mask = at == number
            count = int(np.count_nonzero(mask))
            if count == alive:
                self._set_alive(mask, count)
                return number
            after = self._run_some(number, mask, count, values)
            at[mask] = after
            if not isinstance(after, int) or after == DONE:
                alive = int(np.count_nonzero(at != DONE))

    def _set_alive(self, mask: np.ndarray, count: int) -> None:
        self._alive_count = count
        self.alive = mask if count < mask.size else None

    def _run_some(
        self, number: int, mask: np.ndarray, count: int, values: Values
    ) -> int | np.ndarray:
        """Run a piece for the lanes of a mask. Returns where they go."""
        piece = self.launch.kernel.pieces[number]
        rows: np.ndarray | None = np.flatnonzero(mask.any(axis=1))
        some = mask
        if rows is not None and len(rows) == self.warps:
            rows = None
        else:
            some = mask[rows]
        frame = Frame(self, rows, None if count == some.size else some, count)
        self.launch.count(number, frame)
        local = values.copy()
        for slot in piece.reads:
            local[slot] = frame.of_warps(values[slot])
        piece.run(local, frame)
        after = self._after(number, local, frame)
        for slot in piece.leaves:
            values[slot] = _merged(values[slot], local[slot], frame, self.warps)
        return after[some] if isinstance(after, np.ndarray) else after

    def _release(self, at: np.ndarray) -> np.ndarray:
        """Let threads pass barriers; all that are not done wait. Raises HloError if none can."""
        pieces = self.launch.kernel.pieces
        passed, wrong = passing(at.reshape(self.blocks, -1), pieces)
        if wrong is not None:
            self.launch.problem(
                Kind.DIVERGENT_BARRIER, wrong.why, wrong.inst, self.first + wrong.block,
                wrong.thread, wrong.threads,
            )  # fmt: skip
            self.launch.fail()
        passed = passed.reshape(at.shape)
        self._pass_barriers(passed)
        after = at.copy()
        for number in np.unique(at[passed]):
            after[passed & (at == number)] = pieces[int(number) - WAITING].targets[0]
        return after

    def _pass_barriers(self, passed: np.ndarray) -> None:
        """Begin a new epoch for the warps of threads: later than that of any of their block."""
        rows = passed.any(axis=1)
        epochs = np.where(rows, self.epoch[:, 0], -1).reshape(self.blocks, -1)
        newest = np.repeat(epochs.max(axis=1), self.warps_of_block)
        self.epoch = np.where(rows, newest + 1, self.epoch[:, 0])[:, None]


def _along(numbers: np.ndarray, dims: Dims, name: str) -> np.ndarray:
    """Return the positions along an axis of what has numbers. name: it ends in that of the axis."""
    x, y, _ = dims
    if name.endswith(".z"):
        return numbers // (x * y)
    if name.endswith(".y"):
        return numbers // x % y
    return numbers if dims[1:] == (1, 1) else numbers % x


def _merged(old: np.ndarray, new: np.ndarray, frame: Frame, warps: int) -> np.ndarray:
    """Return the values of all threads after those of a frame have got new ones."""
    if frame.rows is None:
        return np.where(frame.active, new, old)
    full = np.empty((warps, LANES), old.dtype)
    full[:] = old
    if frame.mask is None:
        full[frame.rows] = new
    else:
        full[frame.rows] = np.where(frame.mask, new, full.take(frame.rows, axis=0))
    return full


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
