"""Sorts of keys that tell the elements, by quicksort: elements are made of sorted keys.

Where elements of different bits are equal (zeros, NaN), what is made may not be what was there, but
it is at the right places: if there was one, these elements are copied from the operand, in order.

A short row is sorted by one thread in memory of its own. A long one is first divided into buckets
by all of them: a sample gives the bounds, keys are counted by bucket, and move there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.sort.quick import (
    SLACK,
    has_quicksort,
    lanes_of,
    permutations,
    quicksort,
)
from hlo.codegen.kernels.variables import Variable, as_index
from hlo.codegen.llvm import Index, Val, i64, int_const, ptr
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.loops.vectors import clear
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.llvm import vector_type
from hlo.values.layout.plain import loop_order

# Keys of fewer bits are sorted by digits; shorter rows by insertion.
_KEY_BITS, _SHORTEST = (32, 64), 16
# A row at least this long is sorted by all threads, if there are few rows.
_LONG, _FEW_LINES = 65536, 8
_BLOCKS, _LEAST_BLOCK = 32, 16384
# Buckets of a long row, and how many keys of the sample there are to each.
_BUCKETS, _SAMPLED = 16, 16
# The cost of sorting a key, by the logarithm of their number.
_LEVEL_COST = 4


def sorts_keys(inst: Instruction, lines: Lines, key: SortKey, target: Target) -> bool:
    """Return whether a sort can and should be one of keys only."""
    return (
        has_quicksort(target)
        and len(inst.operands) == 1
        and key.bits in _KEY_BITS
        and _SHORTEST <= lines.length < 1 << 31
        and key.canonical is not None
    )


def plan_key_sort(lines: Lines, key: SortKey) -> Plan:
    """Return the steps that sort rows by keys."""
    tables, n, width = (permutations(key.bits),), lines.length, key.bits // 8
    if n < _LONG or lines.count > _FEW_LINES:
        return Plan((_sort_lines,), (lines.groups * 2 * (n + SLACK) * width,), tables)
    assert key.canonical is not None
    steps = [_sample, _classify, _find_places, _move, _sort_buckets]
    if key.canonical.ties:
        steps.append(_restore)
    bounds = _BUCKETS * lanes_of(key.bits) * width
    sizes = (
        2 * _stride(n) * width, n, _blocks(n) * _BUCKETS * 4, bounds, (_BUCKETS + 2) * 8
    )  # fmt: skip
    return Plan(tuple(steps), tuple(lines.count * size for size in sizes), tables)


class KeySorter:
    """Emission of parts of a sort into one kernel."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.b = k, k.b
        key = SortKey.of(k.inst.to_apply)
        assert key is not None and key.canonical is not None
        self.key, self.canonical = key, key.canonical
        self.t, self.lanes = f"i{key.bits}", lanes_of(key.bits)
        self.lines = Lines(k.inst.operands[0].array_shape, k.inst.dimensions[0])
        self.n = self.lines.length
        # Strided elements are not worth vectors.
        self.is_strided = self.lines.dim != loop_order(self.lines.shape)[-1]

    def key_at(self, start: Sequence[Index], position: Index) -> tuple[Val, Val]:
        """Return the signed key of an element, and a number that is 0 if the key tells it."""
        b = self.b
        value = self.k.elements.at(self.k.inst.operands[0], self.lines.at(start, position))
        assert isinstance(value, Val)
        rank = self.key.rank(b, [value])
        return self.signed(rank), self.canonical.difference(b, value, rank)

    def signed(self, rank: Val) -> Val:
        """Return an unsigned number as a signed one of the same order, and the other way round."""
        return self.b.binary("xor", rank, int_const(self.key.bits, 1 << self.key.bits - 1))

    def address(self, at: Index) -> str:
        return self.b.element_address(self.k.scratch[0], self.t, at)

    def build(self, start: Sequence[Index], first: Index, count: Index, to: Index) -> Val:
        """Write the keys of a part of a row; returns whether they do not tell some element."""
        b = self.b
        differences = b.alloca(self.t)
        b.store(int_const(self.key.bits, 0), differences.name)
        with b.loop(0, count, plain=self.is_strided) as i:
            key, difference = self.key_at(start, b.add(first, i))
            b.store(key, self.address(b.add(to, i)))
            if self.canonical.ties:
                old = b.load(self.t, differences.name)
                b.store(b.binary("or", old, difference), differences.name)
        return b.icmp("ne", b.load(self.t, differences.name), 0)

    def sort(self, keys: Index, others: Index, count: Index) -> None:
        b = self.b
        here, there = ptr(self.address(keys)), ptr(self.address(others))
        args = [here, there, i64(count), ptr(self.k.tables[0])]
        b.call_void(quicksort(b.module, self.key.bits), args)

    def write(self, start: Sequence[Index], first: Index, count: Index, source: Index) -> None:
        """Store the elements that sorted keys tell."""
        b = self.b
        with b.loop(0, count, plain=self.is_strided) as i:
            rank = self.signed(b.load(self.t, self.address(b.add(source, i))))
            value = self.canonical.order.value(b, rank)
            self.k.store(value, self.lines.at(start, b.add(first, i)))

    def restore(self, start: Sequence[Index]) -> None:
        """Store those elements of a row that keys do not tell, and those that are equal to them."""
        b = self.b
        tied = list(self.canonical.tied(b, self.key.comparator))
        ranks = b.alloca(self.t, len(tied)).name
        for number, rank in enumerate(tied):
            b.store(self.signed(rank), b.element_address(ranks, self.t, number))
        with b.loop(0, len(tied), plain=True) as tie:
            wanted = b.load(self.t, b.element_address(ranks, self.t, tie))
            # Those before come first; one turn counts them, and the next one stores.
            place = Variable(b, 0)
            with b.loop(0, 2, plain=True) as turn, b.loop(0, self.n, plain=True) as i:
                key, _ = self.key_at(start, i)
                stores = b.both(b.compare("eq", turn, 1), b.icmp("eq", key, wanted))
                with b.when(stores):
                    value = self.k.elements.at(self.k.inst.operands[0], self.lines.at(start, i))
                    self.k.store(value, self.lines.at(start, place.get()))
                less = b.both(b.compare("eq", turn, 0), b.icmp("slt", key, wanted))
                place.add(b.cast("zext", b.binary("or", stores, less), "i64").name)


def _sort_lines(k: Kernel) -> Extent:
    """Sort each row by one thread."""
    s = KeySorter(k)
    b, n = k.b, s.n
    with b.loop(k.begin, k.end) as group:
        keys = b.mul(group, 2 * (n + SLACK))
        with s.lines.of_group(b, group) as line:
            start = s.lines.start(b, line)
            has_others = s.build(start, 0, n, keys)
            s.sort(keys, b.add(keys, n + SLACK), n)
            s.write(start, 0, n, keys)
            if s.canonical.ties:
                with b.when(has_others):
                    s.restore(start)
    return Extent(s.lines.groups, float(s.lines.each * n * _LEVEL_COST * n.bit_length()))


# --- long rows ----------------------------------------------------------------------------------


def _blocks(length: int) -> int:
    return max(1, min(_BLOCKS, length // _LEAST_BLOCK))


def _stride(length: int) -> int:
    """Return how much room a row has for keys: there is some after each bucket."""
    return length + _BUCKETS * SLACK


class _Long(KeySorter):
    """What the steps of the sort of a long row share: its memory.

    Keys come in any order first, and by bucket then. Besides there are: the bucket of each; how
    many each block has for a bucket, later where they go; the bounds of buckets, vectors of which
    all lanes are the same; where each bucket begins; whether keys do not tell some element.
    """

    def keys(self, line: Index, side: int) -> Index:
        stride = _stride(self.n)
        return self.b.add(self.b.mul(line, 2 * stride), side * stride)

    def bucket_at(self, line: Index, position: Index) -> str:
        at = self.b.add(self.b.mul(line, self.n), position)
        return self.b.element_address(self.k.scratch[1], "i8", at)

    def counts(self, line: Index, block: Index) -> str:
        at = self.b.add(self.b.mul(line, _blocks(self.n)), block)
        return self.b.element_address(self.k.scratch[2], "i32", self.b.mul(at, _BUCKETS))

    def bounds(self, line: Index) -> str:
        at = self.b.mul(line, _BUCKETS * self.lanes)
        return self.b.element_address(self.k.scratch[3], self.t, at)

    def starts(self, line: Index) -> str:
        return self.b.element_address(self.k.scratch[4], "i64", self.b.mul(line, _BUCKETS + 1))

    def flag(self, line: Index) -> str:
        b = self.b
        at = b.add((_BUCKETS + 1) * self.lines.count, line)
        return b.element_address(self.k.scratch[4], "i64", at)

    @contextmanager
    def blocks(self) -> Iterator[tuple[Index, Index, Index, Index]]:
        """Emit the body for every block of every row: line, block, first position, count."""
        b, blocks = self.b, _blocks(self.n)
        size = -(-self.n // blocks)
        with b.loop(self.k.begin, self.k.end) as share:
            line, block = split_index(b, share, [self.lines.count, blocks])
            first = b.mul(block, size)
            yield line, block, first, b.minimum(size, b.sub(self.n, first))

    def extent(self, cost: float) -> Extent:
        blocks = _blocks(self.n)
        return Extent(self.lines.count * blocks, cost * (self.n // blocks))


def _sample(k: Kernel) -> Extent:
    """Find the bounds of buckets: keys of a sorted sample."""
    s = _Long(k)
    b, count = k.b, _BUCKETS * _SAMPLED
    with b.loop(k.begin, k.end) as line:
        start, keys = s.lines.start(b, line), s.keys(line, 0)
        with b.loop(0, count, plain=True) as i:
            key, _ = s.key_at(start, b.udiv(b.mul(i, s.n), count))
            b.store(key, s.address(b.add(keys, i)))
        s.sort(keys, s.keys(line, 1), count)
        with b.loop(0, _BUCKETS - 1, plain=True) as bucket:
            at = b.mul(b.add(bucket, 1), _SAMPLED)
            bound = b.splat(b.load(s.t, s.address(b.add(keys, at))), s.lanes)
            place = b.element_address(s.bounds(line), s.t, b.mul(bucket, s.lanes))
            b.store(bound, place, s.key.bits // 8)
        b.store(i64(0), s.flag(line))
    return Extent(s.lines.count, float(count * _LEVEL_COST * count.bit_length()))


# Vectors that are compared with each bound.
_COMPARED = 4


def _classify(k: Kernel) -> Extent:
    """Make the keys of blocks, find their buckets, and count them."""
    s = _Long(k)
    b, w, width = k.b, s.lanes, s.key.bits // 8
    vector = vector_type(w, s.t)
    with s.blocks() as (line, block, first, count):
        here = b.add(s.keys(line, 0), first)
        has_others = s.build(s.lines.start(b, line), first, count, here)
        with b.when(has_others):
            b.store(i64(1), s.flag(line))
        bounds, step = s.bounds(line), _COMPARED * w
        with b.loop(0, count, step, plain=True) as i:
            # The last vectors end where the block ends.
            at = b.minimum(i, b.sub(count, step))
            places = [b.add(at, v * w) for v in range(_COMPARED)]
            keys = [b.load(vector, s.address(b.add(here, p)), width) for p in places]
            all_buckets = b.splat(int_const(s.key.bits, _BUCKETS - 1), w)
            with b.carrying(0, _BUCKETS - 1, [all_buckets] * _COMPARED, plain=True) as turn:
                place = b.element_address(bounds, s.t, b.mul(turn.index, w))
                bound = b.load(vector, place, width)
                for v, some in enumerate(keys):
                    less = b.cast("sext", b.icmp("sgt", bound, some), vector)
                    turn.values[v] = b.binary("add", turn.values[v], less)
            for p, buckets in zip(places, turn.values, strict=True):
                narrow = b.cast("trunc", buckets, vector_type(w, "i8"))
                b.store(narrow, s.bucket_at(line, b.add(first, p)), 1)
        counts = s.counts(line, block)
        clear(b, counts, 4 * _BUCKETS)
        with b.loop(0, count, plain=True) as i:
            _take(s, counts, line, b.add(first, i))
    return s.extent(8.0)


def _take(s: _Long, counts: str, line: Index, position: Index) -> Index:
    """Increment the count of a key's bucket; returns what it was."""
    b = s.b
    bucket = as_index(b, b.load("i8", s.bucket_at(line, position)))
    at = b.element_address(counts, "i32", bucket)
    old = b.load("i32", at)
    b.store(b.binary("add", old, 1), at)
    return as_index(b, old)


def _find_places(k: Kernel) -> Extent:
    """Turn the counts of all blocks into positions, and find where buckets begin."""
    s = _Long(k)
    b, blocks = k.b, _blocks(s.n)
    with b.loop(k.begin, k.end) as line:
        place, starts = Variable(b, 0), s.starts(line)
        with b.loop(0, _BUCKETS, plain=True) as bucket:
            b.store(i64(place.get()), b.element_address(starts, "i64", bucket))
            with b.loop(0, blocks, plain=True) as block:
                at = b.element_address(s.counts(line, block), "i32", bucket)
                here = as_index(b, b.load("i32", at))
                room = b.add(place.get(), b.mul(bucket, SLACK))
                b.store(b.cast("trunc", i64(room), "i32"), at)
                place.add(here)
        b.store(i64(place.get()), b.element_address(starts, "i64", _BUCKETS))
    return Extent(s.lines.count, 8.0 * blocks * _BUCKETS)


def _move(k: Kernel) -> Extent:
    """Move the keys of blocks to their buckets."""
    s = _Long(k)
    b = k.b
    with s.blocks() as (line, block, first, count):
        here, there, counts = s.keys(line, 0), s.keys(line, 1), s.counts(line, block)
        with b.loop(0, count, plain=True) as i:
            position = b.add(first, i)
            key = b.load(s.t, s.address(b.add(here, position)))
            b.store(key, s.address(b.add(there, _take(s, counts, line, position))))
    return s.extent(4.0)


def _sort_buckets(k: Kernel) -> Extent:
    """Sort each bucket, and write its elements."""
    s = _Long(k)
    b = k.b
    with b.loop(k.begin, k.end) as share:
        line, bucket = split_index(b, share, [s.lines.count, _BUCKETS])
        starts = s.starts(line)
        first, end = (
            b.load("i64", b.element_address(starts, "i64", n)).name
            for n in (bucket, b.add(bucket, 1))
        )
        count, room = b.sub(end, first), b.add(first, b.mul(bucket, SLACK))
        keys = b.add(s.keys(line, 1), room)
        s.sort(keys, b.add(s.keys(line, 0), room), count)
        s.write(s.lines.start(b, line), first, count, keys)
    each = s.n // _BUCKETS
    return Extent(s.lines.count * _BUCKETS, float(each * _LEVEL_COST * each.bit_length()))


def _restore(k: Kernel) -> Extent:
    """Write what keys do not tell."""
    s = _Long(k)
    b = k.b
    with b.loop(k.begin, k.end) as line, b.when(b.icmp("ne", b.load("i64", s.flag(line)), 0)):
        s.restore(s.lines.start(b, line))
    # It seldom has to be done.
    return Extent(s.lines.count)
