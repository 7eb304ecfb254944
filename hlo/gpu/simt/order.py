"""What orders the accesses of different blocks: atomic accesses to the same memory, and fences.

An atomic write releases what came before it, or before a fence before it; an atomic access that
reads this acquires that for what comes after it, or after a fence after it. Updates hand on what
those before them have released. All of it is among threads of the device: what is only for those of
a block orders no others.

What one thread acquires or releases, barriers make the whole block's: a release is of all accesses
from before the last barrier, an acquisition is for all accesses after the next one. In between, the
thread's own accesses would count, too; they are not, which is the stricter rule.
"""

from __future__ import annotations

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.frame import LANES, Frame
from hlo.gpu.simt.request import Request

# For each block of a launch, how many of its epochs are over. None for none of any block.
Clock = np.ndarray | None
_OF_BLOCK = "cta"
_RELEASES, _ACQUIRES = frozenset(("release", "acq_rel")), frozenset(("acquire", "acq_rel"))


class Order:
    """What the blocks of a launch know of each other. blocks: how many there are."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        # The epoch of each thread's last fence.
        self._fences: dict[int, int] = {}
        # What was released to memory, by offset and size.
        self._released: dict[tuple[int, int], Clock] = {}
        # What threads have read there since their last fence.
        self._read: dict[int, Clock] = {}
        # What each block has acquired, and in which epoch.
        self._acquired: dict[int, list[tuple[int, np.ndarray]]] = {}

    @property
    def is_empty(self) -> bool:
        """True when nothing has been acquired."""
        return not self._acquired

    def known(self, block: int, epoch: int) -> Clock:
        """Return which epochs come before one of a block."""
        found: Clock = None
        for when, clock in self._acquired.get(block, ()):
            if when < epoch:
                found = _later(found, clock)
        return found

    def fence(self, frame: Frame, inst: Instruction) -> None:
        """Note a fence."""
        if _OF_BLOCK in inst.modifiers or "proxy" in inst.modifiers:
            return
        for thread, block, epoch in _threads(frame):
            if "acquire" not in inst.modifiers:
                self._fences[thread] = epoch
            if "release" not in inst.modifiers:
                self._acquire(block, epoch, self._read.pop(thread, None))

    def access(self, frame: Frame, at: np.ndarray, request: Request) -> None:
        """Note an atomic access of lanes, one after the other."""
        inst = request.inst
        releases = not _RELEASES.isdisjoint(inst.modifiers)
        acquires = not _ACQUIRES.isdisjoint(inst.modifiers)
        if not (releases or self._fences or self._released):
            return
        is_wide = _OF_BLOCK not in inst.modifiers
        offsets = frame.spread(at)[frame.active]
        for (thread, block, epoch), offset in zip(_threads(frame), offsets, strict=True):
            place = int(offset), request.bytes
            before = self._released.get(place)
            if is_wide and inst.opcode in ("atom", "ld"):
                if acquires:
                    self._acquire(block, epoch, before)
                elif before is not None:
                    self._read[thread] = _later(self._read.get(thread), before)
            if inst.opcode == "ld":
                continue
            own = self._before(block, epoch if releases else self._fences.get(thread, 0))
            if not is_wide:
                before = own = None
            # What is written over was released to nobody who reads from now on.
            self._released[place] = own if inst.opcode == "st" else _later(before, own)

    def _before(self, block: int, epoch: int) -> Clock:
        """Return what comes before an epoch of a block, its own epochs included."""
        if not epoch:
            return None
        own = np.zeros(self._blocks, np.int64)
        own[block] = epoch
        return _later(self.known(block, epoch), own)

    def _acquire(self, block: int, epoch: int, clock: Clock) -> None:
        if clock is not None:
            self._acquired.setdefault(block, []).append((epoch, clock))


def _later(one: Clock, other: Clock) -> Clock:
    """Return all that is over in one or the other."""
    if one is None or other is None:
        return other if one is None else one
    return np.maximum(one, other)


def _threads(frame: Frame) -> list[tuple[int, int, int]]:
    """Return the active lanes as numbers of threads and blocks, and their epochs."""
    active = frame.active
    threads = frame.spread(frame.threads)[active]
    epochs = frame.spread(frame.of_warps(frame.epoch))[active]
    blocks = threads // (frame.batch.warps_of_block * LANES)
    return [*zip(threads.tolist(), blocks.tolist(), epochs.tolist(), strict=True)]
