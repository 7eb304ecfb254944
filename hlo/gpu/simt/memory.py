"""Memory as bytes, with a map of which of them exist and which hold a value.

One class for all spaces: the device's memory, the shared memory of the blocks that run together,
the local memory of their threads. Its addresses are offsets from its beginning.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect
from collections.abc import Iterator
from typing import Any

import numpy as np

from hlo.errors import HloError

# What the map says of a byte. Not there, without a value, with one, and with one on its way; and
# beside an allocation: it may be read, for nothing, but not written.
ABSENT, EMPTY, FULL, COMING, BESIDE = range(5)
# Compilers read as much at once as is aligned, of which they need a part.
_READ_TOGETHER = 16
# The first bytes of every memory are for the lanes that do not take part in an access.
RESERVED = 256
# Gaps between allocations: an address a little outside is in none.
_GAP = 256
_ALIGNMENT = 256
# Pages of large allocations that are given back go back to the system.
_PAGE, _LARGE = mmap.PAGESIZE, 1 << 20
# MAP_NORESERVE, which Python knows from 3.13 on.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_LARGEST, _SMALLEST = 1 << 36, 1 << 28
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def filled(state: int, width: int) -> int:
    """Return the map of `width` bytes of a state, as one number."""
    return int.from_bytes(bytes([state]) * width, "little")


class Memory:
    """Bytes from 0 to `size`, of which those that are not touched take no memory."""

    def __init__(self, size: int, *, has_map: bool) -> None:
        size = max(-(-size // 4096) * 4096, 4096)
        self.size = size
        self.bytes = lazy_zeros(size)
        self.map = lazy_zeros(size) if has_map else None
        self.views = {width: self.bytes.view(t) for width, t in _UNSIGNED.items()}
        self.maps = {}
        if self.map is not None:
            self.map[:RESERVED] = FULL
            self.maps = {width: self.map.view(t) for width, t in _UNSIGNED.items()}

    def define(self, begin: int, size: int, state: int = EMPTY) -> None:
        """Say what bytes are: none of them, or without a value."""
        if self.map is not None:
            self.map[begin : begin + size] = state

    def forget(self, begin: int, size: int) -> None:
        """Say that bytes are not there any more; their pages take no memory."""
        self.define(begin, size, ABSENT)
        first, last = -(-begin // _PAGE) * _PAGE, (begin + size) // _PAGE * _PAGE
        if last - first < _LARGE:
            return
        for array in (self.bytes, self.map):
            if array is not None and hasattr(mmap, "MADV_DONTNEED"):
                pages: Any = array.base
                pages.obj.madvise(mmap.MADV_DONTNEED, first, last - first)


class Heap:
    """Allocations in a memory, with gaps between them."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.allocations: dict[int, tuple[int, str]] = {}
        self.allocated_bytes = 0
        # Nothing was ever allocated from here on.
        self.end = RESERVED
        # Rooms that were given back, as (begin, end) in order, none beside another.
        self._rooms: list[tuple[int, int]] = []

    def allocate(self, size: int, name: str) -> int:
        """Return the offset of new memory, without values. Raises HloError."""
        needed = _room(size)
        for n, (begin, end) in enumerate(self._rooms):
            if end - begin >= needed:
                rest = [(begin + needed, end)] if end - begin > needed else []
                self._rooms[n : n + 1] = rest
                break
        else:
            begin = self.end
            if begin + needed > self.memory.size:
                raise HloError.at(
                    "too-large", f"{size} bytes for {name or 'an array'} do not fit in the memory"
                )
            self.end += needed
        self.allocations[begin] = (size, name)
        self.allocated_bytes += size
        self.memory.define(begin, size)
        self.memory.define(begin + size, -size % _READ_TOGETHER, BESIDE)
        return begin

    def free(self, begin: int) -> None:
        """Give an allocation back. Raises HloError for what is none."""
        if begin not in self.allocations:
            raise HloError.at("bad-address", "memory that is not allocated is given back")
        size, _ = self.allocations.pop(begin)
        self.allocated_bytes -= size
        self.memory.forget(begin, size + -size % _READ_TOGETHER)
        at = bisect(self._rooms, (begin, begin))
        room = begin, begin + _room(size)
        if at < len(self._rooms) and self._rooms[at][0] == room[1]:
            room = room[0], self._rooms.pop(at)[1]
        if at and self._rooms[at - 1][1] == room[0]:
            room = self._rooms.pop(at - 1)[0], room[1]
            at -= 1
        self._rooms.insert(at, room)

    def describe(self, offset: int) -> str:
        """Return where an offset is, seen from the nearest allocation."""
        nearest = min(self._distances(offset), default=None)
        if nearest is None:
            return "nothing is allocated"
        distance, begin = nearest
        size, name = self.allocations[begin]
        title = f"the {size} bytes of {name or 'an allocation'}"
        at = offset - begin
        if distance == 0:
            return f"byte {at} of {title}"
        return f"{distance} bytes {'before' if at < 0 else 'after the end of'} {title}"

    def _distances(self, offset: int) -> Iterator[tuple[int, int]]:
        for begin, (size, _) in self.allocations.items():
            yield max(begin - offset, offset - (begin + size) + 1, 0), begin


def _room(size: int) -> int:
    """Return what an allocation takes, with the gap after it."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT + _GAP


def lazy_zeros(size: int) -> np.ndarray:
    """Return bytes, 0, that take memory only where they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)


def large_memory(*, has_map: bool) -> Memory:
    """Return the largest memory that the system grants addresses for."""
    size = _LARGEST
    while True:
        try:
            return Memory(size, has_map=has_map)
        except OSError:
            if size == _SMALLEST:
                raise
            size //= 2
