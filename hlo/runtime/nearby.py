"""Space in the process where the sections of an object file come to lie close together.

LLVM's loader maps code and constants of an object separately, wherever the system puts them, but
the code reaches constants by offsets of 32 bits. In a process with large arrays the code may fall
into a small hole between mappings while the constants find none for gigabytes; LLVM then ends the
process. https://github.com/llvm/llvm-project/issues/71963 is about that.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Iterator
from functools import cache

_PROT_NONE = 0
_MAP_NORESERVE = 0x4000
_FAILED = ctypes.c_void_p(-1).value
# How far apart sections may lie: offsets reach a little farther.
_NEAR = (1 << 31) - (1 << 20)


@contextlib.contextmanager
def contiguous_space(size: int) -> Iterator[None]:
    """Have mappings that are made in the body lie close together, if their sizes add up to `size`.

    Linux takes the highest hole that fits. Where the highest hole of all is far above the one of
    this size, those between are occupied meanwhile. Does nothing on other systems, and where the
    address space is used up.
    """
    if sys.platform != "linux":
        yield
        return
    libc = _libc()

    def occupy(length: int) -> int | None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        found = libc.mmap(None, length, _PROT_NONE, flags, -1, 0)
        return None if found == _FAILED else found

    occupied: list[tuple[int, int]] = []
    try:
        length = whole = 1 << max(size - 1, mmap.PAGESIZE).bit_length()
        hole, top = occupy(whole), occupy(mmap.PAGESIZE)
        if top is not None:
            libc.munmap(top, mmap.PAGESIZE)
        if hole is not None:
            while (top is None or top - hole > _NEAR) and length > mmap.PAGESIZE:
                length //= 2
                while (found := occupy(length)) is not None and found > hole:
                    occupied.append((found, length))
                if found is not None:
                    libc.munmap(found, length)
            libc.munmap(hole, whole)
        yield
    finally:
        for address, taken in occupied:
            libc.munmap(address, taken)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
