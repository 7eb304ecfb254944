"""Barriers of blocks: who may go on when all threads that are not done wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hlo.gpu.ptx.records import Immediate, Instruction
from hlo.gpu.simt.code import CompiledPiece

# Threads at a barrier of piece n are at `WAITING + n`, those that are done at `DONE`.
WAITING = 1 << 28
DONE = 1 << 29


@dataclass(frozen=True)
class Divergence:
    """Threads of a block that wait at different barriers, none of which lets them pass.

    block: in the batch. threads: how many wait with `thread`, at `inst`; `other_thread` waits at
    `other`.
    """

    block: int
    thread: int
    threads: int
    inst: Instruction
    other_thread: int
    other: Instruction


def passing(at: np.ndarray, pieces: list[CompiledPiece]) -> tuple[np.ndarray, Divergence | None]:
    """Return which threads pass their barriers, and what is wrong.

    at: (blocks, threads), where each thread waits.
    """
    waits = at < DONE
    first = np.where(waits, at, DONE).min(axis=1)
    last = np.where(waits, at, -1).max(axis=1)
    # All threads at the same barrier is the rule.
    passed = waits & (first == last)[:, None]
    for block in np.flatnonzero((first != last) & waits.any(axis=1)):
        groups = [*_complete(at[block], pieces)]
        if not groups:
            return passed, _divergence(at[block], int(block), pieces)
        for group in groups:
            passed[block] |= group
    return passed, None


def _complete(at: np.ndarray, pieces: list[CompiledPiece]) -> Iterator[np.ndarray]:
    """Yield the threads at each barrier for which so many have come as it says."""
    numbers = [int(n) for n in np.unique(at[at < DONE])]
    for number in numbers:
        count = _count(pieces[number - WAITING].end)
        here = at == number
        if count and int(np.count_nonzero(here)) >= count:
            yield here


def _count(inst: Instruction | None) -> int:
    """Return how many threads a barrier waits for, 0 for all."""
    assert inst is not None
    operands = inst.operands
    if len(operands) > 1 and isinstance(operands[1], Immediate):
        return operands[1].bits
    return 0


def _divergence(at: np.ndarray, block: int, pieces: list[CompiledPiece]) -> Divergence:
    thread = int(np.flatnonzero(at < DONE)[0])
    other = int(np.flatnonzero((at < DONE) & (at != at[thread]))[0])
    ends = [pieces[int(at[n]) - WAITING].end for n in (thread, other)]
    assert ends[0] is not None and ends[1] is not None
    count = int(np.count_nonzero(at == at[thread]))
    return Divergence(block, thread, count, ends[0], other, ends[1])
