"""Available memory, checked before large allocations."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hlo.errors import HloError, InferError

if sys.platform != "win32":
    import resource


# What Python, numpy and LLVM take before any work is done.
LEAST_ADDRESS_SPACE_BYTES = 400_000_000
_LARGE_BYTES = 1 << 28
_CGROUPS = Path("/sys/fs/cgroup")


@functools.cache
def memory_bytes() -> int:
    """Return the bytes of memory that this process may use at most."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on every system
        size = 1 << 36
    # A container may have less than the machine.
    return min([size, address_space_bytes(), *(limit for limit, _ in _group_limits())])


def address_space_bytes() -> int:
    """Return the bytes that this process may map, a huge number if unlimited."""
    if sys.platform == "win32":
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


@functools.cache
def _groups() -> tuple[tuple[Path, str, str], ...]:
    """Return the control groups of this process: folder, file of the limit, file of the usage.

    With their ancestors, and in both versions of Linux's interface.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return ()
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit, usage = _CGROUPS, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root = _CGROUPS / "memory"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the path may be the host's, of which only the root is mounted.
        own = root / path.lstrip("/")
        folders = [f for f in (own, *own.parents) if f.is_relative_to(root)]
        found += [(f, limit, usage) for f in folders if (f / limit).exists()]
    return tuple(found)


def _group_limits() -> Iterator[tuple[int, int]]:
    """Yield the limit of each control group and its usage, without the page cache."""
    for folder, limit_file, usage_file in _groups():
        try:
            limit = (folder / limit_file).read_text().strip()
            if not limit.isdigit() or int(limit) >= 1 << 62:  # "max"
                continue
            used = int((folder / usage_file).read_text())
            held = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        files = sum(int(held.get(kind, 0)) for kind in ("inactive_file", "active_file"))
        yield int(limit), max(0, used - files)


def need_address_space(name: str) -> None:
    """Raise HloError if libraries would fail to load, or abort the process, for lack of memory."""
    limit = address_space_bytes()
    if limit < LEAST_ADDRESS_SPACE_BYTES:
        raise HloError.at(
            "out-of-memory",
            f"this process may use {size_text(limit)} of memory (ulimit -v), {name} needs "
            f"{size_text(LEAST_ADDRESS_SPACE_BYTES)} at least",
        )


def check_memory(size_bytes: int, what: str) -> None:
    """Raise InferError, code `out-of-memory`, unless `what` can have so many bytes."""
    there = _there(size_bytes)
    if size_bytes > there:
        raise InferError(
            f"{what} takes {size_text(size_bytes)} of memory, {size_text(there)} are free",
            code="out-of-memory",
        )


def fits(size_bytes: int) -> bool:
    """Return whether so much memory can be allocated."""
    return size_bytes <= _there(size_bytes)


def _there(size_bytes: int) -> int:
    # Querying free memory takes some time.
    return memory_bytes() if size_bytes < _LARGE_BYTES else available_bytes()


def size_text(size_bytes: int) -> str:
    """Return a number of bytes in readable form: `3.2 GiB`."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} bytes"


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cycle collector, which takes up to half of the time while a module grows.

    Instructions and users refer to each other; removing an instruction breaks such cycles, so
    little garbage accumulates.
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
    """Return the bytes of memory available now without swapping other processes out."""
    free = memory_bytes()
    if address_space_bytes() < sys.maxsize:
        with contextlib.suppress(OSError):  # not Linux
            mapped = int(Path("/proc/self/statm").read_text().split()[0])
            free = min(free, address_space_bytes() - mapped * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError):  # not Linux
        found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
        free = min(free, int(found[1]) << 10) if found else free
    return max(0, min([free, *(limit - used for limit, used in _group_limits())]))


def check_available(what: str, parts: Mapping[str, int], largest: Mapping[str, int] = {}) -> None:
    """Raise HloError, code `out-of-memory`, unless all the memory that something needs is free.

    parts: bytes by purpose. largest: bytes of the elements of the first part, of which the error
    names the largest.
    """
    total, free = sum(parts.values()), available_bytes()
    if total <= free:
        return
    shown = [f"{name} {size_text(size)}" for name, size in parts.items() if size]
    most = sorted((name for name in largest if largest[name]), key=lambda name: -largest[name])
    if len(most) > 1:
        named = ", ".join(f"{name} {size_text(largest[name])}" for name in most[:_SHOWN])
        more = f", {len(most) - _SHOWN} more" if len(most) > _SHOWN else ""
        shown[0] += f" ({named}{more})"
    raise HloError.at(
        "out-of-memory",
        f"{what} takes {size_text(total)} of memory, {size_text(free)} are free: "
        + ", ".join(shown),
    )


# How many of the largest the error names.
_SHOWN = 3


def check_address_space(needed_bytes: int, what: str) -> None:
    """Raise HloError, code `out-of-memory`, if a limit on this process leaves less than needed.

    Native libraries abort the process when an allocation fails.
    """
    if address_space_bytes() < sys.maxsize:
        check_available(what, {"address space, which is limited (ulimit -v),": needed_bytes})


# A stack, and the arena that the system's allocator maps per thread.
_THREAD_BYTES = 144 << 20


def threads_that_fit(count: int, beside_bytes: int) -> int:
    """Return how many threads a limit on this process permits, up to a count.

    beside_bytes: memory that all of them work on together.
    """
    if address_space_bytes() == sys.maxsize:
        return count
    return max(1, min(count, (available_bytes() - beside_bytes) // _THREAD_BYTES))
