"""Tiles of records that a block sorts in shared memory.

Each thread sorts a few records by insertion. Then pairs of runs are merged, until a run is a whole
row: each thread merges an equal part of the result, whose beginning in both runs it finds by
search (the merge path).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.kernels.sort.merging import MergeSort
from hlo.codegen.kernels.variables import Variable, chosen
from hlo.codegen.llvm import Builder, Index, Val, i64
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.sort.cost import DOUBLING, FIRST, work_of
from hlo.codegen.targets.gpu.kernels.sort.records import Record, Records, Rows, Sorting, Words

# What a block's two arrays of records take of its shared memory, and the most records of a tile.
_SHARED_BYTES, _MOST_RECORDS = 32 << 10, 2048
# Records that a thread merges, and those of a tile of short rows: small tiles make many blocks.
_EACH, _WANTED_RECORDS = 8, 512
_WARP = 32


@dataclass(frozen=True)
class Tile:
    """How a block sorts: `size` records in pieces of `pitch`, of which each is a run to be sorted.

    each: how many records a thread has. All are powers of two.
    """

    size: int
    pitch: int
    each: int

    @property
    def threads(self) -> int:
        """The threads of a block, which are whole warps: some may have no records."""
        return max(_WARP, self.size // self.each)

    @property
    def pieces(self) -> int:
        return self.size // self.pitch


def most_records(record_bytes: int) -> int:
    """Return how many records the largest tile has, a power of two."""
    count = _SHARED_BYTES // (2 * record_bytes)
    return min(_MOST_RECORDS, 1 << (max(1, count).bit_length() - 1))


def tile_for(rows: Rows) -> Tile:
    """Return the tile for rows: of whole ones if they fit."""
    most = most_records(rows.record_bytes)
    pitch = min(most, 1 << (rows.length - 1).bit_length())
    wanted = min(_WANTED_RECORDS, 1 << (rows.count * pitch - 1).bit_length())
    size = min(most, max(pitch, wanted))
    return Tile(size, pitch, max(1, min(_EACH, pitch, size // _WARP)))


def merge_sort(b: Builder, words: Words, records: Records) -> MergeSort:
    """Return what sorts and merges records in memory."""

    def less(x: Sequence[Value], y: Sequence[Value]) -> Val:
        mine, other = ([w for w in record if isinstance(w, Val)] for record in (x, y))
        return records.less(mine, other)

    return MergeSort(b, words.load, words.put, less)


class TileSorter:
    """Emission of what a block does with a tile of records in its shared memory."""

    def __init__(self, k: Kernel, sorting: Sorting, tile: Tile) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.tile = k, k.b, tile
        self.rows: Rows = sorting.rows(k.inst)
        self.records: Records = sorting.records(k)
        self.block = Block(k.b, k.target)
        types = self.rows.types
        count = 2 * tile.size + 2 * tile.size // _EACH
        arrays = [self.block.shared_array(t, count) for t in types]
        self.words = Words(k.b, types, arrays, _EACH)
        self.sort = merge_sort(k.b, self.words, self.records)
        self.thread = self.block.thread_index()

    def scratch(self) -> Words:
        """Return the records in the device's memory."""
        types = self.rows.types
        return Words(self.b, types, self.k.scratch[: len(types)])

    @contextmanager
    def each_place(self) -> Iterator[tuple[Index, Index]]:
        """Emit the body for the thread's share of the tile: the number of a piece, a place in it.

        Neighbouring threads have neighbours in memory.
        """
        b, tile = self.b, self.tile
        with b.loop(self.thread, tile.size, tile.threads) as slot:
            if self.rows.is_strided:
                yield b.urem(slot, tile.pieces), b.udiv(slot, tile.pieces)
            else:
                yield b.udiv(slot, tile.pitch), b.urem(slot, tile.pitch)

    def run_word(self, number: int) -> str:
        """Return the address of one of two words behind the records in scratch memory."""
        return self.b.element_address(self.k.scratch[len(self.rows.types)], "i64", number)

    def sort_pieces(self, count: Index) -> Index:
        """Sort the pieces of the tile, of which the thread's has so many records.

        Returns where the tile begins then.
        """
        b, tile = self.b, self.tile
        first = b.mul(self.thread, tile.each)
        begin = b.mul(b.udiv(first, tile.pitch), tile.pitch)
        at = b.sub(first, begin)
        here = b.maximum(b.minimum(b.sub(count, at), tile.each), 0)
        self.sort.insert(first, b.add(first, here))
        self.block.barrier()
        width, old = Variable(b, tile.each), Variable(b, 0)
        with b.repeat(lambda: b.compare("slt", width.get(), tile.pitch)):
            run, source = width.get(), old.get()
            target = b.sub(tile.size, source)
            self.merge_part(b.add(source, begin), b.add(target, begin), run, count, at, here)
            self.block.barrier()
            width.set(b.add(run, run))
            old.set(target)
        return old.get()

    def merge_part(
        self, source: Index, target: Index, run: Index, count: Index, at: Index, here: Index
    ) -> None:
        """Merge the thread's part of the pair of runs that it is in.

        source, target: where the piece of `count` records is, in runs of `run`, and goes. at: where
        the part begins in the piece; here: how many records it has.
        """
        b = self.b
        pair = b.add(run, run)
        low = b.binary("and", i64(at), b.sub(0, pair)).name
        left_count = b.maximum(b.minimum(b.sub(count, low), run), 0)
        both = b.maximum(b.minimum(b.sub(count, low), pair), 0)
        left = b.add(source, low)
        with b.when(b.compare("sgt", here, 0)):
            self.merge_between(
                left, left_count, b.add(left, left_count), both, pair, b.sub(at, low), here,
                b.add(target, at),
            )  # fmt: skip

    def merge_between(
        self, left: Index, left_count: Index, right: Index, both: Index, span: Index,
        before: Index, here: Index, to: Index,
    ) -> None:  # fmt: skip
        """Merge `here` records of two runs of `both` records, after the first `before`."""
        b, sort = self.b, self.sort
        if self.records.is_order:
            low = first_of(b, sort, left, left_count, right, both, before)
            sort.merge(
                b.add(left, low), b.add(left, left_count), b.add(right, b.sub(before, low)),
                b.add(right, b.sub(both, left_count)), to, here,
            )  # fmt: skip
            return
        low, high = part_of(
            b, sort, left, left_count, right, both, span, before, here, self.tile.each,
            is_order=False,
        )  # fmt: skip
        sort.merge(
            b.add(left, low), b.add(left, high), b.add(right, b.sub(before, low)),
            b.add(right, b.sub(b.add(before, here), high)), to,
        )  # fmt: skip


def first_of(
    b: Builder, sort: MergeSort, left: Index, left_count: Index, right: Index, both: Index,
    before: Index,
) -> Index:  # fmt: skip
    """Return how many of the first `before` records of two merged runs are of the left one."""
    least = b.maximum(b.sub(before, b.sub(both, left_count)), 0)
    return sort.split(left, right, before, least, b.minimum(before, left_count))


def part_of(
    b: Builder, sort: MergeSort, left: Index, left_count: Index, right: Index, both: Index,
    span: Index, before: Index, here: Index, each: int, *, is_order: bool,
) -> tuple[Index, Index]:  # fmt: skip
    """Return where in the left run the records of a part of two merged runs begin and end.

    both: the records of both runs; span: of complete ones. before, here: where the part begins, a
    multiple of `each`, and how many records it has, at most `each`.

    If the comparator is no order, then parts that were found independently need not fit each other.
    """
    if is_order:
        low, high = (
            first_of(b, sort, left, left_count, right, both, at)
            for at in (before, b.add(before, here))
        )
        return low, high
    return sort.part(left, left_count, right, both, span, before, each)


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SortPieces(ABC):
    """Sort pieces of rows, each in a tile or a part of one."""

    sorting: Sorting
    tile: Tile

    def __call__(self, k: Kernel) -> Grid:
        s = TileSorter(k, self.sorting, self.tile)
        b, tile, rows, length = s.b, self.tile, s.rows, self._length(s.rows)
        cuts = -(-length // tile.pitch)
        total = rows.count * cuts
        blocks = -(-total // tile.pieces)
        first = b.mul(s.block.block_index(), tile.pieces)

        def piece(number: Index) -> tuple[Index, Index, Index]:
            """Return the row of a piece, its number there, and how many records it has."""
            at = b.add(first, number)
            row, cut = b.udiv(at, cuts), b.urem(at, cuts)
            there = b.minimum(b.sub(length, b.mul(cut, tile.pitch)), tile.pitch)
            return row, cut, chosen(b, b.compare("slt", at, total), there, 0)

        with s.each_place() as (number, at):
            row, cut, there = piece(number)
            with b.when(b.compare("slt", at, there)):
                place = b.add(b.mul(number, tile.pitch), at)
                s.words.put(self._read(s, row, b.add(b.mul(cut, tile.pitch), at)), place)
        s.block.barrier()
        mine = b.mul(s.thread, tile.each)
        count = piece(b.udiv(mine, tile.pitch))[2]
        begin = s.sort_pieces(chosen(b, b.compare("slt", mine, tile.size), count, 0))
        with s.each_place() as (number, at):
            row, cut, there = piece(number)
            with b.when(b.compare("slt", at, there)):
                record = s.words.load(b.add(begin, b.add(b.mul(number, tile.pitch), at)))
                self._write(s, row, cut, at, record)
        doublings = (tile.pitch // tile.each).bit_length() - 1
        work = work_of(
            rows, rows.count * length, FIRST + DOUBLING * doublings,
            reads_elements=length == rows.length, writes_elements=isinstance(self, SortRows),
            shared_accesses=4 * (doublings + 2),
        )  # fmt: skip
        return Grid(total, 1.0, blocks, tile.threads, work=work, is_final=True)

    def _length(self, rows: Rows) -> int:
        """Return the length of the rows that are read."""
        return rows.length

    def _read(self, s: TileSorter, row: Index, position: Index) -> list[Val]:
        return s.records.read(row, position)

    @abstractmethod
    def _write(self, s: TileSorter, row: Index, cut: Index, at: Index, record: Record) -> None:
        """Write the record at a place in a sorted piece, by the number of the piece in its row."""


@dataclass(frozen=True)
class SortRows(SortPieces):
    """Sort rows, and write the results."""

    def _write(self, s: TileSorter, row: Index, cut: Index, at: Index, record: Record) -> None:
        s.records.write(row, at, record)


@dataclass(frozen=True)
class SortTiles(SortPieces):
    """Sort tiles of rows that are longer, and write down how long these runs are."""

    def _write(self, s: TileSorter, row: Index, cut: Index, at: Index, record: Record) -> None:
        b, position = s.b, s.b.add(s.b.mul(cut, self.tile.pitch), at)
        place = b.add(b.mul(row, s.rows.length), position)
        s.scratch().put(record, place)
        with b.when(b.compare("eq", place, 0)):
            b.store(i64(self.tile.size), s.run_word(0))
