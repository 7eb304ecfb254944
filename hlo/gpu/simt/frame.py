"""The threads that run a piece of code together, and where their memory is.

Registers are arrays of (warps, lanes); what is equal in all warps has one row, what is equal in all
lanes of a warp one column.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.problems import Kind
from hlo.gpu.simt.request import Request
from hlo.gpu.simt.stamps import Stamps

LANES = 32
# The values of all registers, constants and special registers of a kernel, by slot.
Values = list[np.ndarray]


class Threads(Protocol):
    """The threads of some blocks, of which a frame is a part; see `hlo.gpu.simt.batch`."""

    stamps: Stamps
    spaces: Mapping[str, Any]
    warps: int
    warps_of_block: int
    threads: np.ndarray
    exists: np.ndarray
    epoch: np.ndarray
    shared_base: np.ndarray
    local_base: np.ndarray
    copies: list[Any]
    undefined: Any
    committed: np.ndarray

    def count_access(self, space: str, frame: Frame, at: np.ndarray, request: Request) -> None:
        """Count what lanes of a frame access."""

    def describe(self, offset: int) -> str:
        """Return where an offset in the device's memory is."""

    def problem(
        self, kind: Kind, message: str, inst: Instruction | None, frame: Frame, bad: np.ndarray
    ) -> None:
        """Report what the lanes `bad` of a frame do."""

    def stop(
        self, kind: Kind, message: str, inst: Instruction | None, frame: Frame, bad: np.ndarray
    ) -> None:
        """Report what the lanes `bad` of a frame do, and end the launch."""


class Frame:
    """Warps of a batch, of which the lanes in `mask` are active.

    rows: the numbers of the warps, or None for all. mask: an array of (warps, lanes), or None if
    all lanes are active. count: how many are.
    """

    def __init__(
        self, batch: Threads, rows: np.ndarray | None, mask: np.ndarray | None, count: int
    ) -> None:
        self.batch, self.rows, self.mask, self.count = batch, rows, mask, count
        self.epoch = batch.epoch
        self.warps = batch.warps if rows is None else len(rows)

    @property
    def shape(self) -> tuple[int, int]:
        return self.warps, LANES

    @cached_property
    def active(self) -> np.ndarray:
        """Which lanes are active, as an array."""
        return np.ones(self.shape, np.bool_) if self.mask is None else self.mask

    @cached_property
    def threads(self) -> np.ndarray:
        """The numbers of the threads in the launch, int64."""
        return self.of_warps(self.batch.threads)

    @cached_property
    def stamps(self) -> np.ndarray:
        """The stamps of the threads."""
        return self.spread(self.threads + self.floors)

    @cached_property
    def floors(self) -> np.ndarray:
        """The least stamps of the epochs at which the frame was made."""
        stamps = self.batch.stamps
        return self.of_warps(self.epoch) * stamps.threads + stamps.base

    @cached_property
    def shared_base(self) -> np.ndarray:
        """Where the shared memory of each warp's block begins, int64."""
        return self.of_warps(self.batch.shared_base)

    @cached_property
    def local_base(self) -> np.ndarray:
        """Where the local memory of each thread begins, int64."""
        return self.of_warps(self.batch.local_base)

    def of_warps(self, array: np.ndarray) -> np.ndarray:
        """Return the rows of these warps."""
        return array if self.rows is None or array.shape[0] == 1 else array.take(self.rows, axis=0)

    def spread(self, array: np.ndarray) -> np.ndarray:
        """Return an array with an element for each lane."""
        return array if array.shape == self.shape else np.broadcast_to(array, self.shape)

    def guarded(self, guard: np.ndarray, negated: bool) -> Frame | None:
        """Return the lanes of these whose predicate says so, or None if there is none."""
        taken = ~guard if negated else guard
        if taken.size == 1:
            return self if taken.item() else None
        taken = self.spread(taken) if self.mask is None else taken & self.mask
        count = int(np.count_nonzero(taken))
        if count == self.count:
            return self
        return self.narrowed(taken, count) if count else None

    def narrowed(self, mask: np.ndarray, count: int) -> Frame:
        """Return the same warps with other active lanes."""
        found = Frame(self.batch, self.rows, mask, count)
        for name in ("threads", "stamps", "floors", "shared_base", "local_base"):
            if name in self.__dict__:
                found.__dict__[name] = self.__dict__[name]
        return found
