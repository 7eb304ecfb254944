"""Sorts: by quicksort, counting or radix where a key tells the order, else by merging.

The comparator is emitted inline. Rows along the sorted dimension are distributed over threads; a
long row is sorted block by block, and pairs of sorted runs are merged in pieces whose bounds are
found by search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import element_type
from hlo.codegen.kernels.sort.counting import counts_keys, plan_counting
from hlo.codegen.kernels.sort.key_sort import plan_key_sort, sorts_keys
from hlo.codegen.kernels.sort.keys import SortKey
from hlo.codegen.kernels.sort.lines import Lines
from hlo.codegen.kernels.sort.merging import RUN, MergeSort, Record
from hlo.codegen.kernels.sort.radix import plan_radix
from hlo.codegen.llvm import Index, Val, i64
from hlo.codegen.loops.inline import inline
from hlo.codegen.loops.kernel import Kernel, planner, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction

# Shorter rows are merged: counting digits would take longer. Radix sorts count in 32 bits.
_RADIX_MIN, _RADIX_END = 64, 1 << 31
# A row at least this long is sorted by all threads, if there are few rows. A block takes an even
# number of merges, so that its records end up where they began.
_LONG, _FEW_LINES = 32768, 8
_BLOCK = RUN << 10


@planner("sort")
def plan_sort(inst: Instruction, _: Mapping[Instruction, Role], target: Target) -> Plan:
    """Choose by comparator and size."""
    lines = _lines_of(inst)
    if not lines.count or not lines.length:
        return Plan(())
    needed = needed_results(inst)
    key = SortKey.of(inst.to_apply)
    if key is not None and sorts_keys(inst, lines, key, target):
        return plan_key_sort(lines, key)
    if key is not None and counts_keys(inst, lines, key):
        return plan_counting(lines, key)
    if key is not None and _RADIX_MIN <= lines.length < _RADIX_END:
        return plan_radix(inst, lines, key, needed)
    widths = [element_type(o).byte_width for o in inst.operands]
    if lines.length < _LONG or lines.count > _FEW_LINES:
        count = lines.groups
        return Plan((_SortLines(needed),), tuple(2 * count * lines.length * w for w in widths))
    levels = (-(-lines.length // _BLOCK) - 1).bit_length()
    steps: list[Callable[[Kernel], Extent]] = [_SortBlocks(needed), _begin]
    steps += [_MergeRuns(needed), _double] * levels
    steps.append(_Finish(needed))
    sizes = [2 * lines.count * lines.length * w for w in widths]
    return Plan(tuple(steps), (*sizes, 16))


def _lines_of(inst: Instruction) -> Lines:
    shape = inst.operands[0].array_shape
    return Lines(shape, inst.dimensions[0])


def needed_results(inst: Instruction) -> tuple[int, ...]:
    """Return the numbers of the results that are used."""
    parent = inst.parent
    used = set[int]()
    for user in inst.users:
        if user.opcode != "get-tuple-element":
            return tuple(range(len(inst.operands)))
        used.add(user.tuple_index)
    if not inst.shape.is_tuple or (parent is not None and parent.root is inst):
        return tuple(range(len(inst.operands)))
    return tuple(sorted(used))


class _Sorter:
    """Emission of parts of a merge sort into one kernel.

    The workspace has an array for each operand, with two buffers for every row or group of rows.
    """

    def __init__(self, k: Kernel, needed: Sequence[int]) -> None:
        self.k = k
        self.b = k.b
        self.needed = needed
        self.lines = _lines_of(k.inst)
        self.n = self.lines.length
        self.types = [element_type(o) for o in k.inst.operands]
        self.sort = MergeSort(k.b, self.load, self.put, self.less)

    def load(self, at: Index) -> list[Value]:
        pairs = zip(self.types, self.k.scratch, strict=False)
        return [scalar.load(self.b, et, base, at) for et, base in pairs]

    def put(self, record: Record, at: Index) -> None:
        for et, base, value in zip(self.types, self.k.scratch, record, strict=False):
            scalar.store(self.b, et, value, base, at)

    def less(self, x: Record, y: Record) -> Val:
        args = [value for pair in zip(x, y, strict=True) for value in pair]
        (result,) = inline(self.b, self.k.inst.to_apply, args)
        assert isinstance(result, Val)
        return result

    def read(self, start: Sequence[Index], first: Index, count: Index, to: Index) -> None:
        """Copy elements of a row to the workspace."""
        b = self.b
        with b.loop(0, count, plain=True) as i:
            at = self.lines.at(start, b.add(first, i))
            record = [self.k.elements.at(o, at) for o in self.k.inst.operands]
            self.put(record, b.add(to, i))

    def write(self, start: Sequence[Index], first: Index, count: Index, source: Index) -> None:
        """Store results from the workspace."""
        b = self.b
        with b.loop(0, count, plain=True) as i:
            record = self.load(b.add(source, i))
            at = self.lines.at(start, b.add(first, i))
            for n in self.needed:
                self.k.store(record[n], at, n)

    # --- the state of a long sort: the length of runs, and their buffer -------------------------

    def word(self, number: int) -> str:
        return self.b.element_address(self.k.scratch[len(self.types)], "i64", number)

    def state(self) -> tuple[Index, Index]:
        width, side = (self.b.load("i64", self.word(n)).name for n in range(2))
        return width, side

    @cached_property
    def blocks(self) -> int:
        return -(-self.n // _BLOCK)

    @contextmanager
    def shares(self) -> Iterator[tuple[Index, Index, Index]]:
        """Emit the body for blocks of rows: row, first position, number of positions."""
        b = self.b
        with b.loop(self.k.begin, self.k.end) as share:
            line, number = split_index(b, share, [self.lines.count, self.blocks])
            first = b.mul(number, _BLOCK)
            yield line, first, b.minimum(_BLOCK, b.sub(self.n, first))

    def extent(self, cost: float) -> Extent:
        return Extent(self.lines.count * self.blocks, cost * _BLOCK)


@dataclass(frozen=True)
class _SortLines:
    """Sort each row."""

    needed: tuple[int, ...]

    def __call__(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.needed)
        b, n = k.b, s.n
        with b.loop(k.begin, k.end) as group:
            base = b.mul(group, 2 * n)
            with s.lines.of_group(b, group) as line:
                start = s.lines.start(b, line)
                s.read(start, 0, n, base)
                s.write(start, 0, n, s.sort.sort(base, b.add(base, n), n))
        return Extent(s.lines.groups, float(s.lines.each * n * 6 * n.bit_length()))


@dataclass(frozen=True)
class _SortBlocks:
    """Sort every block of every row."""

    needed: tuple[int, ...]

    def __call__(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.needed)
        b = k.b
        with s.shares() as (line, first, count):
            base = b.add(b.mul(line, 2 * s.n), first)
            s.read(s.lines.start(b, line), first, count, base)
            end = s.sort.sort(base, b.add(base, s.n), count)
            # The last block may be shorter, and take fewer merges.
            with b.when(b.compare("ne", end, base)), b.loop(0, count) as i:
                s.put(s.load(b.add(end, i)), b.add(base, i))
        return s.extent(6.0 * _BLOCK.bit_length())


def _begin(k: Kernel) -> Extent:
    """Record that blocks are sorted."""
    s = _Sorter(k, ())
    with k.b.loop(k.begin, k.end, plain=True):
        k.b.store(i64(_BLOCK), s.word(0))
        k.b.store(i64(0), s.word(1))
    return Extent(1)


def _double(k: Kernel) -> Extent:
    """Record that runs are twice as long, and in the other buffer."""
    s = _Sorter(k, ())
    b = k.b
    with b.loop(k.begin, k.end, plain=True):
        width, side = s.state()
        b.store(i64(b.add(width, width)), s.word(0))
        other = b.binary("xor", i64(side), 1)
        b.store(other, s.word(1))
    return Extent(1)


@dataclass(frozen=True)
class _MergeRuns:
    """Merge pairs of runs; each block of the result independently."""

    needed: tuple[int, ...]

    def __call__(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.needed)
        b = k.b
        with s.shares() as (line, first, count):
            width, side = s.state()
            base = b.mul(line, 2 * s.n)
            old = b.add(base, b.mul(side, s.n))
            new = b.add(base, b.mul(b.sub(1, side), s.n))
            double = b.add(width, width)
            low = b.binary("and", i64(first), b.sub(0, double)).name
            middle = b.minimum(b.add(low, width), s.n)
            high = b.minimum(b.add(low, double), s.n)
            left, right = b.add(old, low), b.add(old, middle)
            before = b.sub(first, low)
            from_left, left_end = s.sort.part(
                left, b.sub(middle, low), right, b.sub(high, low), double, before, _BLOCK
            )
            s.sort.merge(
                b.add(left, from_left), b.add(left, left_end),
                b.add(right, b.sub(before, from_left)),
                b.add(right, b.sub(b.add(before, count), left_end)), b.add(new, first),
            )  # fmt: skip
        return s.extent(8.0)


@dataclass(frozen=True)
class _Finish:
    """Write the results."""

    needed: tuple[int, ...]

    def __call__(self, k: Kernel) -> Extent:
        s = _Sorter(k, self.needed)
        b = k.b
        with s.shares() as (line, first, count):
            _, side = s.state()
            source = b.add(b.mul(line, 2 * s.n), b.mul(side, s.n))
            s.write(s.lines.start(b, line), first, count, b.add(source, first))
        return s.extent(1.0)
