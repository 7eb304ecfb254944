"""The rows of one stored value over its executions, put together without leaving numpy."""

from __future__ import annotations

import numpy as np

from hlo.debug.trace.series import RECORDS


class PlaceRows:
    """Rows of events of one place: `rows[n]` is of `executions[n]` neighbouring executions.

    order: the number, among all events, of the first of these; last: the row of the last one, for
    the iterations in it. There are at most twice `RECORDS`.
    """

    def __init__(self) -> None:
        self.rows = np.zeros((0, 0), np.int64)
        self.last = self.rows
        self.order = np.zeros(0, np.int64)
        self.executions = np.zeros(0, np.int64)
        self._width = 1

    def add(self, rows: np.ndarray, order: np.ndarray) -> None:
        """Add events in the order of execution."""
        if not len(rows):
            return
        total = int(self.executions.sum()) + len(rows)
        while total > 2 * RECORDS * self._width:
            self._width *= 2
        if len(self.rows):
            rows = np.concatenate([self.rows, rows])
            last = np.concatenate([self.last, rows[len(self.rows) :]])
            order = np.concatenate([self.order, order])
        else:
            last = rows
        executions = np.ones(len(rows), np.int64)
        executions[: len(self.executions)] = self.executions
        # Each record begins at a multiple of the width.
        group = (np.cumsum(executions) - executions) // self._width
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        ends = np.append(starts[1:], len(rows)) - 1
        self.rows = _joined(rows, starts)
        self.last, self.order = last[ends], order[starts]
        self.executions = np.add.reduceat(executions, starts)


def _joined(rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a row for each group of neighbouring ones."""
    joined = rows[starts]
    if len(starts) < len(rows):
        joined[:, 1] = np.minimum.reduceat(rows[:, 1], starts)
        joined[:, 2] = np.maximum.reduceat(rows[:, 2], starts)
        sums = np.ascontiguousarray(rows[:, 3]).view(np.float64)
        joined[:, 3] = np.add.reduceat(sums, starts).view(np.int64)
        joined[:, 4:9] = np.add.reduceat(rows[:, 4:9], starts, axis=0)
    return joined
