"""Loads and stores: addresses of lanes to offsets in a memory, and what is checked of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.gpu.simt.frame import Frame, Values
from hlo.gpu.simt.layout import GLOBAL_BASE, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BITS
from hlo.gpu.simt.memory import ABSENT, BESIDE, COMING, EMPTY, FULL, Memory, filled
from hlo.gpu.simt.problems import Kind
from hlo.gpu.simt.races import Races
from hlo.gpu.simt.request import Request

# The window of generic addresses of each space; what is in none of them is the device's memory.
_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
_FIRST = {"global": GLOBAL_BASE, "const": GLOBAL_BASE, "shared": 0, "local": 0}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass
class Space:
    """A memory as threads see it: addresses from `first` to `first + size`, from each one's base.

    base: the name of an array of the frame with where the memory of each warp or thread begins.
    races: watches what threads do with it, or None.
    """

    name: str
    memory: Memory
    first: int
    size: int
    base: str = ""
    races: Races | None = None


# From an address in a register to a space and offsets in its memory; both for the lanes of a frame.
Resolved = tuple[Space, Frame, np.ndarray]
Resolver = Callable[[Values, Frame], list[Resolved]]


def resolver(space: str, slot: int, offset: int, request: Request) -> Resolver:
    """Return what finds the memory of an address: `offset` bytes from what a register says.

    space: `global`, `shared`, ..., or an empty text for generic addresses. Lanes that are not
    active get offset 0, where a memory has room for them.
    """
    name = "global" if space == "const" else space

    def direct(values: Values, frame: Frame) -> list[Resolved]:
        view = frame.batch.spaces[name]
        relative = values[slot].astype(np.int64)
        relative += offset - view.first
        return [(view, frame, offsets(view, frame, relative, request))]

    def generic(values: Values, frame: Frame) -> list[Resolved]:
        address = values[slot] + np.uint64(offset % (1 << 64))
        return resolve_generic(address, frame, request)

    return direct if name else generic


def resolve_generic(address: np.ndarray, frame: Frame, request: Request) -> list[Resolved]:
    """Return the spaces of generic addresses, each with the lanes that have addresses in it."""
    window = address >> np.uint64(WINDOW_BITS)
    if window.size > 1 and frame.mask is not None:
        window = np.where(frame.mask, window, window[frame.spread(window) >= 0].max())
        active = frame.spread(address >> np.uint64(WINDOW_BITS))[frame.mask]
        window = np.where(frame.mask, window, active[0])
    found: list[Resolved] = []
    rest = np.ones_like(window, np.bool_)
    for name in ("shared", "local", "global"):
        view = frame.batch.spaces[name]
        inside = rest if name == "global" else window == (_WINDOWS[name] >> WINDOW_BITS)
        rest = rest & ~inside
        if not inside.any():
            continue
        some = frame if inside.all() else frame.guarded(inside, negated=False)
        if some is not None:
            relative = address.astype(np.int64)
            relative -= _WINDOWS.get(name, view.first)
            found.append((view, some, offsets(view, some, relative, request)))
    return found


def offsets(view: Space, frame: Frame, relative: np.ndarray, request: Request) -> np.ndarray:
    """Return offsets in a memory, from those that threads see. Raises HloError for bad ones."""
    size = request.bytes
    unsigned = relative.view(np.uint64)
    limit = view.size - size
    if limit < 0 or unsigned.max() > limit:
        outside = (unsigned > limit) | (limit < 0)
        bad = frame.active & outside
        if bad.any():
            _out_of_bounds(view, frame, relative, bad, request)
    if view.base:
        relative = relative + getattr(frame, view.base)
    if frame.mask is not None and relative.size > 1:
        relative = np.where(frame.mask, relative, 0)
    if size > 1 and int(np.bitwise_or.reduce(relative, axis=None)) & (size - 1):
        bad = frame.active & (relative & (size - 1) != 0)
        if bad.any():
            frame.batch.stop(
                Kind.MISALIGNED,
                f"{request.does} {size} bytes of {view.name} memory at an address that is no "
                f"multiple of {size}",
                request.inst, frame, bad,
            )  # fmt: skip
    return relative


def _out_of_bounds(
    view: Space, frame: Frame, relative: np.ndarray, bad: np.ndarray, request: Request
) -> None:
    """Stop: lanes are outside of a memory, or where nothing is in it."""
    lanes = frame.spread(relative)
    at = int(lanes[bad][0])
    batch = frame.batch
    where = f"address {at}"
    if view.name == "global":
        where = f"address 0x{(at + view.first) % (1 << 64):x}, {batch.describe(at)}"
    elif view.name == "shared":
        where = f"address {at} of {view.size} bytes"
    batch.stop(
        Kind.OUT_OF_BOUNDS,
        f"{request.does} {request.bytes} bytes outside of {view.name} memory ({where})",
        request.inst, frame, bad,
    )  # fmt: skip


# --- what is there --------------------------------------------------------------------------------


def check_read(
    view: Space, frame: Frame, at: np.ndarray, request: Request, count: int = 1
) -> np.ndarray | None:
    """Check that there is memory at offsets, and that no other thread writes to it.

    Returns where nothing was written to it, for each lane and each of `count` parts, or None if
    there are values everywhere.
    """
    memory = view.memory
    if not memory.maps:
        return None
    bad = None
    frame.batch.count_access(view.name, frame, at, request)
    width = min(request.bytes, 8)
    for part in range(0, request.bytes, width):
        states = memory.maps[width].take((at + part if part else at) // width)
        if (states != filled(FULL, width)).any():
            _bad_read(view, frame, at + part, states, request)
            bad = _empty_parts(memory, frame, at, request.bytes, count)
    if view.races is not None:
        access = view.races.update if request.is_atomic else view.races.read
        access(frame, at, request)
    return bad


def check_write(view: Space, frame: Frame, at: np.ndarray, request: Request, state: int) -> None:
    """Check that there is memory at offsets, and that no other thread uses it; then it has values.

    state: what the map says from now on, FULL or COMING.
    """
    memory = view.memory
    if memory.map is None:
        return
    frame.batch.count_access(view.name, frame, at, request)
    width = min(request.bytes, 8)
    for part in range(0, request.bytes, width):
        index = (at + part if part else at) // width
        states = memory.maps[width].take(index)
        if (states != filled(state, width)).any():
            absent = _has_byte(states, ABSENT, width) | _has_byte(states, BESIDE, width)
            absent = absent & frame.active
            if absent.any():
                _absent(view, frame, at + part, absent, request)
            coming = _has_byte(states, COMING, width) & frame.active
            if coming.any() and state != COMING:
                frame.batch.problem(
                    Kind.UNFINISHED_COPY,
                    f"writes {view.name} memory to which cp.async has not finished to copy",
                    request.inst, frame, coming,
                )  # fmt: skip
            memory.maps[width][index] = filled(state, width)
            if frame.mask is not None:
                memory.map[:16] = FULL
    if view.races is not None:
        access = view.races.update if request.is_atomic else view.races.write
        access(frame, at, request)


def arrive(view: Space, frame: Frame, at: np.ndarray, request: Request) -> None:
    """Let memory have the values that were on their way to it."""
    memory = view.memory
    if memory.map is not None:
        width = min(request.bytes, 8)
        for part in range(0, request.bytes, width):
            memory.maps[width][(at + part) // width] = filled(FULL, width)
    if view.races is not None:
        view.races.arrive(frame, at, request)


def check_atomic(
    view: Space, frame: Frame, at: np.ndarray, request: Request, is_ordered: bool
) -> None:
    """Check an atomic update. is_ordered: the result depends on the order of threads."""
    memory = view.memory
    if not memory.maps:
        return
    frame.batch.count_access(view.name, frame, at, request)
    states = memory.maps[request.bytes].take(at // request.bytes)
    if (states != filled(FULL, request.bytes)).any():
        _bad_read(view, frame, at, states, request)
        _report_empty(view, frame, states, request)
    if view.races is not None:
        view.races.update(frame, at, request, is_ordered=is_ordered)


def _bad_read(
    view: Space, frame: Frame, at: np.ndarray, states: np.ndarray, request: Request
) -> None:
    width = states.itemsize
    active, batch = frame.active, frame.batch
    absent = _has_byte(states, ABSENT, width) & active
    if absent.any():
        _absent(view, frame, at, absent, request)
    coming = _has_byte(states, COMING, width) & active
    if coming.any():
        batch.problem(
            Kind.UNFINISHED_COPY,
            f"reads {view.name} memory to which cp.async has not finished to copy",
            request.inst, frame, coming,
        )  # fmt: skip


def _report_empty(view: Space, frame: Frame, states: np.ndarray, request: Request) -> None:
    """Report updates of memory without a value, or beside an allocation."""
    width = states.itemsize
    bad = (_has_byte(states, EMPTY, width) | _has_byte(states, BESIDE, width)) & frame.active
    if bad.any():
        frame.batch.problem(
            Kind.UNINITIALIZED,
            f"{request.does} {view.name} memory that nothing was written to",
            request.inst, frame, bad,
        )  # fmt: skip


def _empty_parts(
    memory: Memory, frame: Frame, at: np.ndarray, size: int, count: int
) -> np.ndarray | None:
    """Return masks of the bytes without a value, in equal parts of accesses, or None for none."""
    width = size // count
    states = memory.maps[width].reshape(-1, count).take(at // size, axis=0)
    flags = _bytes_with(states, EMPTY, width) | _bytes_with(states, BESIDE, width)
    flags = np.broadcast_to(flags * states.dtype.type(0xFF), (*frame.shape, count))
    return flags if (flags.astype(np.bool_) & frame.active[..., None]).any() else None


def empty(memory: Memory, frame: Frame, at: np.ndarray, source: int, width: int) -> None:
    """Say that memory to which undefined bits were stored has no value there."""
    bits = frame.batch.undefined.of(frame, source)
    if bits is None:
        return
    bits = bits.astype(UNSIGNED[width])
    bad = bits.astype(np.bool_) & frame.active
    lost = bits[bad].view(np.uint8) != 0
    states = np.where(lost, np.uint8(EMPTY), np.uint8(FULL)).view(UNSIGNED[width])
    memory.maps[width][frame.spread(at)[bad] // width] = states


def _absent(view: Space, frame: Frame, at: np.ndarray, bad: np.ndarray, request: Request) -> None:
    relative = at - getattr(frame, view.base) if view.base else at
    _out_of_bounds(view, frame, relative, bad, request)


def _has_byte(states: np.ndarray, state: int, width: int) -> np.ndarray:
    """Return which elements have a byte of a state."""
    return np.asarray(_bytes_with(states, state, width) != 0)


def _bytes_with(states: np.ndarray, state: int, width: int) -> Any:
    """Return elements with a 1 in each byte of a state."""
    ones: Any = states.dtype.type(filled(1, width))
    for bit in range(3):
        shifted = states >> states.dtype.type(bit)
        ones = ones & (shifted if state >> bit & 1 else ~shifted)
    return ones


# --- values ---------------------------------------------------------------------------------------


def fetch(memory: Memory, at: np.ndarray, width: int) -> np.ndarray:
    """Return the elements of `width` bytes at offsets."""
    return memory.views[width].take(at // width)


def fetch_several(memory: Memory, at: np.ndarray, width: int, count: int) -> np.ndarray:
    """Return `count` elements at each offset, in a last axis."""
    rows = memory.views[width].reshape(-1, count)
    return rows.take(at // (width * count), axis=0)


def put(memory: Memory, frame: Frame, at: np.ndarray, parts: list[np.ndarray], width: int) -> None:
    """Write elements of `width` bytes at offsets, one after the other; the last lane prevails."""
    count = len(parts)
    index = frame.spread(at // (width * count))
    if count == 1:
        values = frame.spread(parts[0])
        target = memory.views[width]
    else:
        values = np.empty((*frame.shape, count), UNSIGNED[width])
        for n, part in enumerate(parts):
            values[..., n] = part
        target = memory.views[width].reshape(-1, count)
    if frame.mask is None:
        target[index] = values
    else:
        target[index[frame.mask]] = values[frame.mask]
