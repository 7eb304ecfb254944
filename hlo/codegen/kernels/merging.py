"""Merge sort with any comparator, stable: short runs by insertion, then pairs of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.codegen import scalar
from hlo.codegen.kernels.variables import Variable, chosen
from hlo.codegen.llvm import TRUE, Builder, Index, Val
from hlo.codegen.scalar import Value

# Runs of so many elements are made by insertion.
RUN = 8

Record = Sequence[Value]


@dataclass(frozen=True)
class MergeSort:
    """Emission of a merge sort of records in memory.

    load, put: read and write the record at a place; two sides of memory are ranges of places.
    less: whether the first record has to come before the second one.
    """

    b: Builder
    load: Callable[[Index], Record]
    put: Callable[[Record, Index], None]
    less: Callable[[Record, Record], Val]

    def sort(self, here: Index, there: Index, count: Index) -> Index:
        """Sort `count` records at `here`; `there` is room for as many. Returns where they end."""
        b = self.b
        with b.loop(0, count, RUN) as first:
            last = b.minimum(b.add(first, RUN), count)
            self.insert(b.add(here, first), b.add(here, last))
        width, source, target = Variable(b, RUN), Variable(b, here), Variable(b, there)
        with b.repeat(lambda: b.compare("slt", width.get(), count)):
            step, old, new = width.get(), source.get(), target.get()
            pair = Variable(b, 0)
            with b.repeat(lambda: b.compare("slt", pair.get(), count)):
                low = pair.get()
                middle = b.minimum(b.add(low, step), count)
                high = b.minimum(b.add(middle, step), count)
                self.merge(
                    b.add(old, low), b.add(old, middle), b.add(old, middle), b.add(old, high),
                    b.add(new, low), b.sub(high, low),
                )  # fmt: skip
                pair.set(high)
            source.set(new)
            target.set(old)
            width.set(b.add(step, step))
        return source.get()

    def insert(self, first: Index, last: Index) -> None:
        """Sort the records from one place to another by insertion."""
        b = self.b
        with b.loop(b.add(first, 1), last) as i:
            record = self.load(i)
            at = Variable(b, i)

            def goes_on() -> Val:
                place = at.get()
                before = self.load(b.maximum(b.sub(place, 1), first))
                return b.both(b.compare("sgt", place, first), self.less(record, before))

            with b.repeat(goes_on):
                place = at.get()
                below = b.sub(place, 1)
                self.put(self.load(below), place)
                at.set(below)
            self.put(record, at.get())

    def merge(
        self, left: Index, left_end: Index, right: Index, right_end: Index, to: Index, count: Index
    ) -> None:
        """Write the first `count` records of two merged runs, of equal ones the left first."""
        b = self.b
        i, j = Variable(b, left), Variable(b, right)
        last_left = b.maximum(b.sub(left_end, 1), left)
        last_right = b.maximum(b.sub(right_end, 1), left)
        with b.loop(0, count) as n:
            x_at, y_at = i.get(), j.get()
            x = self.load(b.minimum(x_at, last_left))
            y = self.load(b.minimum(y_at, last_right))
            passes = b.both(b.compare("slt", y_at, right_end), self.less(y, x))
            takes_right = b.select(b.compare("sge", x_at, left_end), TRUE, passes)
            self.put([scalar.select(b, takes_right, q, p) for p, q in zip(x, y, strict=True)],
                     b.add(to, n))  # fmt: skip
            i.set(chosen(b, takes_right, x_at, b.add(x_at, 1)))
            j.set(chosen(b, takes_right, b.add(y_at, 1), y_at))

    def split(self, left: Index, left_count: Index, right: Index, right_count: Index,
              at: Index) -> Index:  # fmt: skip
        """Return how many of the first `at` records of two merged runs come from the left one."""
        b = self.b
        low = Variable(b, b.maximum(b.sub(at, right_count), 0))
        high = Variable(b, b.minimum(at, left_count))
        with b.repeat(lambda: b.compare("slt", low.get(), high.get())):
            middle = b.udiv(b.add(low.get(), high.get()), 2)
            mine = self.load(b.add(left, middle))
            theirs = self.load(b.add(right, b.sub(b.sub(at, middle), 1)))
            passed = self.less(theirs, mine)
            low.set(chosen(b, passed, low.get(), b.add(middle, 1)))
            high.set(chosen(b, passed, middle, high.get()))
        return low.get()


__all__ = ["RUN", "MergeSort"]
