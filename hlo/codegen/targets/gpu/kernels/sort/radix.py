"""Radix sorts of long rows: stable sorts by an integer key, eight bits at a time from the lowest.

A row is cut into chunks, one for each warp. A pass counts the digits of each chunk, adds up the
counts of the chunks before, and moves the records: warps go through their chunks in order, 32
records at a time, and lanes with the same digit find out how many of them come before. So the
order of equal digits is kept, and no result depends on which warp is first.

All passes are the same kernels, from one of two arrays of records to the other and back: the
position of the digit is in the device's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hlo.codegen.kernels.variables import as_index
from hlo.codegen.llvm import Index, Val, i32, i64
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.sort.cost import COUNT, MOVE, work_of
from hlo.codegen.targets.gpu.kernels.sort.prefix import prefix_sum
from hlo.codegen.targets.gpu.kernels.sort.records import Rows, Sorting, Words
from hlo.gpu.work import Unit, Work
from hlo.ir import Instruction

_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
# The warps of a block, and its threads: as many as there are digits.
_WARPS, _LANES = 8, 32
_THREADS = _WARPS * _LANES
# Records of a chunk at the least, and chunks of all rows at the most: a thread adds up few counts.
_LEAST_CHUNK, _MOST_CHUNKS = 512, 4096


@dataclass(frozen=True)
class _Chunks:
    """How rows are cut: `count` chunks a row, a multiple of the warps of a block."""

    count: int
    size: int

    @staticmethod
    def of(rows: Rows) -> _Chunks:
        most = max(1, _MOST_CHUNKS // (rows.count * _WARPS))
        wanted = -(-rows.length // (_LEAST_CHUNK * _WARPS))
        count = _WARPS * min(most, wanted)
        size = -(-rows.length // count)
        return _Chunks(count, -(-size // _LANES) * _LANES)


class _Pass:
    """Emission of one kernel. number: of the pass, but for its digit: the first one reads elements,
    others the array of records that the number's lowest bit tells."""

    def __init__(self, k: Kernel, sorting: Sorting, number: int) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.number = k, k.b, number
        self.gpu, self.block = k.target, Block(k.b, k.target)
        self.rows, self.records = sorting.rows(k.inst), sorting.records(k)
        self.chunks = _Chunks.of(self.rows)
        self.side = number % 2
        self.warp = self.block.index(self.block.warp())
        self.lane = self.block.index(self.block.lane())
        # The chunks of a block are of one row.
        first = k.b.mul(self.block.block_index(), _WARPS)
        self.row = k.b.udiv(first, self.chunks.count)
        self.chunk = k.b.urem(first, self.chunks.count)

    @property
    def blocks(self) -> int:
        return self.rows.count * self.chunks.count // _WARPS

    def words(self) -> Words:
        types = self.rows.types
        return Words(self.b, types, self.k.scratch[: len(types)])

    def place(self, side: int, position: Index) -> Index:
        """Return where a position of the block's row is in the records."""
        n = self.rows.length
        return self.b.add(self.b.add(self.b.mul(self.row, n), position), side * self.rows.count * n)

    def record(self, position: Index) -> list[Val]:
        """Return the record at a position of the block's row."""
        if not self.number:
            return self.records.read(self.row, position)
        return self.words().load(self.place(self.side, position))

    def shift(self) -> Index:
        """Return where the digit begins in keys."""
        return self.b.load("i64", self._shift_word(self.side)).name if self.number else 0

    def note_shift(self) -> None:
        """Write where the next pass's digit begins."""
        b = self.b
        is_first = b.both(self.block.is_first_thread(), b.icmp("eq", self.block.block(), 0))
        with b.when(is_first):
            b.store(i64(b.add(self.shift(), _DIGIT_BITS)), self._shift_word(1 - self.side))

    def _shift_word(self, side: int) -> str:
        base = self.k.scratch[len(self.rows.types) + 2]
        return self.b.element_address(base, "i64", side)

    def count_at(self, digit: Index, chunk: Index) -> str:
        """Return the address of the count of a digit in a chunk of the block's row."""
        b = self.b
        line = b.add(b.mul(self.row, _DIGITS), digit)
        at = b.add(b.mul(line, self.chunks.count), chunk)
        return b.element_address(self.k.scratch[len(self.rows.types)], "i32", at)

    def bounds(self) -> tuple[Index, Index]:
        """Return where the warp's chunk begins and ends."""
        b, size = self.b, self.chunks.size
        first = b.minimum(b.mul(b.add(self.chunk, self.warp), size), self.rows.length)
        return first, b.minimum(b.add(first, size), self.rows.length)

    def counter(self, table: str, digit: Index) -> str:
        """Return the address of the warp's number for a digit, in shared memory."""
        b = self.b
        return b.element_address(table, "i32", b.add(b.mul(self.warp, _DIGITS), digit))


@dataclass(frozen=True)
class _Count:
    """Count the digits of every chunk."""

    sorting: Sorting
    number: int

    def __call__(self, k: Kernel) -> Grid:
        s = _Pass(k, self.sorting, self.number)
        b, block = s.b, s.block
        table = block.shared_array("i32", _WARPS * _DIGITS)
        with b.loop(s.lane, _DIGITS, _LANES) as at:
            b.store(i32(0), s.counter(table, at))
        block.barrier()
        shift = s.shift()
        first, end = s.bounds()
        with b.loop(b.add(first, s.lane), end, _LANES) as position:
            digit = s.records.digit(s.record(position), shift)
            b.atomic_update("add", i32(1), s.counter(table, digit), s.gpu.block_scope)
        block.barrier()
        # Neighbouring threads have neighbouring chunks of a digit.
        with b.loop(block.thread_index(), _WARPS * _DIGITS, _THREADS) as at:
            which, warp = b.udiv(at, _WARPS), b.urem(at, _WARPS)
            source = b.add(b.mul(warp, _DIGITS), which)
            count = b.load("i32", b.element_address(table, "i32", source))
            b.store(count, s.count_at(which, b.add(s.chunk, warp)))
        work = work_of(
            s.rows, s.rows.count * s.rows.length, COUNT, reads_elements=not self.number,
            writes_elements=False,
        )  # fmt: skip
        # What is written are counts.
        read = work.global_bytes - s.rows.count * s.rows.length * s.rows.record_bytes
        work = replace(work, global_bytes=read + 4 * s.rows.count * s.chunks.count * _DIGITS)
        return Grid(s.blocks, 1.0, s.blocks, _THREADS, work=work)


@dataclass(frozen=True)
class _AddUp:
    """Replace the counts of a digit by the sums of those of the chunks before: a block a digit."""

    sorting: Sorting

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        b, block, rows = k.b, Block(k.b, k.target), self.sorting.rows(k.inst)
        chunks = _Chunks.of(rows).count
        each = -(-chunks // _THREADS)
        counts, totals = k.scratch[len(rows.types)], k.scratch[len(rows.types) + 1]
        base = b.mul(block.block_index(), chunks)
        first = b.mul(block.thread_index(), each)

        def count_at(n: int) -> tuple[Val, str]:
            """Return whether there is a count, and its address."""
            at = b.add(first, n)
            place = b.add(base, b.minimum(at, chunks - 1))
            return b.compare("slt", at, chunks), b.element_address(counts, "i32", place)

        found: list[Val] = []
        for n in range(each):
            is_there, address = count_at(n)
            found.append(b.select(is_there, b.load("i32", address), i32(0)))
        own = i32(0)
        for count in found:
            own = b.binary("add", own, count)
        before = prefix_sum(block, own, _THREADS)
        for n, count in enumerate(found):
            is_there, address = count_at(n)
            with b.when(is_there):
                b.store(before, address)
            before = b.binary("add", before, count)
        with b.when(b.icmp("eq", block.thread(), _THREADS - 1)):
            b.store(before, b.element_address(totals, "i32", block.block_index()))
        numbers = rows.count * _DIGITS * chunks
        work = Work(((Unit.INTEGER, 8 * numbers),), 8 * numbers, rounds=2)
        return Grid(rows.count * _DIGITS, 1.0, rows.count * _DIGITS, _THREADS, work=work)


@dataclass(frozen=True)
class _Move:
    """Move records to their places. is_last: write the results."""

    sorting: Sorting
    number: int
    is_last: bool

    def __call__(self, k: Kernel) -> Grid:
        s = _Pass(k, self.sorting, self.number)
        b, block = s.b, s.block
        table = block.shared_array("i32", _WARPS * _DIGITS)
        self._fill(s, table)
        shift = s.shift()
        first, end = s.bounds()
        lane = block.lane()
        below = b.binary("sub", b.binary("shl", i32(1), lane), 1)

        def record_of(start: Index) -> list[Val]:
            return s.record(b.minimum(b.add(start, s.lane), s.rows.length - 1))

        # All lanes take every turn: they exchange numbers. Records are loaded a turn ahead.
        with b.carrying(first, end, record_of(first), _LANES) as turn:
            position = b.add(turn.index, s.lane)
            is_there = b.compare("slt", position, end)
            record = turn.values
            turn.values = record_of(b.add(turn.index, _LANES))
            digit = s.records.digit(record, shift)
            number = b.cast("trunc", i64(digit), "i32")
            same = s.gpu.equal_lanes(b, b.select(is_there, number, i32(_DIGITS)))
            before = b.intrinsic("ctpop", "i32", [b.binary("and", same, below)])
            is_leader = b.both(is_there, b.icmp("eq", before, 0))
            count = b.intrinsic("ctpop", "i32", [same])
            (place,) = b.choose(
                is_leader, self._taken(s, table, digit, count), lambda: [i32(0)]
            )  # fmt: skip
            leader = b.intrinsic("cttz", "i32", [same, Val("i1", "false")])
            place = b.binary("add", block.from_lane(place, leader), before)
            with b.when(is_there):
                self._put(s, record, as_index(b, place))
        s.note_shift()
        work = work_of(
            s.rows, s.rows.count * s.rows.length, MOVE, reads_elements=not self.number,
            writes_elements=self.is_last, shared_accesses=1, rounds=s.chunks.size // _LANES,
        )  # fmt: skip
        return Grid(s.blocks, 1.0, s.blocks, _THREADS, work=work)

    def _fill(self, s: _Pass, table: str) -> None:
        """Write where the next record of each digit of each warp goes."""
        b, block, thread = s.b, s.block, s.block.thread_index()
        totals = s.k.scratch[len(s.rows.types) + 1]
        at = b.add(b.mul(s.row, _DIGITS), thread)
        total = b.load("i32", b.element_address(totals, "i32", at))
        smaller = prefix_sum(block, total, _THREADS)
        with b.loop(0, _WARPS, plain=True) as warp:
            before = b.load("i32", s.count_at(thread, b.add(s.chunk, warp)))
            to = b.element_address(table, "i32", b.add(b.mul(warp, _DIGITS), thread))
            b.store(b.binary("add", before, smaller), to)
        block.barrier()

    def _taken(self, s: _Pass, table: str, digit: Index, count: Val) -> Callable[[], list[Val]]:
        """Take so many places for a digit; returns the first one."""
        scope = s.gpu.block_scope
        return lambda: [s.b.atomic_update("add", count, s.counter(table, digit), scope)]

    def _put(self, s: _Pass, record: list[Val], position: Index) -> None:
        if self.is_last:
            s.records.write(s.row, position, record)
        else:
            s.words().put(record, s.place(1 - s.side, position))


def plan_radix(inst: Instruction, sorting: Sorting) -> Plan:
    """Plan the sort of long rows by a key."""
    rows, passes = sorting.rows(inst), -(-sorting.key_bits(inst) // _DIGIT_BITS)
    chunks = _Chunks.of(rows)
    steps: list[Callable[..., Any]] = []
    for number in range(passes):
        # The second pass and the fourth are the same kernels, and so on.
        kind = number if number < 2 else 2 - number % 2
        steps += [_Count(sorting, kind), _AddUp(sorting)]
        steps.append(_Move(sorting, kind, number == passes - 1))
    counts = 4 * rows.count * _DIGITS
    return Plan(tuple(steps), (*rows.scratch_bytes, counts * chunks.count, counts, 16))
