"""Races: accesses of different threads to the same memory, a write among them, without an order.

Barriers order the accesses of a block. Those of different blocks in a launch are ordered where one
releases what it has written, and the other one acquires it (`order.py`); nothing orders writes
after reads of other blocks. Atomic updates are no races among themselves.

For each cell of memory it is kept who wrote it last, and two threads that read it, as stamps:
numbers that say thread and epoch, which is how many barriers its block had passed. Stamps of a
launch are larger than all before, so nothing has to be erased.
"""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.frame import Frame
from hlo.gpu.simt.memory import Memory, lazy_zeros
from hlo.gpu.simt.order import Order
from hlo.gpu.simt.problems import Kind
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.stamps import Stamps

# Reads are noted in cells when a write comes near them, or when there are so many bytes of them.
_MOST_NOTED_BYTES = 1 << 26
# What a note takes besides the addresses.
_NOTE_BYTES = 1 << 11
_WRITER, _READER, _OTHER_READER, _UPDATER, _OTHER_UPDATER = range(5)
_DONE_BY = {
    _WRITER: "writes", _READER: "reads", _OTHER_READER: "reads", _UPDATER: "updates",
    _OTHER_UPDATER: "updates",
}  # fmt: skip


class Cells:
    """Stamps of the cells of a memory, each of `unit` bytes."""

    def __init__(self) -> None:
        self._arrays: dict[int, np.ndarray] = {}
        self._count = 0

    def prepare(self, count: int) -> None:
        """Have room for so many cells, at the begin of a launch."""
        if count > self._count:
            self._count = 1 << count.bit_length()
            self._arrays = {}

    def __getitem__(self, role: int) -> np.ndarray:
        found = self._arrays.get(role)
        if found is None:
            found = self._arrays[role] = lazy_zeros(8 * self._count).view(np.int64)
        return found

    def has(self, role: int) -> bool:
        return role in self._arrays


class _Access:
    """What the active lanes of a frame access: a row of cells for each."""

    def __init__(self, frame: Frame, at: np.ndarray, request: Request, races: Races) -> None:
        self.frame, self.request = frame, request
        self._at, self._unit, self._is_shared = at, races.unit, races.is_shared
        if frame.mask is not None:
            self._at = at = frame.spread(at)[frame.mask]
        self.range = int(at.min()) // self._unit, (int(at.max()) + request.bytes - 1) // self._unit

    @cached_property
    def cells(self) -> np.ndarray:
        frame, count = self.frame, self.request.bytes // self._unit
        at = self._at if frame.mask is not None else frame.spread(self._at)
        first = (at // self._unit).reshape(-1, 1)
        return first + np.arange(count) if count > 1 else first

    @cached_property
    def stamps(self) -> np.ndarray:
        return self._of_lanes(self.frame.stamps)

    @cached_property
    def floors(self) -> np.ndarray:
        return self._of_lanes(self.frame.floors)

    @cached_property
    def least(self) -> int:
        """The least stamp that may be in conflict."""
        stamps = self.frame.batch.stamps
        return int(self.floors.min()) if self._is_shared else stamps.base

    @property
    def bytes(self) -> int:
        """How much memory this takes."""
        return self._at.nbytes + _NOTE_BYTES

    def _of_lanes(self, array: np.ndarray) -> np.ndarray:
        array, mask = self.frame.spread(array), self.frame.mask
        return (array if mask is None else array[mask]).reshape(-1, 1)


class Races:
    """Watches one memory in one launch.

    unit: all accesses of the kernel are to multiples of so many bytes. order: of blocks; None for
    memory of which each block has its own part.
    """

    def __init__(self, cells: Cells, stamps: Stamps, unit: int, order: Order | None) -> None:
        self.cells, self.stamps, self.unit, self.order = cells, stamps, unit, order
        self.is_shared = order is None
        # By range: loops read the same again and again. With their numbers, in order of time.
        self._noted: dict[tuple[int, int], list[tuple[int, _Access]]] = {}
        self._noted_bytes = self._reads = 0
        self._written: tuple[int, int] | None = None
        self._read: tuple[int, int] | None = None
        self._has_updates = False

    # --- accesses -------------------------------------------------------------------------------

    def read(self, frame: Frame, at: np.ndarray, request: Request) -> None:
        """Note a read; report it if another thread writes there."""
        access = _Access(frame, at, request, self)
        if self._written is not None and _overlap(access.range, self._written):
            self._conflicts(access, (_WRITER,))
        if self._has_updates:
            self._conflicts(access, (_UPDATER, _OTHER_UPDATER))
        self._noted.setdefault(access.range, []).append((self._reads, access))
        self._reads += 1
        self._noted_bytes += access.bytes
        if self._noted_bytes > _MOST_NOTED_BYTES:
            self._note_readers(None)

    def write(self, frame: Frame, at: np.ndarray, request: Request) -> None:
        """Note a write; report it if another thread reads or writes there."""
        access = _Access(frame, at, request, self)
        self._check_plain(access)
        writers = self.cells[_WRITER]
        writers[access.cells] = access.stamps
        found = writers.take(access.cells)
        mine = found == access.stamps
        if not mine.all():
            self._report(access, ~mine, found, _WRITER)
        if self._has_updates:
            self._conflicts(access, (_UPDATER, _OTHER_UPDATER))
        self._written = _joined(self._written, access.range)

    def arrive(self, frame: Frame, at: np.ndarray, request: Request) -> None:
        """Note that what was written to memory before is there now, from the same threads."""
        access = _Access(frame, at, request, self)
        self.cells[_WRITER][access.cells] = access.stamps
        self._written = _joined(self._written, access.range)

    def update(
        self, frame: Frame, at: np.ndarray, request: Request, *, is_ordered: bool = False
    ) -> None:
        """Note an atomic access. is_ordered: report it if another thread updates there too, since
        the result depends on which does so first."""
        access = _Access(frame, at, request, self)
        self._check_plain(access)
        if is_ordered and self._has_updates:
            self._report_order(access, self._found(access, (_UPDATER, _OTHER_UPDATER)))
        self._has_updates = True
        self._stamp_twice(access, _UPDATER, _OTHER_UPDATER)
        if is_ordered:
            self._report_order(access, self._found(access, (_UPDATER, _OTHER_UPDATER)))
        if self.order is not None:
            self.order.access(frame, at, request)

    def fence(self, frame: Frame, inst: Instruction) -> None:
        """Note a fence."""
        if self.order is not None:
            self.order.fence(frame, inst)

    # --- what is found --------------------------------------------------------------------------

    def _check_plain(self, access: _Access) -> None:
        """Report writes by others of what is accessed, and reads of what is changed."""
        if self._written is not None and _overlap(access.range, self._written):
            self._conflicts(access, (_WRITER,))
        if access.request.does == "reads":
            return
        self._note_readers(access.range)
        if self._read is not None and _overlap(access.range, self._read):
            self._conflicts(access, (_READER, _OTHER_READER))

    def _note_readers(self, near: tuple[int, int] | None) -> None:
        """Write the stamps of noted reads that may meet a range of cells."""
        ranges = [r for r in self._noted if near is None or _overlap(r, near)]
        noted = [note for r in ranges for note in self._noted.pop(r)]
        for _, access in sorted(noted, key=itemgetter(0)):
            self._stamp_twice(access, _READER, _OTHER_READER)
            self._read = _joined(self._read, access.range)
            self._noted_bytes -= access.bytes

    def _stamp_twice(self, access: _Access, first: int, second: int) -> None:
        """Remember two threads that do something to each cell, if several do."""
        cells, stamps = access.cells, access.stamps
        firsts = self.cells[first]
        found = firsts.take(cells)
        stale = found < access.floors if self.is_shared else self._is_old(access, found)
        if stale.all():
            firsts[cells] = stamps
            found = firsts.take(cells)
        elif stale.any():
            firsts[cells[stale]] = np.broadcast_to(stamps, cells.shape)[stale]
            found = firsts.take(cells)
        other = found != stamps
        if other.any():
            self.cells[second][cells[other]] = np.broadcast_to(stamps, cells.shape)[other]

    def _is_old(self, access: _Access, found: np.ndarray) -> np.ndarray:
        """Return which stamps are of earlier launches, or of the same block at an earlier epoch."""
        old = found < self.stamps.base
        newer = ~old & (found < access.floors)
        if newer.any():
            old |= newer & self._same_block(access, found)
        return old

    def _same_block(self, access: _Access, found: np.ndarray) -> np.ndarray:
        size = access.frame.batch.warps_of_block * access.frame.shape[1]
        thread = self.stamps.thread
        same = thread(found) // size == thread(access.stamps) // size
        return np.asarray(same)

    def _conflicts(self, access: _Access, roles: tuple[int, ...]) -> None:
        for role in roles:
            if self.cells.has(role):
                found = self.cells[role].take(access.cells)
                if found.max() < access.least:
                    continue
                bad = self._is_other(access, found)
                if role == _WRITER and bad.any():
                    self._drop_ordered(access, found, bad)
                if bad.any():
                    self._report(access, bad, found, role)
                    return

    def _found(
        self, access: _Access, roles: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        for role in roles:
            if self.cells.has(role):
                found = self.cells[role][access.cells]
                bad = (found >= self.stamps.base) & (
                    self.stamps.thread(found) != self.stamps.thread(access.stamps)
                )
                if bad.any():
                    return bad, found
        return None

    def _is_other(self, access: _Access, found: np.ndarray) -> np.ndarray:
        """Return which stamps are of other threads whose accesses nothing orders before these."""
        if self.is_shared:
            return (found >= access.floors) & (found != access.stamps)
        bad = (found >= self.stamps.base) & (found != access.stamps)
        if bad.any():
            other = self.stamps.thread(found) != self.stamps.thread(access.stamps)
            ordered = (found < access.floors) & self._same_block(access, found)
            bad &= other & ~ordered
        return bad

    def _drop_ordered(self, access: _Access, found: np.ndarray, bad: np.ndarray) -> None:
        """Take out of a mask what other blocks have released, and this one has acquired."""
        if self.order is None or self.order.is_empty:
            return
        stamps, size = self.stamps, access.frame.batch.warps_of_block * access.frame.shape[1]
        theirs, when = stamps.thread(found) // size, stamps.epoch(found)
        mine = np.broadcast_to(stamps.thread(access.stamps) // size, bad.shape)
        now = np.broadcast_to(stamps.epoch(access.stamps), bad.shape)
        for block in np.unique(mine[bad]):
            own = bad & (mine == block)
            clock = self.order.known(int(block), int(now[own].min()))
            if clock is not None:
                bad[own] = when[own] >= clock[theirs[own]]

    # --- reports --------------------------------------------------------------------------------

    def _report(self, access: _Access, bad: np.ndarray, found: np.ndarray, role: int) -> None:
        space = "shared" if self.is_shared else "global"
        self._problem(
            access, bad, found, Kind.RACE,
            f"{access.request.does} {space} memory that {{other}} {_DONE_BY[role]} too, "
            "in no certain order",
        )  # fmt: skip

    def _report_order(self, access: _Access, found: tuple[np.ndarray, np.ndarray] | None) -> None:
        if found is not None:
            self._problem(
                access, *found, Kind.UNORDERED_SUM,
                "adds a floating-point number where {other} adds one too: the sum depends on "
                "which is first",
            )  # fmt: skip

    def _problem(
        self, access: _Access, bad: np.ndarray, found: np.ndarray, kind: Kind, message: str
    ) -> None:
        frame = access.frame
        number = int(self.stamps.thread(found[bad][0]))
        size = frame.batch.warps_of_block * frame.shape[1]
        other = f"thread {number % size} of block {self.stamps.block(number // size)}"
        lanes = np.zeros(frame.shape, np.bool_)
        lanes[frame.active] = bad.any(axis=1)
        frame.batch.problem(kind, message.format(other=other), access.request.inst, frame, lanes)


def shared_races(memory: Memory, stamps: Stamps, unit: int) -> Races:
    """Return what watches the shared memory of a batch."""
    cells = Cells()
    cells.prepare(memory.size // unit)
    return Races(cells, stamps, unit, None)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _joined(one: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))
