"""How much memory there is, asked before anything large is allocated."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hlo.errors import HloError, InferError

if sys.platform != "win32":
    import resource


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
        size = min(size, int(limit)) if limit.isdigit() else size
    except OSError:
        pass
    return min(size, _address_space())


def _address_space() -> int:
    """Return the bytes that this process may map, a huge number where nothing limits them."""
    if sys.platform == "win32":
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def check_memory(size_bytes: int, what: str) -> None:
    """Raise InferError, code `out-of-memory`, unless `size_bytes` can be had; `what` needs them."""
    if size_bytes > memory_bytes():
        raise InferError(
            f"{what} takes {size_bytes} bytes, there are {memory_bytes()}",
            code="out-of-memory",
        )


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cycle collector from walking a module that grows: up to half of the time.

    Instructions and users point at each other; taking one out cuts that, so that little is left.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Turn MemoryError into HloError, code `out-of-memory`; `what` needs the memory."""
    try:
        yield
    except MemoryError:
        raise HloError.at("out-of-memory", f"not enough memory for {what}") from None


def available_bytes() -> int:
    """Return the bytes of memory that can be had now without taking them from other processes."""
    free = memory_bytes()
    if _address_space() < sys.maxsize:
        with contextlib.suppress(OSError):  # not Linux
            mapped = int(Path("/proc/self/statm").read_text().split()[0])
            free = min(free, _address_space() - mapped * os.sysconf("SC_PAGE_SIZE"))
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
    free = max(0, available_bytes())
    if size_bytes > free:
        raise InferError(
            f"not enough memory for {what}: {size_bytes} bytes, {free} are free",
            code="out-of-memory",
        )
