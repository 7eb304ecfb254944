"""How much memory there is, asked before anything large is allocated."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from hlo.errors import InferError


@functools.cache
def memory_bytes() -> int:
    """Return the bytes of memory that this process may come to use."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system can say
        size = 1 << 36
    try:
        # A container may have less than its machine.
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return size
    return min(size, int(limit)) if limit.isdigit() else size


def check_memory(size_bytes: int, what: str) -> None:
    """Raise InferError, code `out-of-memory`, unless `size_bytes` can be had; `what` needs them."""
    if size_bytes > memory_bytes():
        raise InferError(
            f"{what} takes {size_bytes} bytes, this machine has {memory_bytes()}",
            code="out-of-memory",
        )


def available_bytes() -> int:
    """Return the bytes of memory that can be had now without taking them from other processes."""
    free = memory_bytes()
    try:
        found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
        free = min(free, int(found[1]) << 10) if found else free
    except OSError:  # not Linux
        return free
    try:
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return min(free, memory_bytes() - used)


def check_available(size_bytes: int, what: str) -> None:
    """Raise InferError, code `out-of-memory`, unless `size_bytes` are free; `what` needs them."""
    if size_bytes > available_bytes():
        raise InferError(
            f"{what} takes {size_bytes} bytes, {available_bytes()} are available",
            code="out-of-memory",
        )
