"""Allocation of results and temporaries: aligned, with reuse of large blocks.

Fresh memory is expensive: the system zeroes every page on its first use, which takes longer than
many of the kernels that fill it. Large blocks therefore return to a free list when the last array
that refers to them is gone, and serve the next call.
"""

from __future__ import annotations

import mmap
from collections import deque

import numpy as np

from hlo.errors import HloError

ALIGNMENT = 64
# Blocks of at least this size are mapped separately, and kept for reuse.
_LARGE = 1 << 20
# Python maps shared memory by default, whose page faults take 1.5 times as long. Huge pages are
# not requested: where the system has to assemble them first, that takes twice as long.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
# Two blocks of each size serve a caller that keeps one result while it computes the next.
_KEPT = 2


def block(size_bytes: int) -> np.ndarray:
    """Return uninitialized memory of at least one byte at an aligned address."""
    if size_bytes >= _LARGE:
        return np.frombuffer(_mapped(size_bytes), np.uint8)
    raw = np.empty(max(1, size_bytes) + ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT
    return raw[skip : skip + max(1, size_bytes)]


def _mapped(size_bytes: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size_bytes, **_PRIVATE)
    except OSError:
        raise HloError.at("out-of-memory", f"not enough memory for {size_bytes} bytes") from None


class _Lent(np.ndarray):
    """Memory that returns to its free list when no array refers to it any more."""

    home: deque[mmap.mmap] | None = None

    def __del__(self) -> None:
        if self.home is not None:
            self.home.append(self.base)  # type: ignore[arg-type]


class Supply:
    """Allocator of blocks of one size. Arrays may outlive it."""

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._home: deque[mmap.mmap] | None = None
        if size_bytes >= _LARGE:
            self._home = deque(maxlen=_KEPT)

    def take(self) -> np.ndarray:
        """Return uninitialized bytes at an aligned address."""
        if self._home is None:
            return block(self._size)
        try:
            memory = self._home.pop()
        except IndexError:
            memory = _mapped(self._size)
        lent = np.ndarray.__new__(_Lent, (self._size,), np.uint8, memory)
        lent.home = self._home
        return lent
