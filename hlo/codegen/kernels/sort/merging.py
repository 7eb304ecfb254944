"""Merge sort with any comparator, stable: short runs by insertion, then pairs of runs.

A comparator need not be an order: NaN is neither before nor after anything, and `LE` puts equal
elements before each other. So when a merge is divided, the bounds of each part are found by search
and hold whatever its comparisons return: the result is always a permutation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.variables import Variable, chosen
from hlo.codegen.llvm import TRUE, Builder, Index, Val
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value

# Runs of so many elements are sorted by insertion.
RUN = 8
# Cost of merging one more record, in approximate scalar operations.
_RECORD_COST = 8

Record = Sequence[Value]


@dataclass(frozen=True)
class MergeSort:
    """Emission of a merge sort of records in memory.

    load, put: read and write the record at a position; both buffers are ranges of positions.
    less: whether the first record is ordered before the second one.
    """

    b: Builder
    load: Callable[[Index], Record]
    put: Callable[[Record, Index], None]
    less: Callable[[Record, Record], Val]

    def sort(self, here: Index, there: Index, count: Index) -> Index:
        """Sort `count` records at `here`, with a buffer at `there`. Returns where they end up."""
        b = self.b
        with b.loop(0, count, RUN, plain=True) as first:
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
                self.merge_whole(
                    b.add(old, low), b.add(old, middle), b.add(old, high), b.add(new, low)
                )
                b.poll(b.mul(b.sub(high, low), _RECORD_COST))
                pair.set(high)
            source.set(new)
            target.set(old)
            width.set(b.add(step, step))
        return source.get()

    def insert(self, first: Index, last: Index) -> None:
        """Sort a range of records by insertion."""
        b = self.b
        with b.loop(b.add(first, 1), last, plain=True) as i:
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
        self, left: Index, left_end: Index, right: Index, right_end: Index, to: Index,
        count: Index | None = None,
    ) -> None:  # fmt: skip
        """Merge two runs stably, or the first `count` records of the result."""
        b = self.b
        cursor = _Cursor(self, left, left_end, right, right_end)
        if count is None:
            count = b.add(b.sub(left_end, left), b.sub(right_end, right))
        with b.loop(0, count, plain=True) as n:
            cursor.step(b.add(to, n))

    def merge_whole(self, left: Index, right: Index, right_end: Index, to: Index) -> None:
        """Merge two adjacent runs.

        Both halves of the result are merged in one loop, since a step depends on the previous one
        of its half only.
        """
        b = self.b
        count = b.sub(right_end, left)
        half = b.udiv(count, 2)
        first = self.split(
            left, right, half, b.maximum(b.sub(half, b.sub(right_end, right)), 0),
            b.minimum(half, b.sub(right, left)),
        )  # fmt: skip
        left_half, right_half = b.add(left, first), b.add(right, b.sub(half, first))
        low = _Cursor(self, left, left_half, right, right_half)
        high = _Cursor(self, left_half, right, right_half, right_end)
        with b.loop(0, half, plain=True) as n:
            low.step(b.add(to, n))
            high.step(b.add(to, b.add(half, n)))
        with b.loop(b.add(half, half), count, plain=True) as n:
            high.step(b.add(to, n))

    def split(self, left: Index, right: Index, at: Index, least: Index, most: Index) -> Index:
        """Return how many of the first `at` records of two merged runs come from the left one.

        least, most: bounds of the result. Both runs must have as many records as these require.
        """
        b = self.b
        low, high = Variable(b, least), Variable(b, most)
        with b.repeat(lambda: b.compare("slt", low.get(), high.get())):
            middle = b.udiv(b.add(low.get(), high.get()), 2)
            mine = self.load(b.add(left, middle))
            theirs = self.load(b.add(right, b.sub(b.sub(at, middle), 1)))
            passed = self.less(theirs, mine)
            low.set(chosen(b, passed, low.get(), b.add(middle, 1)))
            high.set(chosen(b, passed, middle, high.get()))
        return low.get()

    def part(
        self, left: Index, left_count: Index, right: Index, count: Index, span: Index,
        before: Index, each: int,
    ) -> tuple[Index, Index]:  # fmt: skip
        """Return where in the left run the records of a part of two merged runs begin and end.

        span: the length of the pair of runs if the second one is complete; count: the actual
        length. before: where the part begins, a multiple of `each`, the most records that it has.
        The middle of the pair is found first, then that of the half with the part, and so on, so
        that all parts are consistent even if the comparator is not an order.
        """
        b = self.b
        start, size = Variable(b, 0), Variable(b, span)
        low, high, end = Variable(b, 0), Variable(b, left_count), Variable(b, count)
        with b.repeat(lambda: b.compare("sgt", size.get(), each)):
            half = b.udiv(size.get(), 2)
            at = b.add(start.get(), half)
            size.set(half)
            with b.when(b.compare("slt", at, count)):
                least = b.maximum(low.get(), b.sub(high.get(), b.sub(end.get(), at)))
                most = b.minimum(high.get(), b.add(low.get(), b.sub(at, start.get())))
                found = self.split(left, right, at, least, most)
                follows = b.compare("sge", before, at)
                low.set(chosen(b, follows, found, low.get()))
                start.set(chosen(b, follows, at, start.get()))
                high.set(chosen(b, follows, high.get(), found))
                end.set(chosen(b, follows, end.get(), at))
        return low.get(), high.get()


class _Cursor:
    """The state of a merge: the current record of each run."""

    def __init__(
        self, sort: MergeSort, left: Index, left_end: Index, right: Index, right_end: Index
    ) -> None:
        b = sort.b
        self.sort = sort
        self.left_end, self.right_end = left_end, right_end
        # An exhausted run is still read, at an existing record: the last one of either run, since
        # one of them may be empty.
        has_left, has_right = b.compare("slt", left, left_end), b.compare("slt", right, right_end)
        self.last_left = b.sub(chosen(b, has_left, left_end, right_end), 1)
        self.last_right = b.sub(chosen(b, has_right, right_end, left_end), 1)
        self.i, self.j = Variable(b, left), Variable(b, right)

    def step(self, to: Index) -> None:
        """Write the next record."""
        b, sort = self.sort.b, self.sort
        i, j = self.i.get(), self.j.get()
        x = sort.load(b.minimum(i, self.last_left))
        y = sort.load(b.minimum(j, self.last_right))
        passes = b.both(b.compare("slt", j, self.right_end), sort.less(y, x))
        takes_right = b.select(b.compare("sge", i, self.left_end), TRUE, passes)
        taken = [scalar.select(b, takes_right, q, p) for p, q in zip(x, y, strict=True)]
        sort.put(taken, to)
        self.i.set(chosen(b, takes_right, i, b.add(i, 1)))
        self.j.set(chosen(b, takes_right, b.add(j, 1), j))
