"""Radix sorts of long rows, by all threads.

A row is divided into blocks; threads count the digits of blocks, and move the records of blocks by
the prefix sums of counts. Passes that would move nothing are skipped. The state of a row's sort is
in memory, so that all passes share their code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.sort.records import Records, RecordSorter
from hlo.codegen.kernels.variables import Variable, as_index
from hlo.codegen.llvm import Index, Val, i64
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.targets.base import Extent, Plan

_BLOCKS, _LEAST_BLOCK = 32, 16384
# Words of a row's state: the buffer of its records after the current pass; the lowest bit of the
# next pass's digit; whether the current pass moves anything.
_SIDE, _SHIFT, _MOVES, _STATE = range(4)


def plan_long_radix(records: Records, lines: Lines, needed: tuple[int, ...]) -> Plan:
    """Return the steps that sort long rows. needed: the results that are used."""
    long = _Long(needed)
    digits = records.digits(lines.length)
    steps: list[Callable[[Kernel], Extent]] = [_Build(long)]
    for number in range(len(digits)):
        if number:
            steps.append(_Count(long))
        steps += [_Offsets(long), _Move(long)]
    steps.append(_Finish(long))
    buckets = 1 << max(bits for _, bits in digits)
    counts = lines.count * _blocks(lines.length) * buckets * 4
    control = lines.count * _STATE * 8
    sizes = (lines.count * 2 * lines.length * size for size in records.sizes)
    return Plan(tuple(steps), (*sizes, counts, control))


def _blocks(length: int) -> int:
    return max(1, min(_BLOCKS, length // _LEAST_BLOCK))


@dataclass(frozen=True)
class _Long:
    """Common to all steps of the sort of a long row."""

    needed: tuple[int, ...]

    @contextmanager
    def blocks(self, k: Kernel) -> Iterator[_Block]:
        """Emit the body for every block of every row in the kernel's chunk."""
        s = RecordSorter(k, self.needed)
        b = k.b
        blocks = _blocks(s.n)
        size = -(-s.n // blocks)
        with b.loop(k.begin, k.end) as share:
            line, number = split_index(b, share, [s.lines.count, blocks])
            first = b.mul(number, size)
            count = b.minimum(size, b.sub(s.n, first))
            yield _Block(s, line, number, first, count)

    def extent(self, k: Kernel) -> Extent:
        s = RecordSorter(k, self.needed)
        blocks = _blocks(s.n)
        return Extent(s.lines.count * blocks, 4.0 * (s.n // blocks))


@dataclass
class _Block:
    """A block of a row: `count` records from `first` on."""

    s: RecordSorter
    line: Index
    number: Index
    first: Index
    count: Index

    def counts(self) -> str:
        """Return the address of the block's counts."""
        s = self.s
        return _counts(s, self.line, self.number)

    def side(self, number: Index) -> Index:
        """Return the position of the row's records in a buffer."""
        s, b = self.s, self.s.b
        return b.add(b.mul(self.line, 2 * s.n), b.mul(number, s.n))

    def get(self, which: int) -> str:
        return _get(self.s, self.line, which)


def _counts(s: RecordSorter, line: Index, block: Index) -> str:
    b = s.b
    at = b.mul(b.add(b.mul(line, _blocks(s.n)), block), s.buckets)
    return b.element_address(s.k.scratch[len(s.records.types)], "i32", at)


def _state(s: RecordSorter, line: Index, which: int) -> str:
    """Return the address of a word of a row's state."""
    at = s.b.add(s.b.mul(line, _STATE), which)
    return s.b.element_address(s.k.scratch[len(s.records.types) + 1], "i64", at)


def _get(s: RecordSorter, line: Index, which: int) -> str:
    return s.b.load("i64", _state(s, line, which)).name


def _set(s: RecordSorter, line: Index, which: int, value: Index) -> None:
    s.b.store(i64(value), _state(s, line, which))


@dataclass(frozen=True)
class _Build:
    """Create the records, and count their lowest digits."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            counts = block.counts()
            s.clear(counts, s.buckets)
            start, here = s.lines.start(b, block.line), block.side(0)
            with b.when(b.compare("eq", block.number, 0)):
                _set(s, block.line, _SIDE, 0)
                _set(s, block.line, _SHIFT, s.digits[0][0])
            with b.loop(0, block.count, plain=True) as i:
                position = b.add(block.first, i)
                record = s.record(start, position)
                s.put(record, b.add(here, position))
                s.count_up(counts, s.digit(record[0], 0))
        return self.long.extent(k)


@dataclass(frozen=True)
class _Count:
    """Count a digit of the records of every block."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            counts = block.counts()
            s.clear(counts, s.buckets)
            first = b.add(block.side(block.get(_SIDE)), block.first)
            shift = block.get(_SHIFT)
            with b.loop(0, block.count, plain=True) as i:
                word = s.load(b.add(first, i))[0]
                s.count_up(counts, s.digit_at(word, shift))
        return self.long.extent(k)


@dataclass(frozen=True)
class _Offsets:
    """Turn the counts of all blocks into positions, and check whether anything moves."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        s = RecordSorter(k, self.long.needed)
        b, blocks = k.b, _blocks(s.n)
        totals = b.alloca("i32", s.buckets, align=64).name

        def at(table: str, digit: Index) -> str:
            return b.element_address(table, "i32", digit)

        def load(table: str, digit: Index) -> Val:
            return b.load("i32", at(table, digit))

        with b.loop(k.begin, k.end) as line:
            s.clear(totals, s.buckets)
            with b.loop(0, blocks) as block:
                counts = _counts(s, line, block)
                with b.loop(0, s.buckets, plain=True) as d:
                    both = b.binary("add", load(totals, d), load(counts, d))
                    b.store(both, at(totals, d))
            moved = Variable(b, 1)
            with b.loop(0, s.buckets, plain=True) as d:
                full = b.compare("eq", as_index(b, load(totals, d)), s.n)
                with b.when(full):
                    moved.set(0)
            moves = moved.get()
            _set(s, line, _MOVES, moves)
            _set(s, line, _SIDE, b.binary("xor", i64(_get(s, line, _SIDE)), moves).name)
            _set(s, line, _SHIFT, b.add(_get(s, line, _SHIFT), s.digits[0][1]))
            s.sum_up(totals)
            with b.loop(0, blocks) as block:
                counts = _counts(s, line, block)
                with b.loop(0, s.buckets, plain=True) as d:
                    place, here = load(totals, d), load(counts, d)
                    b.store(place, at(counts, d))
                    after = b.binary("add", place, here)
                    b.store(after, at(totals, d))
        return Extent(s.lines.count, 2.0 * blocks * s.buckets)


@dataclass(frozen=True)
class _Move:
    """Move the records of every block to their positions by one digit."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            with b.when(b.compare("ne", block.get(_MOVES), 0)):
                new = block.get(_SIDE)
                source = b.add(block.side(b.sub(1, new)), block.first)
                shift = b.sub(block.get(_SHIFT), s.digits[0][1])
                s.move(block.counts(), shift, source, block.side(new), block.count)
        return self.long.extent(k)


@dataclass(frozen=True)
class _Finish:
    """Write the results."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            start, here = s.lines.start(b, block.line), block.side(block.get(_SIDE))
            with b.loop(0, block.count, plain=True) as i:
                position = b.add(block.first, i)
                s.write(start, position, s.load(b.add(here, position)))
        return self.long.extent(k)
