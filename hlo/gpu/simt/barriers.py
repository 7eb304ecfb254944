"""Barriers of blocks: who may go on when all threads that are not done wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hlo.gpu.ptx.records import Immediate, Instruction
from hlo.gpu.simt.code import CompiledPiece
from hlo.gpu.simt.frame import LANES

# Threads at a barrier of piece n are at `WAITING + n`, those that are done at `DONE`.
WAITING = 1 << 28
DONE = 1 << 29


@dataclass(frozen=True)
class Stuck:
    """Threads of a block that wait at a barrier which never lets them pass.

    block: in the batch. thread, threads: the first and how many they are. why: what they do.
    """

    block: int
    thread: int
    threads: int
    inst: Instruction
    why: str


def passing(at: np.ndarray, pieces: list[CompiledPiece]) -> tuple[np.ndarray, Stuck | None]:
    """Return which threads pass their barriers, and what is wrong.

    at: (blocks, threads), where each thread waits.
    """
    waits = at < DONE
    first = np.where(waits, at, DONE).min(axis=1)
    last = np.where(waits, at, -1).max(axis=1)
    # All threads at the same barrier, which is for all, is the rule.
    whole = first == last
    for number in np.unique(first[whole & (first < DONE)]):
        if count_of(pieces[int(number) - WAITING].end):
            whole &= first != number
    passed = waits & whole[:, None]
    for block in np.flatnonzero(~whole & waits.any(axis=1)):
        groups = [*_complete(at[block], pieces)]
        if not groups:
            return passed, _stuck(at[block], int(block), pieces)
        for group in groups:
            passed[block] |= group
    return passed, None


def count_of(inst: Instruction | None) -> int:
    """Return how many threads a barrier waits for, 0 for all."""
    assert inst is not None
    operands = inst.operands
    if len(operands) > 1 and isinstance(operands[1], Immediate):
        return operands[1].bits
    return 0


def _complete(at: np.ndarray, pieces: list[CompiledPiece]) -> Iterator[np.ndarray]:
    """Yield the threads at each barrier for which so many have come as it says."""
    for number in np.unique(at[at < DONE]):
        count = count_of(pieces[int(number) - WAITING].end)
        here = at == number
        if count and _in_whole_warps(here) >= count:
            yield here


def _in_whole_warps(here: np.ndarray) -> int:
    """Return how many threads have come, as barriers count them: all of a warp for one of it."""
    return int(np.count_nonzero(here.reshape(-1, LANES).any(axis=1))) * LANES


def _stuck(at: np.ndarray, block: int, pieces: list[CompiledPiece]) -> Stuck:
    thread = int(np.flatnonzero(at < DONE)[0])
    here = at == at[thread]
    inst = pieces[int(at[thread]) - WAITING].end
    assert inst is not None
    others = np.flatnonzero((at < DONE) & ~here)
    if len(others):
        other = pieces[int(at[others[0]]) - WAITING].end
        assert other is not None
        why = f"while thread {others[0]} of the block waits at that of PTX line {other.line}"
    else:
        why = f"for {count_of(inst)} threads, but only {_in_whole_warps(here)} are there"
    return Stuck(block, thread, int(np.count_nonzero(here)), inst, f"waits at a barrier {why}")
