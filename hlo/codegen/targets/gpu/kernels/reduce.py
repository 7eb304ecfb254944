"""Reductions over dimensions: by lanes along contiguous rows, or side by side along columns.

A group of threads reduces the elements of one result. Where reduced elements are contiguous, the
group is adjacent threads, and what they found is combined by exchange between lanes. Where results
are, adjacent threads have adjacent results, and rows of threads are combined in shared memory. Few
results of many elements are reduced in parts by several blocks, whose results a second launch
reduces in the same way. How elements are divided follows from shapes alone.

A function that may be applied in any order takes every so many-th element in a thread. Any other
one takes elements that follow each other; one thread takes all if they may not be split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import rows_of
from hlo.codegen.kernels.reduce.combiner import Accumulators
from hlo.codegen.kernels.reduce.lanes import compared_positions, in_order, position_operand
from hlo.codegen.kernels.reduce.reducer import KernelReducer, Reduction
from hlo.codegen.llvm import Index
from hlo.codegen.loops.inline import inline
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.team import combine_rows, combine_threads
from hlo.ir import Instruction

# Threads of a block, and those that reduce one row together at the most.
_BLOCK, _LONGEST_GROUP = 128, 512
# Columns that a block has side by side, unless a line has few more.
_COLUMNS, _FEW_COLUMNS = 32, 64
# Rows of up to so many elements are a warp's where there are so many of them.
_WARP_ROW, _MANY_ROWS = 4096, 4096
# Threads that keep a GPU busy, and blocks that a reduction is split into.
_WANTED_THREADS, _WANTED_BLOCKS = 1 << 16, 512
# Elements that a thread of a split reduction has at least, and what it reads at once.
_PART_ELEMENTS, _AT_ONCE = 32, 8
# Turns of a loop after which the sum so far is added to a larger one.
_TURNS = 32
# Bytes that a thread reads by one instruction.
_VECTOR_BYTES = 16


class Way(Enum):
    """Which elements of a result a thread takes.

    SPREAD: every so many-th. PICKED: the same, by a function that picks one; positions tell the
    order. CHUNKED: those that follow each other. WHOLE: all, from the initial value on.
    """

    SPREAD = auto()
    PICKED = auto()
    CHUNKED = auto()
    WHOLE = auto()


@dataclass(frozen=True)
class Division:
    """How the threads of a grid share a reduction.

    lines, width: the results, of which `width` lie side by side in each of `lines`. length: the
    elements of each. columns: the results side by side that a block has. group: the threads that
    reduce a result together. lines_at_once: of a block. parts: into which the elements of a result
    are split. vector: elements of a row that a thread reads by one instruction.
    """

    way: Way
    lines: int
    width: int
    length: int
    columns: int = 1
    group: int = 1
    lines_at_once: int = 1
    parts: int = 1
    vector: int = 1

    @property
    def used(self) -> int:
        """The threads of a block that have elements."""
        return self.columns * self.group * self.lines_at_once

    @property
    def strips(self) -> int:
        return -(-self.width // self.columns)

    @property
    def blocks(self) -> int:
        return -(-self.lines // self.lines_at_once) * self.strips * self.parts

    @property
    def tile(self) -> int:
        """The elements of a result that a group reads at once."""
        return self.group * self.vector

    @property
    def part(self) -> int:
        """The elements of a part; the last one may have fewer."""
        return -(-self.length // (self.parts * self.tile)) * self.tile


def divide(way: Way, lines: int, width: int, length: int, vector: int = 1) -> Division:
    """Return how to share a reduction of `lines` times `width` results."""
    d = Division(way, lines, width, length, vector=vector)
    d = _rows(d) if width == 1 else _columns(d)
    taken = d.columns * d.group
    return replace(d, lines_at_once=max(1, min(_BLOCK // taken, lines)))


def _rows(d: Division) -> Division:
    """Choose for results one by one, or of which each is a row of its own."""
    if d.way is Way.WHOLE:
        return d
    is_short = d.lines >= _MANY_ROWS and d.length <= _WARP_ROW
    each = 2 * d.vector if d.vector > 1 else 4
    group = _power(min(-(-d.length // each), 32 if is_short else _LONGEST_GROUP, d.length))
    return _split(replace(d, group=group), d.lines)


def _columns(d: Division) -> Division:
    columns = d.width if d.width <= _FEW_COLUMNS else _COLUMNS
    d = replace(d, columns=columns, vector=1)
    if d.way is Way.WHOLE:
        return d
    wanted = -(-_WANTED_THREADS // (d.lines * d.width))
    most = max(1, 2 * _BLOCK // columns)
    d = replace(d, group=_power(max(1, min(wanted, most, d.length // 4))))
    return _split(d, d.lines * d.strips)


def _split(d: Division, blocks: int) -> Division:
    """Choose the parts for results that take so many blocks otherwise."""
    each = _PART_ELEMENTS * d.group
    if blocks * d.group >= _WANTED_THREADS // 2 or d.length < 2 * each:
        return d
    parts = min(-(-d.length // each), -(-_WANTED_BLOCKS // blocks))
    parts = -(-d.length // replace(d, parts=parts).part)
    return replace(d, parts=parts)


def _power(n: int) -> int:
    """Return the largest power of two up to n."""
    return 1 << (max(n, 1).bit_length() - 1)


def plan_reduce(inst: Instruction, roles: Mapping[Instruction, Role], _: object) -> Plan | None:
    """Return the launches of a reduction: one, or two if it is in parts."""
    if rows_of(inst, roles) is not None:
        return None  # rows that `rows` has no room for
    r = Reduction.of(inst, roles)
    results = r.size(r.kept)
    if not results:
        return Plan(())
    way = _way(r)
    if r.by_columns:
        d = divide(way, results // r.width, r.width, r.length)
    else:
        d = divide(way, results, 1, r.length, _vector(r, way))
    if d.parts == 1:
        return Plan((Reduce(d),))
    # What is left of the parts lies side by side.
    way = Way.SPREAD if way is Way.SPREAD else Way.CHUNKED
    join = divide(way, 1, results, d.parts)
    size = d.parts * results
    scratch = tuple(size * et.byte_width for et in r.combiner.held)
    return Plan((Reduce(d), Reduce(replace(join, parts=1), is_join=True)), scratch)


def _way(r: Reduction) -> Way:
    if r.combiner.known:
        return Way.SPREAD
    if not r.combiner.splits(r.length):
        return Way.WHOLE
    return Way.PICKED if position_operand(r) is not None else Way.CHUNKED


def _vector(r: Reduction, way: Way) -> int:
    """Return how many elements of a row are read by one instruction."""
    if way is not Way.SPREAD or not r.reduced or not r.length:
        return 1
    most = max(1, _VECTOR_BYTES // r.source.element_type.byte_width)
    return math.gcd(r.size(r.reduced[-1:]), min(most, _AT_ONCE))


@dataclass(frozen=True)
class Reduce:
    """Emits one launch of a reduction. is_join: of the results of parts."""

    division: Division
    is_join: bool = False

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        d, lanes = self.division, k.target.lanes
        threads = -(-d.used // lanes) * lanes
        _Emitter(k, d, threads, is_join=self.is_join).emit()
        return Grid(d.blocks * threads, 1.0, d.blocks, threads)


class _Emitter:
    """Emission of one thread's share."""

    def __init__(self, k: Kernel, d: Division, threads: int, *, is_join: bool) -> None:
        assert isinstance(k.target, Gpu)
        self.w, self.b, self.d, self.threads, self.is_join = (
            KernelReducer(k),
            k.b,
            d,
            threads,
            is_join,
        )
        self.block = Block(k.b, k.target)
        self.held = self.w.combiner.held
        self.k = k

    def emit(self) -> None:
        """Write the code."""
        b, d = self.b, self.d
        b.is_careful = True
        thread = self.block.thread_index()
        self.column = b.urem(thread, d.columns)
        self.row = b.urem(b.udiv(thread, d.columns), d.group)
        counts = [-(-d.lines // d.lines_at_once), d.strips, d.parts]
        some_lines, strip, self.part = split_index(b, self.block.block_index(), counts)
        line = b.add(b.mul(some_lines, d.lines_at_once), b.udiv(thread, d.columns * d.group))
        column = b.add(b.mul(strip, d.columns), self.column)
        # Threads without a result of their own do the work of others, and store nothing.
        is_own = b.both(b.compare("slt", line, d.lines), b.compare("slt", column, d.width))
        if d.lines % d.lines_at_once or d.used < self.threads:
            line = b.minimum(line, d.lines - 1)
        if d.width % d.columns:
            column = b.minimum(column, d.width - 1)
        self.result = b.add(b.mul(line, d.width), column)
        self.kept = self._kept(line, column)
        total = self._combined(self._partial())
        with b.when(b.both(is_own, b.compare("eq", self.row, 0))):
            if d.parts > 1:
                self.w.leave(total, self.part, self.result)
            else:
                if d.way is not Way.WHOLE:
                    total = self.w.apply(self.w.inits(), total, in_order=True)
                self.w.store(total, self.kept)

    def _kept(self, line: Index, column: Index) -> dict[int, Index]:
        """Return the indices of a result."""
        w, r = self.w, self.w.r
        if self.is_join or self.d.width == 1:
            return w.kept_at(self.result)
        outer = r.kept[:-1]
        sizes = [r.size([g]) for g in outer]
        place = w.indices(outer, split_index(self.b, line, sizes)) if outer else {}
        return place | w.indices(r.kept[-1:], [column])

    def _combined(self, total: list[Value]) -> list[Value]:
        """Return what the threads of a group have found, at least in the first of them."""
        d = self.d
        if d.group == 1:
            return total
        follow, ordered = self._follow, d.way is Way.CHUNKED
        if d.way is Way.PICKED:
            follow = self._follow_by_position
        if d.columns == 1:
            return combine_threads(
                self.block, total, self.held, d.group, self.threads, follow, in_order=ordered
            )
        place = self.block.thread_index()
        return combine_rows(
            self.block, total, self.held, place, self.row, d.group, d.columns, d.used, follow
        )

    def _follow(self, held: list[Value], new: list[Value]) -> list[Value]:
        return self.w.apply(held, new, in_order=True)

    def _follow_by_position(self, held: list[Value], new: list[Value]) -> list[Value]:
        position = position_operand(self.w.r)
        assert position is not None
        return self._follow_picked(*in_order(self.w, held, new, position))

    def _follow_picked(self, held: list[Value], new: list[Value]) -> list[Value]:
        """Return what is picked of two sets of values, that of the earlier element first."""
        position = position_operand(self.w.r)
        assert position is not None
        comp = self.w.combiner.computation
        known = compared_positions(self.w.combiner, position)
        return inline(self.b, comp, [*held, *new], known=known)

    # --- one thread's elements ------------------------------------------------------------------

    def _partial(self) -> list[Value]:
        acc = Accumulators(self.b, self.held)
        match self.d.way:
            case Way.WHOLE:
                acc.put(self.w.inits())
                self._follow_each(acc, 0, self.d.length)
            case Way.CHUNKED:
                self._chunk(acc)
            case Way.PICKED:
                self._picked(acc)
            case Way.SPREAD:
                self._spread(acc)
        return acc.get()

    def _element(self, at: Index) -> list[Value]:
        if self.is_join:
            return self.w.left(at, self.result)
        return self.w.element(self.kept, self.w.reduced_at(at))

    def _vector(self, at: Index) -> list[list[Value]]:
        """Return the elements that are read by one instruction."""
        w, r, b = self.w, self.w.r, self.b
        if self.d.vector == 1:
            return [self._element(at)]
        *head, last = split_index(b, at, [r.size([g]) for g in r.reduced])
        return [
            w.element(self.kept, w.indices(r.reduced, [*head, b.add(last, n)]))
            for n in range(self.d.vector)
        ]

    def _follow_each(self, acc: Accumulators, first: Index, last: Index) -> None:
        with self.b.loop(first, last, plain=True) as at:
            acc.put(self._follow(acc.get(), self._element(at)))

    def _chunk(self, acc: Accumulators) -> None:
        """Take elements that follow each other: there are some for each thread."""
        b, d = self.b, self.d
        number = b.add(b.mul(self.part, d.group), self.row)
        chunks = d.parts * d.group
        first = b.udiv(b.mul(number, d.length), chunks)
        last = b.udiv(b.mul(b.add(number, 1), d.length), chunks)
        acc.put(self._element(first))
        self._follow_each(acc, b.add(first, 1), last)

    def _bounds(self) -> tuple[Index, Index]:
        """Return where the elements of the block's part begin and end."""
        b, d = self.b, self.d
        if d.parts == 1:
            return 0, d.length
        first = b.mul(self.part, d.part)
        return first, b.minimum(b.add(first, d.part), d.length)

    def _picked(self, acc: Accumulators) -> None:
        """Take every so many-th element, the first one before others.

        The last part may have less than one for each thread. It takes some of the part before
        again, which changes nothing, since elements are only picked.
        """
        b, d = self.b, self.d
        first, last = self._bounds()
        if d.parts > 1:
            first = b.minimum(first, b.sub(last, d.group))
        begin = b.add(first, self.row)
        acc.put(self._element(begin))
        turns = b.udiv(b.sub(b.sub(last, first), d.group), d.group * _AT_ONCE)
        begin = b.add(begin, d.group)
        with b.loop(0, turns, plain=True) as n:
            at = b.add(begin, b.mul(n, d.group * _AT_ONCE))
            for new in [self._element(b.add(at, i * d.group)) for i in range(_AT_ONCE)]:
                acc.put(self._follow_picked(acc.get(), new))
        rest = b.add(begin, b.mul(turns, d.group * _AT_ONCE))
        with b.loop(rest, last, d.group, plain=True) as at:
            acc.put(self._follow_picked(acc.get(), self._element(at)))

    def _spread(self, acc: Accumulators) -> None:
        """Take every so many-th element, or vector of them.

        Elements that are read at once are combined in pairs, then added to a sum of few, and that
        to the total: what rounds is part of few sums.
        """
        b, d, w = self.b, self.d, self.w
        first, last = self._bounds()
        identity = w.combiner.identity()
        vectors = max(1, _AT_ONCE // d.vector)
        stride = d.tile * vectors
        turns = b.udiv(b.sub(last, first), stride)
        begin = b.add(first, b.mul(self.row, d.vector))
        acc.put(identity)

        def turn(into: Accumulators, number: Index) -> None:
            at = b.add(begin, b.mul(number, stride))
            new = [x for i in range(vectors) for x in self._vector(b.add(at, i * d.tile))]
            into.put(w.apply_all(into.get(), new))

        most = turns if isinstance(turns, int) else d.part // stride
        if w.combiner.rounds and most > 2 * _TURNS:
            some = Accumulators(b, self.held)
            with b.loop(0, turns, _TURNS, plain=True) as start:
                some.put(identity)
                with b.loop(start, b.minimum(b.add(start, _TURNS), turns), plain=True) as n:
                    turn(some, n)
                acc.put(self._follow(acc.get(), some.get()))
        elif turns == 1:
            turn(acc, 0)
        else:
            with b.loop(0, turns, plain=True) as n:
                turn(acc, n)
        rest = b.add(begin, b.mul(turns, stride))
        if b.add(first, b.mul(turns, stride)) != last:
            with b.loop(rest, last, d.tile, plain=True) as at:
                acc.put(w.apply_all(acc.get(), self._vector(at)))


Planners = dict[str, Callable[..., Plan | None]]
PLANNERS: Planners = {"reduce": plan_reduce}
