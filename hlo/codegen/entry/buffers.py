"""Buffers: their origin, live ranges, and offsets in the arena.

A `Buffer` is live from its first to its last position in execution order; buffers with disjoint
live ranges share memory in one arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

import numpy as np

from hlo.codegen.plan.liveness import Storage


class Origin(Enum):
    """Where the memory of a buffer comes from."""

    TEMP = "temp"
    PARAMETER = "parameter"
    OUTPUT = "output"
    SHARED = "shared"  # first an argument, later a result
    CONSTANT = "constant"
    COUNTERS = "counters"  # 0 before each kernel, and after it


@dataclass(eq=False)
class Buffer:
    """Memory for one or more values, live from one position to another, inclusive.

    offset: in the arena, or in the constants. number: of the argument, or the result, whose memory
    it is. space: the memory space, as in layouts. holds: the values written there that may still be
    live. locked: how many conditions of loops are being visited that read values which the loop's
    body reads again.
    """

    size_bytes: int
    origin: Origin
    first: int = 0
    last: int = 0
    offset: int = 0
    number: int = 0
    space: int = 0
    holds: list[Storage] = field(default_factory=list)
    locked: int = 0

    def use(self, position: int) -> None:
        """Extend the live range to a position."""
        self.last = max(self.last, position)

    @property
    def is_writable(self) -> bool:
        return not self.locked and self.origin not in (Origin.PARAMETER, Origin.CONSTANT)


# --- the arena ----------------------------------------------------------------------------------

# The number of buffers that are placed by comparing with all others; the small ones beyond are
# placed in order of definition, which is much faster and wastes little of a small part of the
# arena.
_PLACED_BY_SIZE = 8000


def assign_offsets(buffers: Sequence[Buffer], alignment: int) -> dict[int, tuple[int, int]]:
    """Give every temporary buffer an offset in the arena, a multiple of a power of two.

    Returns the extent of each memory space: buffers of different spaces share no memory.
    """
    temps = [x for x in buffers if x.origin is Origin.TEMP]
    temps.sort(key=lambda x: (-x.size_bytes, x.first))
    parts: dict[int, tuple[int, int]] = {}
    start = 0
    for space in sorted({x.space for x in temps}):
        here = [x for x in temps if x.space == space]
        size = _place_by_size(here[:_PLACED_BY_SIZE], alignment)
        size = _place_in_time(here[_PLACED_BY_SIZE:], size, alignment)
        for buffer in here:
            buffer.offset += start
        parts[space] = (start, start + size)
        start += size
    return parts


def _place_by_size(buffers: Sequence[Buffer], alignment: int) -> int:
    """Place each buffer, the largest first, at the lowest offset that is free in its live range.

    In practice this greedy rule is within a few percent of the peak.
    """
    # First and last position, start and end of those placed so far.
    first, last, low, high = (np.zeros(len(buffers), np.int64) for _ in range(4))
    total = 0
    for n, buffer in enumerate(buffers):
        size = -(-buffer.size_bytes // alignment) * alignment
        together = (first[:n] <= buffer.last) & (last[:n] >= buffer.first)
        starts, ends = low[:n][together], high[:n][together]
        order = np.argsort(starts)
        # The highest occupied offset before each occupied range, and after all of them.
        taken = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
        gaps = np.flatnonzero(starts[order] - taken[:-1] >= size)
        at = int(taken[gaps[0]] if len(gaps) else taken[-1])
        buffer.offset = at
        first[n], last[n], low[n], high[n] = buffer.first, buffer.last, at, at + size
        total = max(total, at + size)
    return total


def _place_in_time(buffers: Sequence[Buffer], start: int, alignment: int) -> int:
    """Place buffers after an offset, in order of definition, in reusable power-of-two blocks."""
    free: dict[int, list[int]] = {}
    dying: list[tuple[int, int, int]] = []
    total = start
    for buffer in sorted(buffers, key=lambda x: x.first):
        while dying and dying[0][0] < buffer.first:
            _, size, offset = heappop(dying)
            free.setdefault(size, []).append(offset)
        size = max(alignment, 1 << (buffer.size_bytes - 1).bit_length())
        if free.get(size):
            buffer.offset = free[size].pop()
        else:
            buffer.offset, total = total, total + size
        heappush(dying, (buffer.last, size, buffer.offset))
    return total
