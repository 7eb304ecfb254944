"""Radix sorts: elements with an integer key, digit by digit from the least one, stably.

A line is first turned into records: the key, and what leads from it to the element. A short line is
sorted by one thread in memory of its own. A long one is cut into blocks; threads count the digits
of blocks, and move the records of blocks to where the counts say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen import scalar
from hlo.codegen.kernel import Extent, Kernel, Plan, split_index
from hlo.codegen.kernels.combiner import element_type
from hlo.codegen.kernels.keys import SortKey
from hlo.codegen.kernels.lines import Lines
from hlo.codegen.kernels.variables import Variable, as_index
from hlo.codegen.llvm import Index, Val
from hlo.ir import Instruction
from hlo.types import ArrayShape

# Lines sorted by one thread one after the other share memory; so many such groups at most.
_GROUPS = 64
# A line at least this long is sorted by all threads, when there are few lines.
_LONG, _FEW_LINES = 65536, 8
_BLOCKS, _LEAST_BLOCK = 32, 16384
# Keys of short lines are cut into narrower digits: counting would take longer than moving.
_SHORT = 2048


@dataclass(frozen=True)
class Records:
    """What is sorted in place of elements.

    content: the key alone, which tells the value; the key and the value's bits; or the key and the
    index of the element. A key of 64 bits leaves no room beside it: the index has an array of its
    own.
    """

    key_bits: int
    content: str

    @staticmethod
    def of(inst: Instruction, key: SortKey) -> Records:
        bits = key.bits
        if len(inst.operands) == 1:
            if key.value_order is not None:
                return Records(bits, "key")
            et = element_type(inst.operands[0])
            if bits <= 32 and et.bits <= 32 and not et.is_complex:
                return Records(bits, "value")
        return Records(bits, "index")

    @property
    def word(self) -> str:
        alone = self.content == "key" and self.key_bits <= 32
        return "i32" if alone else "i64"

    @property
    def is_split(self) -> bool:
        return self.content == "index" and self.key_bits == 64

    @property
    def types(self) -> list[str]:
        """The arrays that records take."""
        return [self.word, "i32"] if self.is_split else [self.word]

    @property
    def shift(self) -> int:
        """Where the key begins in the word."""
        return 0 if self.content == "key" or self.is_split else 32

    def digits(self, length: int) -> list[tuple[int, int]]:
        """Return the digits of a key, the least first: their places in the word and their bits."""
        if self.key_bits <= 16 or length < _SHORT:
            width = 8
        else:
            width = 11
        places = range(0, self.key_bits, width)
        return [(self.shift + at, min(width, self.key_bits - at)) for at in places]


def plan_radix(inst: Instruction, lines: Lines, key: SortKey, needed: tuple[int, ...]) -> Plan:
    """Return how lines are sorted by a key. needed: the results that somebody reads."""
    records = Records.of(inst, key)
    sizes = [4 if t == "i32" else 8 for t in records.types]
    if lines.length < _LONG or lines.count > _FEW_LINES:
        groups = min(lines.count, _GROUPS)
        return Plan(
            (_SortLines(needed),), tuple(groups * 2 * lines.length * size for size in sizes)
        )
    long = _Long(needed)
    digits = records.digits(lines.length)
    steps: list[Callable[[Kernel], Extent]] = [_Build(long)]
    for number in range(len(digits)):
        if number:
            steps.append(_Count(long, number))
        steps += [_Offsets(long, number), _Move(long, number)]
    steps.append(_Finish(long))
    buckets = 1 << max(bits for _, bits in digits)
    counts = lines.count * _blocks(lines.length) * buckets * 4
    control = lines.count * len(digits) * 8
    records_bytes = (lines.count * 2 * lines.length * size for size in sizes)
    return Plan(tuple(steps), (*records_bytes, counts, control))


def _blocks(length: int) -> int:
    return max(1, min(_BLOCKS, length // _LEAST_BLOCK))


class _Sorter:
    """Emission of parts of a radix sort into one kernel."""

    def __init__(self, k: Kernel, needed: tuple[int, ...]) -> None:
        self.k = k
        self.b = k.b
        self.needed = needed
        key = SortKey.of(k.inst.attrs["to_apply"])
        assert key is not None
        self.key = key
        self.records = Records.of(k.inst, key)
        shape = k.inst.operands[0].shape
        assert isinstance(shape, ArrayShape)
        self.lines = Lines(shape, k.inst.attrs["dimensions"][0])
        self.n = self.lines.length
        self.digits = self.records.digits(self.n)
        self.buckets = 1 << max(bits for _, bits in self.digits)

    # --- records --------------------------------------------------------------------------------

    def record(self, start: Sequence[Index], position: Index) -> list[Val]:
        """Return the record of an element."""
        b, r, k = self.b, self.records, self.k
        at = self.lines.at(start, position)
        values = [k.elements.at(o, at) for o in k.inst.operands]
        rank = self.key.rank(b, values)
        word = rank if rank.type == r.word else b.op(r.word, f"zext {rank} to {r.word}")
        if r.content == "key":
            return [word]
        index = Val("i64", str(position))
        if r.is_split:
            return [word, b.op("i32", f"trunc {index} to i32")]
        high = b.op("i64", f"shl {word}, 32")
        low = index
        if r.content == "value":
            low = self._bits(values[0])
        return [b.op("i64", f"or {high}, {low.name}")]

    def _bits(self, value: object) -> Val:
        b, et = self.b, element_type(self.k.inst.operands[0])
        assert isinstance(value, Val)
        raw = scalar.to_memory(b, et, value)
        if raw.type == "float":
            raw = b.op("i32", f"bitcast {raw} to i32")
        return b.op("i64", f"zext {raw} to i64")

    def address(self, part: int, at: Index) -> str:
        return self.b.element_address(self.k.scratch[part], self.records.types[part], at)

    def load(self, at: Index) -> list[Val]:
        """Return the record at a place in scratch memory."""
        return [
            self.b.effect(t, f"load {t}, ptr {self.address(part, at)}")
            for part, t in enumerate(self.records.types)
        ]

    def put(self, record: Sequence[Val], at: Index) -> None:
        for part, value in enumerate(record):
            self.b.write(f"store {value}, ptr {self.address(part, at)}")

    def digit(self, word: Val, number: int) -> Index:
        """Return a digit of a record's key."""
        b, (shift, bits) = self.b, self.digits[number]
        moved = b.op(word.type, f"lshr {word}, {shift}") if shift else word
        return as_index(b, b.op(word.type, f"and {moved}, {(1 << bits) - 1}"))

    def write(self, start: Sequence[Index], position: Index, record: Sequence[Val]) -> None:
        """Store the results at a position of a line, given the record that has come there."""
        b, k, r = self.b, self.k, self.records
        at = self.lines.at(start, position)
        (word,) = record[:1]
        if r.content == "key":
            t = f"i{r.key_bits}"
            rank = word if word.type == t else b.op(t, f"trunc {word} to {t}")
            order = self.key.value_order
            assert order is not None
            k.store(order.value(b, rank), at)
            return
        if r.content == "value":
            et = element_type(k.inst.operands[0])
            bits = scalar.memory_type(et)
            t = "i32" if bits == "float" else bits
            raw = b.op(t, f"trunc {word} to {t}")
            if bits == "float":
                raw = b.op("float", f"bitcast {raw} to float")
            k.store(scalar.from_memory(b, et, raw), at)
            return
        if r.is_split:
            source = as_index(b, record[1])
        else:
            source = b.op("i64", f"and {word}, {(1 << 32) - 1}").name
        place = self.lines.at(start, source)
        for n in self.needed:
            k.store(k.elements.at(k.inst.operands[n], place), at, n)

    # --- counts ---------------------------------------------------------------------------------

    def count_up(self, counts: str, digit: Index) -> Index:
        """Add one to a count; returns what it was."""
        b = self.b
        at = b.element_address(counts, "i32", digit)
        old = b.effect("i32", f"load i32, ptr {at}")
        b.write(f"store i32 {b.op('i32', f'add {old}, 1').name}, ptr {at}")
        return as_index(b, old)

    def clear(self, counts: str, size: int) -> None:
        with self.b.loop(0, size) as i:
            self.b.write(f"store i32 0, ptr {self.b.element_address(counts, 'i32', i)}")

    def sum_up(self, counts: str) -> None:
        """Replace counts by the sums of those before them."""
        b = self.b
        total = Variable(b, 0)
        with b.loop(0, self.buckets) as d:
            at = b.element_address(counts, "i32", d)
            here = as_index(b, b.effect("i32", f"load i32, ptr {at}"))
            before = total.get()
            b.write(f"store i32 {b.op('i32', f'trunc i64 {before} to i32').name}, ptr {at}")
            total.set(b.add(before, here))

    def move(self, counts: str, number: int, source: Index, target: Index, count: Index) -> None:
        """Move records to the places that the sums of their digits say."""
        b = self.b
        with b.loop(0, count) as i:
            record = self.load(b.add(source, i))
            place = self.count_up(counts, self.digit(record[0], number))
            self.put(record, b.add(target, place))


# --- lines that one thread sorts ----------------------------------------------------------------


@dataclass(frozen=True)
class _SortLines:
    """Sort line after line."""

    needed: tuple[int, ...]

    def __call__(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.needed)
        b, n, lines = k.b, s.n, s.lines.count
        groups = min(lines, _GROUPS)
        each = -(-lines // groups)
        counts = b.alloca("i32", len(s.digits) * s.buckets, align=64).name
        with b.loop(k.begin, k.end) as group:
            first = b.mul(group, each)
            base = b.mul(group, 2 * n)
            with b.loop(first, b.minimum(b.add(first, each), lines)) as line:
                self._line(s, s.lines.start(b, line), base, counts)
        return Extent(groups, float(each * n * 4 * (len(s.digits) + 2)))

    def _line(self, s: _Sorter, start: Sequence[Index], base: Index, counts: str) -> None:
        b, n = s.b, s.n
        passes = range(len(s.digits))
        tables = [b.element_address(counts, "i32", p * s.buckets) for p in passes]
        s.clear(counts, len(s.digits) * s.buckets)
        with b.loop(0, n) as i:
            record = s.record(start, i)
            s.put(record, b.add(base, i))
            for p in passes:
                s.count_up(tables[p], s.digit(record[0], p))
        source, target = Variable(b, base), Variable(b, b.add(base, n))
        for p in passes:
            # Where all keys have the same digit, nothing moves.
            digit = s.digit(s.load(source.get())[0], p)
            at = b.element_address(tables[p], "i32", digit)
            same = as_index(b, b.effect("i32", f"load i32, ptr {at}"))
            with b.when(b.compare("ne", same, n)):
                s.sum_up(tables[p])
                here, there = source.get(), target.get()
                s.move(tables[p], p, here, there, n)
                source.set(there)
                target.set(here)
        final = source.get()
        with b.loop(0, n) as i:
            s.write(start, i, s.load(b.add(final, i)))


# --- lines that all threads sort ----------------------------------------------------------------


@dataclass(frozen=True)
class _Long:
    """What the steps of the sort of a long line have in common."""

    needed: tuple[int, ...]

    @contextmanager
    def blocks(self, k: Kernel) -> Iterator[_Block]:
        """Run the body for every block of every line of this kernel's share."""
        s = _Sorter(k, self.needed)
        b = k.b
        blocks = _blocks(s.n)
        size = -(-s.n // blocks)
        with b.loop(k.begin, k.end) as share:
            line, number = split_index(b, share, [s.lines.count, blocks])
            first = b.mul(number, size)
            count = b.minimum(size, b.sub(s.n, first))
            yield _Block(s, line, number, first, count)

    def extent(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.needed)
        blocks = _blocks(s.n)
        return Extent(s.lines.count * blocks, 4.0 * (s.n // blocks))


@dataclass
class _Block:
    """A block of a line: records `first`, `first + 1`, ..., `count` of them."""

    s: _Sorter
    line: Index
    number: Index
    first: Index
    count: Index

    def counts(self) -> str:
        """Return the address of the block's counts."""
        s = self.s
        return _counts(s, self.line, self.number)

    def sides(self, passes: int) -> tuple[Index, Index]:
        """Return where the line's records are after some passes, and where they go next."""
        s, b = self.s, self.s.b
        side: Index = 0
        for p in range(passes):
            moved = b.effect("i64", f"load i64, ptr {_moved(s, self.line, p)}").name
            side = b.op("i64", f"xor i64 {side}, {moved}").name
        base = b.mul(self.line, 2 * s.n)
        here = b.add(base, b.mul(side, s.n))
        other = b.op("i64", f"xor i64 {side}, 1").name
        return here, b.add(base, b.mul(other, s.n))


def _counts(s: _Sorter, line: Index, block: Index) -> str:
    b = s.b
    at = b.mul(b.add(b.mul(line, _blocks(s.n)), block), s.buckets)
    return b.element_address(s.k.scratch[len(s.records.types)], "i32", at)


def _moved(s: _Sorter, line: Index, number: int) -> str:
    """Return the address of the word that says whether a pass moves anything."""
    at = s.b.add(s.b.mul(line, len(s.digits)), number)
    return s.b.element_address(s.k.scratch[len(s.records.types) + 1], "i64", at)


@dataclass(frozen=True)
class _Build:
    """Make the records, and count their least digits."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            counts = block.counts()
            s.clear(counts, s.buckets)
            start = s.lines.start(b, block.line)
            here, _ = block.sides(0)
            with b.loop(0, block.count) as i:
                position = b.add(block.first, i)
                record = s.record(start, position)
                s.put(record, b.add(here, position))
                s.count_up(counts, s.digit(record[0], 0))
        return self.long.extent(k)


@dataclass(frozen=True)
class _Count:
    """Count a digit of the records of every block."""

    long: _Long
    number: int

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            counts = block.counts()
            s.clear(counts, s.buckets)
            here, _ = block.sides(self.number)
            first = b.add(here, block.first)
            with b.loop(0, block.count) as i:
                word = s.load(b.add(first, i))[0]
                s.count_up(counts, s.digit(word, self.number))
        return self.long.extent(k)


@dataclass(frozen=True)
class _Offsets:
    """Turn the counts of all blocks into places, and see whether the pass moves anything."""

    long: _Long
    number: int

    def __call__(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.long.needed)
        b, blocks = k.b, _blocks(s.n)
        totals = b.alloca("i32", s.buckets, align=64).name

        def at(table: str, digit: Index) -> str:
            return b.element_address(table, "i32", digit)

        def load(table: str, digit: Index) -> Val:
            return b.effect("i32", f"load i32, ptr {at(table, digit)}")

        with b.loop(k.begin, k.end) as line:
            s.clear(totals, s.buckets)
            with b.loop(0, blocks) as block:
                counts = _counts(s, line, block)
                with b.loop(0, s.buckets) as d:
                    both = b.op("i32", f"add {load(totals, d)}, {load(counts, d).name}")
                    b.write(f"store {both}, ptr {at(totals, d)}")
            moved = Variable(b, 1)
            with b.loop(0, s.buckets) as d:
                full = b.compare("eq", as_index(b, load(totals, d)), s.n)
                with b.when(full):
                    moved.set(0)
            b.write(f"store i64 {moved.get()}, ptr {_moved(s, line, self.number)}")
            s.sum_up(totals)
            with b.loop(0, blocks) as block:
                counts = _counts(s, line, block)
                with b.loop(0, s.buckets) as d:
                    place, here = load(totals, d), load(counts, d)
                    b.write(f"store {place}, ptr {at(counts, d)}")
                    after = b.op("i32", f"add {place}, {here.name}")
                    b.write(f"store {after}, ptr {at(totals, d)}")
        return Extent(s.lines.count, 2.0 * blocks * s.buckets)


@dataclass(frozen=True)
class _Move:
    """Move the records of every block to their places by one digit."""

    long: _Long
    number: int

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            word = _moved(s, block.line, self.number)
            moves = b.effect("i64", f"load i64, ptr {word}").name
            with b.when(b.compare("ne", moves, 0)):
                here, there = block.sides(self.number)
                s.move(block.counts(), self.number, b.add(here, block.first), there, block.count)
        return self.long.extent(k)


@dataclass(frozen=True)
class _Finish:
    """Write the results."""

    long: _Long

    def __call__(self, k: Kernel) -> Extent:
        with self.long.blocks(k) as block:
            s, b = block.s, k.b
            start = s.lines.start(b, block.line)
            here, _ = block.sides(len(s.digits))
            with b.loop(0, block.count) as i:
                position = b.add(block.first, i)
                s.write(start, position, s.load(b.add(here, position)))
        return self.long.extent(k)
