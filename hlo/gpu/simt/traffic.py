"""How accesses of warps to memory become transactions of the hardware.

Device memory is accessed by sectors of 32 bytes, shared memory by 32 banks of 4 bytes: lanes of a
warp that want different words of one bank wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.gpu.simt.frame import LANES, Frame

_SECTOR_BYTES = 32
_BANKS_BYTES = 128
# Transactions are counted in so many warps of an access, and for so many runs of an instruction;
# the others are taken to be like these.
_WARPS = 32
_RUNS = 16


@dataclass
class Tally:
    """The accesses of one instruction.

    requests: of warps. lanes: of all of them. transactions, least: those of `sampled` requests, and
    how few they might be for as many different bytes.
    """

    requests: int = 0
    lanes: int = 0
    sampled: int = 0
    transactions: int = 0
    least: int = 0
    runs: int = 0

    def add(self, frame: Frame, at: np.ndarray, size: int, *, is_shared: bool) -> None:
        """Count an access of `size` bytes by each lane of a frame."""
        self.requests += frame.warps
        self.lanes += frame.count
        self.runs += 1
        if self.runs > _RUNS:
            return
        step = -(-frame.warps // _WARPS)
        active = frame.active[::step]
        present = active.any(axis=1)
        active = active[present]
        if not len(active):
            return
        cells = frame.spread(at)[::step][present]
        counts = (_bank_passes if is_shared else _sectors)(cells, active, size)
        self.sampled += len(active)
        self.transactions += counts[0]
        self.least += counts[1]

    def scaled(self, count: int) -> int:
        """Return a count of the sampled requests for all requests."""
        return round(count * self.requests / self.sampled) if self.sampled else 0


def _sectors(at: np.ndarray, active: np.ndarray, size: int) -> tuple[int, int]:
    """Return how many sectors warps touch, and in how many their bytes would fit."""
    sectors = int(np.count_nonzero(_in_order(at // _SECTOR_BYTES, active)[1]))
    different = np.count_nonzero(_in_order(at, active)[1], axis=1) * size
    return sectors, int((-(-different // _SECTOR_BYTES)).sum())


def _bank_passes(at: np.ndarray, active: np.ndarray, size: int) -> tuple[int, int]:
    """Return how many passes over the banks warps need, and how many without conflicts.

    As many lanes as fill all banks are served at once: a quarter of a warp for 16 bytes a lane.
    """
    width = max(4, size)
    banks = _BANKS_BYTES // width
    cells = (at // width).reshape(-1, banks)
    active = active.reshape(-1, banks)
    order, new = _in_order(cells, active)
    groups = len(cells)
    slot = np.arange(groups)[:, None] * banks + order % banks
    passes = np.bincount(slot[new], minlength=groups * banks).reshape(groups, banks).max(axis=1)
    return int(passes.sum()), int(np.count_nonzero(passes))


def _in_order(values: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of each row in order, and which are of active lanes and the first of
    their kind."""
    order = np.where(active, values, -1)
    order.sort(axis=1)
    new = order >= 0
    new[:, 1:] &= order[:, 1:] != order[:, :-1]
    return order, new


assert LANES * 4 == _BANKS_BYTES
