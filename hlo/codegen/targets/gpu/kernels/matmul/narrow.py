"""Products of a matrix and a few vectors: they take as long as reading the matrix does.

The matrix is A. Where its memory runs along k, the lanes of a warp read a row side by side, and
add up what they have at the end; otherwise neighbouring threads read neighbouring rows. Each has
the sums of a row by all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Product, count
from hlo.codegen.llvm import Index, Val, i64
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.cost import plain_work
from hlo.codegen.targets.gpu.kernels.matmul.operands import Operand, Place, place_at
from hlo.codegen.targets.gpu.kernels.matmul.results import Ending
from hlo.codegen.targets.gpu.kernels.matmul.staging import runs_along_k
from hlo.codegen.targets.gpu.kernels.matmul.sums import parts_of, value_of

_THREADS = 128
# Loads of a thread that wait for memory at a time.
_AHEAD = 4
# Threads that keep a large GPU's memory busy.
_BUSY = 96 * 1024
# Bytes that a lane loads at once.
_LOAD = 16


def narrow(p: Product, ending: Ending, lanes: int) -> NarrowProduct:
    """Return the kernel of a product of few columns, k in parts where rows are too few."""
    rows, depth = count(p.batch) * count(p.m), count(p.k)
    by_lanes = runs_along_k(p, "a")
    vector = max(1, _LOAD // p.a.et.byte_width) if by_lanes else 1
    turn = vector * (lanes if by_lanes else 1) * _AHEAD
    threads = rows * (lanes if by_lanes else 1)
    parts = max(1, min(-(-_BUSY // threads), depth // (4 * turn)))
    each = -(-depth // (parts * turn)) * turn
    return NarrowProduct(p, ending, by_lanes, vector, each)


@dataclass(frozen=True)
class NarrowProduct:
    """A product of few columns.

    by_lanes: whether the lanes of a warp share a row. vector: neighbours along k that a lane loads
    at once. each: of k in a part, a multiple of what is loaded at a time.
    """

    p: Product
    ending: Ending
    by_lanes: bool
    vector: int
    each: int

    @property
    def parts(self) -> int:
        return -(-count(self.p.k) // self.each)

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        b, p = k.b, self.p
        b.is_careful = True
        block = Block(b, k.target)
        rows = count(p.batch) * count(p.m)
        threads = rows * self.parts * (k.target.lanes if self.by_lanes else 1)
        at = block.global_index(_THREADS)
        if self.by_lanes:
            at = b.udiv(at, k.target.lanes)
        with b.when(b.compare("slt", at, rows * self.parts)):
            part, row = split_index(b, at, [self.parts, rows])
            number, line = split_index(b, row, [count(p.batch), count(p.m)])
            batch, left = place_at(b, p.batch, number), place_at(b, p.m, line)
            totals = self._sums(k, block, part, batch, left)
            self._end(k, block, part, batch, left, totals)
        work = plain_work(p, self.ending.sum, self.parts)
        cost = count(p.k) * count(p.n)
        return Grid(rows, cost, -(-threads // _THREADS), _THREADS, 0, work)

    def _sums(
        self, k: Kernel, block: Block, part: Index, batch: Place, row: Place
    ) -> list[list[Val]]:
        """Return the thread's sums, by columns."""
        b, p, sums = k.b, self.p, self.ending.sum
        depth = count(p.k)
        x, y = (Operand(k, p, side, sums.total) for side in "ab")
        columns = [place_at(b, p.n, n) for n in range(count(p.n))]
        side_by_side = block.gpu.lanes if self.by_lanes else 1
        lane = block.index(block.lane()) if self.by_lanes else 0
        turn_size = side_by_side * self.vector * _AHEAD

        def add(first: Index, totals: Sequence[Val], *, is_checked: bool) -> list[Val]:
            places = [
                place_at(b, p.k, b.add(at, v), is_checked=is_checked)
                for n in range(_AHEAD)
                for at in [b.add(first, b.mul(b.add(lane, n * side_by_side), self.vector))]
                for v in range(self.vector)
            ]
            left = [x.at(batch, row, place) for place in places]
            found = _values(totals, sums.parts)
            for place, value in zip(places, left, strict=True):
                for n, column in enumerate(columns):
                    right = y.at(batch, column, place)
                    found[n] = sums.multiply_add(b, value, right, found[n])
            return [part for value in found for part in parts_of(value)]

        begin = b.mul(part, self.each)
        whole = depth // turn_size * turn_size
        end = b.minimum(b.add(begin, self.each), whole)
        zeros = sums.zero() * len(columns)
        with b.carrying(begin, end, zeros, turn_size, plain=True) as turn:
            turn.values = add(turn.index, turn.values, is_checked=False)
        totals = turn.values
        if whole != depth:
            # The last part has what is left; for the others that is beyond the end.
            is_last = b.compare("eq", part, self.parts - 1)
            first = b.select(is_last, i64(whole), i64(depth)).name
            totals = add(first, totals, is_checked=True)
        return [totals[n : n + sums.parts] for n in range(0, len(totals), sums.parts)]

    def _end(
        self, k: Kernel, block: Block, part: Index, batch: Place, row: Place,
        totals: Sequence[Sequence[Val]],
    ) -> None:  # fmt: skip
        """Write the sums, those of lanes added up."""
        b, p, sums = k.b, self.p, self.ending.sum
        for n, total in enumerate(totals):
            column, value = place_at(b, p.n, n), value_of(total)
            if not self.by_lanes:
                self.ending.put(k, p, part, batch, row, column, value)
                continue
            distance = block.gpu.lanes // 2
            while distance:
                others = [block.from_lane_xor(x, distance) for x in parts_of(value)]
                value = sums.add(b, value, value_of(others))
                distance //= 2
            with b.when(b.icmp("eq", block.lane(), 0)):
                self.ending.put(k, p, part, batch, row, column, value)


def _values(parts: Sequence[Val], each: int) -> list[Value]:
    return [value_of(parts[n : n + each]) for n in range(0, len(parts), each)]
