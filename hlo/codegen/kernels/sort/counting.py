"""Sorts of keys of few bits, by counting: elements are made of keys, as many as there were of each.

What keys do not tell is copied from the operand, see `key_sort`. A row is counted by one thread,
or a long one by all of them: the counts of blocks are added up, and threads write the elements of
ranges of keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.kernels.reduce.combiner import element_type
from hlo.codegen.kernels.sort.key_sort import KeySorter
from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.variables import Variable, as_index
from hlo.codegen.llvm import Index, Val, i64, int_const
from hlo.codegen.loops.address import physical_index
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.loops.vectors import clear
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent, Plan
from hlo.ir import Instruction
from hlo.llvm import overload, vector_type
from hlo.values.layout.plain import is_plain, loop_order

# The shortest rows that are counted, by the width of keys: of shorter ones, most counts are zero.
_SHORTEST = {8: 256, 16: 65536}
# A row at least this long is counted by all threads, if there are few rows.
_LONG, _FEW_LINES = 65536, 8
# The most blocks that are counted apart, and the fewest elements of one.
_BLOCKS, _LEAST_BLOCK = 8, 32768
# Keys that are computed before they are counted.
_CHUNK = 512
# Ranges of keys whose elements are written apart.
_RANGES = 16


def counts_keys(inst: Instruction, lines: Lines, key: SortKey) -> bool:
    """Return whether a sort can and should count its keys."""
    return (
        len(inst.operands) == 1
        and _SHORTEST.get(key.bits, 1 << 31) <= lines.length < 1 << 31
        and key.canonical is not None
    )


def plan_counting(lines: Lines, key: SortKey) -> Plan:
    """Return the steps that sort rows by counting."""
    counts = 4 << key.bits
    if lines.length < _LONG or lines.count > _FEW_LINES:
        return Plan((_sort_lines,), (lines.groups * counts,))
    assert key.canonical is not None
    blocks = _blocks(lines.length)
    steps = [_count, _add_up, _write]
    if key.canonical.ties:
        steps.append(_restore)
    return Plan(tuple(steps), (lines.count * blocks * counts, lines.count * (_RANGES + blocks) * 8))


def _blocks(length: int) -> int:
    return max(1, min(_BLOCKS, length // _LEAST_BLOCK))


class _Counter(KeySorter):
    """Emission of parts of a sort into one kernel.

    Of long rows, words of memory have how many elements each range of keys has, then whether keys
    do not tell some element of a block.
    """

    @property
    def buckets(self) -> int:
        return 1 << self.key.bits

    def counts(self, number: Index) -> str:
        """Return the address of a set of counts."""
        return self.b.element_address(self.k.scratch[0], "i32", self.b.mul(number, self.buckets))

    def word(self, line: Index, number: Index) -> str:
        at = self.b.add(self.b.mul(line, _RANGES + _blocks(self.n)), number)
        return self.b.element_address(self.k.scratch[1], "i64", at)

    def count(self, counts: str, start: Sequence[Index], first: Index, count: Index) -> Val:
        """Count the keys of a part of a row; returns whether they do not tell some element."""
        b = self.b
        differences = b.alloca(self.t).name
        b.store(int_const(self.key.bits, 0), differences)
        clear(b, counts, 4 * self.buckets)
        # Keys are computed in vectors, and counted one by one.
        keys = b.alloca(self.t, _CHUNK, align=64).name
        with b.loop(0, count, _CHUNK) as chunk:
            here = b.minimum(_CHUNK, b.sub(count, chunk))
            with b.loop(0, here, plain=self.is_strided) as i:
                key, difference = self.key_at(start, b.add(b.add(first, chunk), i))
                b.store(self.signed(key), b.element_address(keys, self.t, i))
                if self.canonical.ties:
                    b.store(b.binary("or", b.load(self.t, differences), difference), differences)
            with b.loop(0, here, plain=True) as n:
                key = b.load(self.t, b.element_address(keys, self.t, n))
                place = b.element_address(counts, "i32", as_index(b, key))
                b.store(b.binary("add", b.load("i32", place), 1), place)
        return b.icmp("ne", b.load(self.t, differences), 0)

    def write_keys(
        self, counts: str, start: Sequence[Index], keys: tuple[Index, Index], first: Index,
        end: Index,
    ) -> None:  # fmt: skip
        """Write the elements of a range of keys, which are those from `first` to `end`."""
        b, place = self.b, Variable(self.b, first)
        with b.loop(*keys, plain=True) as rank:
            count = as_index(b, b.load("i32", b.element_address(counts, "i32", rank)))
            value = self.canonical.order.value(b, b.cast("trunc", i64(rank), self.t))
            assert isinstance(value, Val)
            self._write_equal(start, value, place.get(), count, end)
            place.add(count)

    def _write_equal(
        self, start: Sequence[Index], value: Val, first: Index, count: Index, end: Index
    ) -> None:
        """Write equal elements; where more follow up to `end`, possibly too many of them."""
        # The result may lie in another order than the operand, whose lines are in its own.
        b, shape = self.b, self.k.inst.array_shape
        et = element_type(self.k.inst.operands[0])

        def one_by_one() -> list[Val]:
            with b.loop(0, count, plain=True) as i:
                self.k.store(value, self.lines.at(start, b.add(first, i)))
            return []

        lanes = self.k.target.vector_bits // self.key.bits
        is_strided = not is_plain(shape) or self.lines.dim != loop_order(shape)[-1]
        if is_strided or et.bits < 8 or lanes < 2:
            one_by_one()
            return

        def in_vectors() -> list[Val]:
            raw = b.splat(scalar.to_memory(b, et, value), lanes)
            # One vector at least, so that it is seldom known too late how many there are.
            with b.loop(0, b.maximum(count, 1), lanes, plain=True) as i:
                at = physical_index(b, shape, self.lines.at(start, b.add(first, i)))
                address = b.element_address(self.k.outputs[0], scalar.memory_type(et), at)
                b.store(raw, address, self.key.bits // 8)
            return []

        fits = b.compare("sle", b.add(b.add(first, count), lanes), end)
        b.choose(fits, in_vectors, one_by_one)


def _sort_lines(k: Kernel) -> Extent:
    """Sort each row by one thread."""
    s = _Counter(k)
    b, n = k.b, s.n
    with b.loop(k.begin, k.end) as group:
        counts = s.counts(group)
        with s.lines.of_group(b, group) as line:
            start = s.lines.start(b, line)
            has_others = s.count(counts, start, 0, n)
            s.write_keys(counts, start, (0, s.buckets), 0, n)
            if s.canonical.ties:
                with b.when(has_others):
                    s.restore(start)
    return Extent(s.lines.groups, float(s.lines.each * (n * 4 + s.buckets * 8)))


def _count(k: Kernel) -> Extent:
    """Count the keys of every block."""
    s = _Counter(k)
    b, blocks = k.b, _blocks(s.n)
    size = -(-s.n // blocks)
    with b.loop(k.begin, k.end) as share:
        line, block = split_index(b, share, [s.lines.count, blocks])
        first = b.mul(block, size)
        here = b.minimum(size, b.sub(s.n, first))
        has_others = s.count(s.counts(share), s.lines.start(b, line), first, here)
        b.store(b.cast("zext", has_others, "i64"), s.word(line, b.add(block, _RANGES)))
    return Extent(s.lines.count * blocks, 4.0 * size)


def _add_up(k: Kernel) -> Extent:
    """Add the counts of all blocks to those of the first, and add up those of ranges of keys."""
    s = _Counter(k)
    b, blocks, size = k.b, _blocks(s.n), s.buckets // _RANGES
    lanes = min(size, max(1, k.target.vector_bits // 32))
    vector = vector_type(lanes, "i32")
    with b.loop(k.begin, k.end) as share:
        line, part = split_index(b, share, [s.lines.count, _RANGES])
        row, first = b.mul(line, blocks), b.mul(part, size)
        with b.carrying(0, size, [Val(vector, "zeroinitializer")], lanes, plain=True) as turn:
            places = [
                b.element_address(s.counts(b.add(row, block)), "i32", b.add(first, turn.index))
                for block in range(blocks)
            ]
            counts = b.load(vector, places[0], align=4)
            for place in places[1:]:
                counts = b.binary("add", counts, b.load(vector, place, align=4))
            b.store(counts, places[0], align=4)
            turn.values = [b.binary("add", turn.values[0], counts)]
        # All elements of a row are fewer than 32 bits count.
        name = f"llvm.vector.reduce.add.{overload(vector)}"
        b.module.declare(name, "i32", [vector])
        total = as_index(b, b.call(name, turn.values, "i32"))
        b.store(i64(total), s.word(line, part))
    return Extent(s.lines.count * _RANGES, float(size * blocks))


def _write(k: Kernel) -> Extent:
    """Write the elements of every range of keys."""
    s = _Counter(k)
    b, size = k.b, s.buckets // _RANGES
    with b.loop(k.begin, k.end) as share:
        line, part = split_index(b, share, [s.lines.count, _RANGES])
        first = Variable(b, 0)
        with b.loop(0, part, plain=True) as before:
            first.add(b.load("i64", s.word(line, before)).name)
        begin = first.get()
        end = b.add(begin, b.load("i64", s.word(line, part)).name)
        keys = b.mul(part, size)
        counts = s.counts(b.mul(line, _blocks(s.n)))
        s.write_keys(counts, s.lines.start(b, line), (keys, b.add(keys, size)), begin, end)
    return Extent(s.lines.count * _RANGES, float(size * 8 + s.n // _RANGES))


def _restore(k: Kernel) -> Extent:
    """Write what keys do not tell."""
    s = _Counter(k)
    b, flag = k.b, Variable(k.b)
    with b.loop(k.begin, k.end) as line:
        flag.set(0)
        with b.loop(0, _blocks(s.n), plain=True) as block:
            flag.add(b.load("i64", s.word(line, b.add(block, _RANGES))).name)
        with b.when(b.compare("ne", flag.get(), 0)):
            s.restore(s.lines.start(b, line))
    # It seldom has to be done.
    return Extent(s.lines.count)
