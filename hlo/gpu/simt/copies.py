"""Asynchronous copies to shared memory: `cp.async`. The data are there when a thread has waited."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hlo.gpu.ptx.records import Immediate, Instruction
from hlo.gpu.simt.access import Resolved, arrive, check_read, check_write, resolver
from hlo.gpu.simt.frame import Frame, Values
from hlo.gpu.simt.memory import COMING, FULL
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.slots import Slots, unsupported
from hlo.gpu.simt.steps import Step, address_of


@dataclass(frozen=True)
class Copy:
    """What lanes have begun to copy.

    at: offsets in shared memory. data: words of 32 bits, in a last axis. group: how many groups
    each lane had committed before. states: what the map says of the bytes of the source, or None
    if all have values.
    """

    frame: Frame
    at: np.ndarray
    data: np.ndarray
    group: np.ndarray
    request: Request
    states: np.ndarray | None = None


def copy(inst: Instruction, slots: Slots) -> Step:
    """`cp.async` and what belongs to it."""
    if inst.modifiers[:1] != ("async",) or "bulk" in inst.modifiers:
        raise unsupported(inst, "only cp.async, not in bulk, is supported")
    if "commit_group" in inst.modifiers:
        return Step(_commit)
    if "wait_all" in inst.modifiers:
        return Step(lambda values, frame: _wait(frame, -1))
    if "wait_group" in inst.modifiers:
        (count,) = inst.operands
        assert isinstance(count, Immediate)
        return Step(lambda values, frame: _wait(frame, count.bits))
    return _begin(inst, slots)


def _begin(inst: Instruction, slots: Slots) -> Step:
    """Begin to copy 4, 8 or 16 bytes; those that the source does not have become 0."""
    target, source, size, *rest = inst.operands
    if not isinstance(size, Immediate):
        raise unsupported(inst, "a size is expected")
    taken = slots.operand(rest[0], np.dtype(np.uint32)) if rest else None
    to, to_offset = address_of(target, slots, inst)
    begin, begin_offset = address_of(source, slots, inst)
    reads, writes = Request(inst, size.bits, "reads"), Request(inst, size.bits, "writes")
    resolve_target = resolver("shared", to, to_offset, writes)
    resolve_source = resolver("global", begin, begin_offset, reads)

    def run(values: Values, frame: Frame) -> None:
        [(view, _, at)] = resolve_target(values, frame)
        at = frame.spread(at)
        check_write(view, frame, at, writes, COMING)
        data = np.zeros((*frame.shape, size.bits // 4), np.uint32)
        # A lane that takes nothing reads nothing, wherever its address may be.
        some = frame if taken is None else frame.guarded(values[taken] > 0, negated=False)
        states = None
        if some is not None:
            data, states = _words(resolve_source(values, some)[0], reads, data)
        if taken is not None:
            word = 4 * np.arange(size.bits // 4)
            data = np.where(word < frame.spread(values[taken])[..., None], data, np.uint32(0))
        batch = frame.batch
        group = frame.of_warps(batch.committed)
        batch.copies.append(Copy(frame, at, data, group, writes, states))

    read = (to, begin) if taken is None else (to, begin, taken)
    return Step(run, read, (), read)


def _words(
    resolved: Resolved, request: Request, data: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return words of the source, those of `data` for other lanes, and the map of them."""
    view, frame, at = resolved
    at = frame.spread(at)
    states = None
    if check_read(view, frame, at, request, request.bytes // 4) is not None:
        states = view.memory.maps[1].reshape(-1, request.bytes).take(at // request.bytes, axis=0)
    rows = view.memory.views[4].reshape(-1, data.shape[-1])
    found = rows.take(at // request.bytes, axis=0)
    if frame.mask is None:
        return found, states
    mask = frame.mask[..., None]
    if states is not None:
        states = np.where(mask, states, np.uint8(FULL))
    return np.where(mask, found, data), states


def _commit(values: Values, frame: Frame) -> None:
    """End a group of copies."""
    batch = frame.batch
    after = batch.committed.copy()
    rows = slice(None) if frame.rows is None else frame.rows
    after[rows] += frame.active
    batch.committed = after


def _wait(frame: Frame, count: int) -> None:
    """Wait until all but the last `count` groups are there, or all copies for a negative count."""
    batch = frame.batch
    if not batch.copies:
        return
    waits = np.zeros((batch.warps, frame.shape[1]), np.bool_)
    waits[slice(None) if frame.rows is None else frame.rows] = frame.active
    before = batch.committed - count if count >= 0 else batch.committed + 1
    rest: list[Copy] = []
    for begun in batch.copies:
        done = begun.frame.of_warps(waits) & (begun.group < begun.frame.of_warps(before))
        done &= begun.frame.active
        finished = int(np.count_nonzero(done))
        if finished:
            _finish(begun, done, finished)
        if finished < begun.frame.count:
            left = begun.frame.active & ~done
            narrowed = begun.frame.narrowed(left, int(np.count_nonzero(left)))
            rest.append(replace(begun, frame=narrowed))
    batch.copies = rest


def _finish(begun: Copy, done: np.ndarray, count: int) -> None:
    # Not the frame of the begin: barriers may have been passed since.
    whole = count == begun.at.size
    frame = Frame(begun.frame.batch, begun.frame.rows, None if whole else done, count)
    view = frame.batch.spaces["shared"]
    at = begun.at if frame.mask is None else np.where(frame.mask, begun.at, 0)
    rows = view.memory.views[4].reshape(-1, begun.data.shape[-1])
    rows[at[done] // begun.request.bytes] = begun.data[done]
    arrive(view, frame, at, begun.request)
    if begun.states is not None:
        states = view.memory.maps[1].reshape(-1, begun.request.bytes)
        states[at[done] // begun.request.bytes] = begun.states[done]
