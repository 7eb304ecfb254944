"""Merges of sorted runs of long rows: a block a tile of the result.

A pass makes runs twice as long. All passes are the same two kernels, from one of two arrays of
records to the other and back: the length of runs is in the device's memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.kernels.variables import chosen
from hlo.codegen.llvm import Index, i64
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Grid
from hlo.codegen.targets.gpu.kernels.sort.cost import MERGE, work_of
from hlo.codegen.targets.gpu.kernels.sort.records import Rows, Sorting, Words
from hlo.codegen.targets.gpu.kernels.sort.tiles import (
    SortTiles,
    Tile,
    TileSorter,
    merge_sort,
    part_of,
    tile_for,
)
from hlo.ir import Instruction


@dataclass(frozen=True)
class MergeRuns:
    """Merge pairs of runs. side: of the array that they are in. is_last: write the results."""

    sorting: Sorting
    tile: Tile
    side: int
    is_last: bool

    def __call__(self, k: Kernel) -> Grid:
        s = TileSorter(k, self.sorting, self.tile)
        b, size, rows = s.b, self.tile.size, s.rows
        cuts = -(-rows.length // size)
        at = s.block.block_index()
        row, first = b.udiv(at, cuts), b.mul(b.urem(at, cuts), size)
        count = b.minimum(b.sub(rows.length, first), size)
        run = b.load("i64", s.run_word(self.side)).name
        pair = b.add(run, run)
        low = b.binary("and", i64(first), b.sub(0, pair)).name
        middle = b.minimum(b.add(low, run), rows.length)
        high = b.minimum(b.add(low, pair), rows.length)
        scratch, array = s.scratch(), rows.count * rows.length
        old = b.add(b.mul(row, rows.length), self.side * array)
        new = b.add(b.mul(row, rows.length), (1 - self.side) * array)
        left, right = b.add(old, low), b.add(old, middle)
        before = b.sub(first, low)
        ends = self._ends(
            s, scratch, (left, b.sub(middle, low), right, b.sub(high, low)), pair, before, count
        )
        from_left, left_end = ends
        left_count = b.sub(left_end, from_left)
        with b.loop(s.thread, count, self.tile.threads) as n:
            other = b.add(b.add(right, b.sub(before, from_left)), b.sub(n, left_count))
            is_left = b.compare("slt", n, left_count)
            source = chosen(b, is_left, b.add(b.add(left, from_left), n), other)
            s.words.put(scratch.load(source), n)
        s.block.barrier()
        mine = b.mul(s.thread, self.tile.each)
        here = b.minimum(b.sub(count, mine), self.tile.each)
        with b.when(b.compare("sgt", here, 0)):
            s.merge_between(0, left_count, left_count, count, size, mine, here, b.add(mine, size))
        s.block.barrier()
        with b.loop(s.thread, count, self.tile.threads) as n:
            record, place = s.words.load(b.add(n, size)), b.add(first, n)
            if self.is_last:
                s.records.write(row, place, record)
            else:
                scratch.put(record, b.add(new, place))
        is_first = b.both(s.block.is_first_thread(), b.icmp("eq", s.block.block(), 0))
        with b.when(is_first):
            b.store(i64(pair), s.run_word(1 - self.side))
        work = work_of(
            rows, rows.count * rows.length, MERGE, reads_elements=False,
            writes_elements=self.is_last, shared_accesses=6,
            rounds=2 + rows.length.bit_length(),
        )  # fmt: skip
        blocks = rows.count * cuts
        return Grid(blocks, 1.0, blocks, self.tile.threads, work=work, is_final=True)

    def _ends(
        self, s: TileSorter, scratch: Words, runs: tuple[Index, Index, Index, Index], span: Index,
        before: Index, count: Index,
    ) -> tuple[Index, Index]:  # fmt: skip
        """Return which records of the left run the tile has: a thread searches for all."""
        b, block = s.b, s.block
        found = block.shared_array("i64", 2)
        sort = merge_sort(b, scratch, s.records)
        with b.when(block.is_first_thread()):
            ends = part_of(
                b, sort, *runs, span, before, count, self.tile.size, is_order=s.records.is_order
            )
            for n, end in enumerate(ends):
                b.store(i64(end), b.element_address(found, "i64", n))
        block.barrier()
        first, last = (b.load("i64", b.element_address(found, "i64", n)).name for n in range(2))
        return first, last


def plan_merges(inst: Instruction, sorting: Sorting) -> Plan:
    """Plan the sort of rows that are longer than a tile."""
    rows: Rows = sorting.rows(inst)
    tile = tile_for(rows)
    passes = (-(-rows.length // tile.size) - 1).bit_length()
    merges = [MergeRuns(sorting, tile, n % 2, n == passes - 1) for n in range(passes)]
    return Plan((SortTiles(sorting, tile), *merges), (*rows.scratch_bytes, 16))
