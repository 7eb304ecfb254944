"""Labels of least total cost for variables that share tables of costs, by eliminating variables.

Each variable has a few labels, each table the cost of every combination of labels of its variables.
A variable whose elimination would make a table too large keeps its first label: the result then is
no worse than all first labels, and otherwise it is the best there is.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

import numpy as np

Table = tuple[tuple[int, ...], np.ndarray]
"""Numbers of variables, ascending, and the cost of each combination of their labels."""

_LARGEST = 1 << 15


def least_labels(counts: Sequence[int], tables: Sequence[Table]) -> list[int]:
    """Return a label for each variable.

    counts: the number of labels of each variable. The first label is taken where others are no
    better.
    """
    return _Elimination(counts, tables).run()


def total_cost(tables: Sequence[Table], labels: Sequence[int]) -> float:
    """Return the sum of the costs of all tables."""
    return float(sum(costs[tuple(labels[v] for v in names)] for names, costs in tables))


class _Elimination:
    def __init__(self, counts: Sequence[int], tables: Sequence[Table]) -> None:
        self.counts = counts
        self.of: list[dict[int, Table]] = [{} for _ in counts]  # tables of a variable, by number
        # The variables that share tables with a variable, and how many.
        self.around: list[Counter[int]] = [Counter() for _ in counts]
        self.made = 0
        # Eliminated variables, with the variables that decide them, and the costs by both.
        self.order: list[tuple[int, tuple[int, ...], np.ndarray]] = []
        for names, costs in tables:
            self._add(names, costs)

    def _add(self, names: tuple[int, ...], costs: np.ndarray) -> None:
        for v in names:
            self.of[v][self.made] = (names, costs)
            self.around[v].update(u for u in names if u != v)
        self.made += 1

    def _drop(self, number: int, names: tuple[int, ...]) -> None:
        for v in names:
            del self.of[v][number]
            for u in names:
                if u != v:
                    self.around[v][u] -= 1
                    if not self.around[v][u]:
                        del self.around[v][u]

    def _size(self, v: int) -> int:
        """Return the size of the table that eliminates a variable; of large ones, a bound."""
        size = self.counts[v]
        for other in self.around[v]:
            size *= self.counts[other]
            if size > _LARGEST:
                break
        return size

    def run(self) -> list[int]:
        heap = [(self._size(v), v) for v in range(len(self.counts))]
        heapq.heapify(heap)
        gone: set[int] = set()
        while heap:
            size, v = heapq.heappop(heap)
            if v in gone:
                continue
            now = self._size(v)
            if now != size:
                heapq.heappush(heap, (now, v))
                continue
            if size > _LARGEST:
                # The variable that most others depend on keeps its first label.
                v = max((v, *self.around[v]), key=lambda u: (len(self.around[u]), -u))
                around = list(self.around[v])
                self._fix(v)
            else:
                around = sorted(self.around[v])
                self._eliminate(v, tuple(around))
            gone.add(v)
            for u in around:
                heapq.heappush(heap, (self._size(u), u))
        labels = [0] * len(self.counts)
        for v, names, costs in reversed(self.order):
            labels[v] = int(np.argmin(costs[tuple(labels[u] for u in names)]))
        return labels

    def _fix(self, v: int) -> None:
        for number, (names, costs) in list(self.of[v].items()):
            rest = tuple(u for u in names if u != v)
            self._drop(number, names)
            if rest:
                self._add(rest, np.take(costs, 0, axis=names.index(v)))

    def _eliminate(self, v: int, around: tuple[int, ...]) -> None:
        names = (*around, v)
        total = np.zeros([self.counts[u] for u in names])
        for number, (of, costs) in list(self.of[v].items()):
            self._drop(number, of)
            # `around` is ascending and `v` goes last: so do the axes of the table.
            at = of.index(v)
            moved = np.moveaxis(costs, at, -1)
            shape = [self.counts[u] if u in of else 1 for u in names]
            total += moved.reshape(shape)
        self.order.append((v, around, total))
        if around:
            self._add(around, total.min(axis=-1))
