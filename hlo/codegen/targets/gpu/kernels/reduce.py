"""Reductions over dimensions: by lanes along contiguous rows, or side by side along columns.

A group of threads reduces the elements of one result. Where reduced elements are contiguous, the
group is adjacent threads, and what they found is combined by exchange between lanes. Where results
are, adjacent threads have adjacent results, and rows of threads are combined in shared memory. Few
results of many elements are reduced in parts by several blocks; the last one of them to end reduces
what all have found in the same way. How elements are divided follows from shapes alone.

A function that may be applied in any order takes every so many-th element in a thread. Any other
one takes elements that follow each other; one thread takes all if they may not be split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.accesses import memory_order
from hlo.analysis.fusion.endings import reduction_in, space_of
from hlo.analysis.fusion.operations import is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import Accumulators
from hlo.codegen.kernels.reduce.reducer import Reducer, Reduction
from hlo.codegen.llvm import Index
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.division import (
    AT_ONCE,
    Division,
    Way,
    divide,
    vector_of,
    way_of,
)
from hlo.codegen.targets.gpu.kernels.last_block import COUNTER_TYPE, is_last_block
from hlo.codegen.targets.gpu.kernels.members import Members
from hlo.codegen.targets.gpu.kernels.team import SharedValues, combine_rows, combine_threads
from hlo.ir import Instruction

# Turns of a loop after which the sum so far is added to a larger one.
_TURNS = 32


def plan_reduce(inst: Instruction, roles: Mapping[Instruction, Role], _: object) -> Plan:
    """Return the launch of a reduction."""
    return plan_reductions([inst], roles)


def plan_reductions(insts: Sequence[Instruction], roles: Mapping[Instruction, Role]) -> Plan:
    """Return the launch of reductions of arrays that lie alike, over the same dimensions."""
    found = _loops_of(insts, roles)
    r = found[0]
    results = r.size(r.kept)
    if not results:
        return Plan(())
    way = way_of(r)
    held = sum(et.byte_width for r in found for et in r.combiner.held)
    if r.by_columns:
        width = min(r.width for r in found)
        d = divide(way, results // width, width, r.length, held=held)
    else:
        d = divide(way, results, 1, r.length, math.gcd(*(vector_of(r, way) for r in found)))
    if d.parts == 1:
        return Plan((Reduce(d),))
    size = d.parts * results
    scratch = tuple(size * et.byte_width for r in found for et in r.combiner.held)
    return Plan((Reduce(d),), scratch, counters=d.sharing_blocks)


def _loops_of(insts: Sequence[Instruction], roles: Mapping[Instruction, Role]) -> list[Reduction]:
    """Return reductions with loops that follow the memory that is read, the same for all."""
    found = [Reduction.of(inst, roles) for inst in insts]
    operands = [operand for r in found for operand in r.operands]
    order = tuple(memory_order(operands, roles, found[0].loops))
    return [replace(r, order=order) for r in found]


@dataclass(frozen=True)
class Reduce:
    """Emits a reduction."""

    division: Division

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        d, lanes = self.division, k.target.lanes
        threads = -(-d.used // lanes) * lanes
        _Emitter(k, d, threads).emit()
        return Grid(d.blocks * threads, 1.0, d.blocks, threads, is_final=True)


class _Emitter:
    """Emission of one thread's share."""

    def __init__(self, k: Kernel, d: Division, threads: int) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.d, self.threads = k, k.b, d, threads
        # Whether elements are what the parts have found.
        self.is_join = False
        self.block = Block(k.b, k.target)
        # The kernel's instruction, or one that is computed of each element of its result.
        single = k.inst if k.inst.opcode == "reduce" else reduction_in(k.inst, k.roles)
        insts = k.inst.operands if is_multi_output(k.inst) else [single or k.inst]
        reducers = [Reducer(inst, k.elements) for inst in insts]
        for w, r in zip(reducers, _loops_of(insts, k.roles), strict=True):
            w.r = r
        self.members = Members(k.b, reducers)
        self.held = self.members.held
        self.shared: SharedValues | None = None
        if d.columns > 1 and d.group > 1:
            self.shared = SharedValues(self.block, self.held, d.used)
        elif d.group > k.target.lanes:
            self.shared = SharedValues(self.block, self.held, threads // k.target.lanes)

    def emit(self) -> None:
        """Write the code."""
        b, d = self.b, self.d
        b.is_careful = True
        self._take_place()
        total = self._combined(self._partial())
        if d.parts > 1:
            with b.when(self.has_result):
                self._leave(total)
            self._join()
        else:
            with b.when(self.has_result):
                self._store(total)

    def _join(self) -> None:
        """Reduce what all parts have found, in the last of their blocks."""
        b, d = self.b, self.d
        self.k.meets = True
        number = b.udiv(self.block.block_index(), d.parts)
        counter = b.element_address(self.k.scratch[-1], COUNTER_TYPE, number)
        with b.when(is_last_block(self.block, counter, d.parts)):
            self.d, self.is_join = d.join, True
            self._take_place(d.parts)
            total = self._combined(self._partial())
            with b.when(self.has_result):
                self._store(total)

    def _take_place(self, parts: int = 1) -> None:
        """Find out which elements of which result are the thread's.

        parts: the blocks that had parts of the results of this one.
        """
        b, d = self.b, self.d
        thread = self.block.thread_index()
        self.row = b.urem(b.udiv(thread, d.columns), d.group)
        counts = [-(-d.lines // d.lines_at_once), d.strips, d.parts]
        block = b.udiv(self.block.block_index(), parts)
        some_lines, strip, self.part = split_index(b, block, counts)
        inside = b.udiv(thread, d.columns * d.group)
        # Threads without a result of their own do the work of others, and store nothing.
        has_result = b.compare("eq", self.row, 0)
        if d.used < self.threads:
            has_result = b.both(has_result, b.compare("slt", thread, d.used))
            inside = b.minimum(inside, d.lines_at_once - 1)
        line = b.add(b.mul(some_lines, d.lines_at_once), inside)
        column = b.add(b.mul(strip, d.columns), b.urem(thread, d.columns))
        is_inside = b.both(b.compare("slt", line, d.lines), b.compare("slt", column, d.width))
        self.has_result = b.both(has_result, is_inside)
        if d.lines % d.lines_at_once:
            line = b.minimum(line, d.lines - 1)
        if d.width % d.columns:
            column = b.minimum(column, d.width - 1)
        self.result = b.add(b.mul(line, d.width), column)
        if not self.is_join:
            self.kept = [self._kept(w, line, column) for w in self.members.reducers]

    def _kept(self, w: Reducer, line: Index, column: Index) -> dict[int, Index]:
        """Return where the elements of a result are read, in the dimensions that are kept."""
        b, groups = self.b, w.r.kept
        if not groups:
            return {}
        if self.d.width == 1 or self.d.width != w.r.width:
            return self._place(groups, split_index(b, self.result, self._sizes(w, groups)))
        outer = split_index(b, line, self._sizes(w, groups[:-1])) if groups[:-1] else []
        return self._place(groups, [*outer, column])

    def _sizes(self, w: Reducer, groups: Sequence[Sequence[int]]) -> list[int]:
        return [w.r.size([group]) for group in groups]

    def _place(self, groups: Sequence[Sequence[int]], found: Sequence[Index]) -> dict[int, Index]:
        """Return indices to read at, from those of groups of dimensions that are one loop.

        The last dimension of a group has the index of the whole group: wherever that is read, its
        dimensions are adjacent in memory.
        """
        place: dict[int, Index] = {}
        for group, at in zip(groups, found, strict=True):
            place |= dict.fromkeys(group[:-1], 0) | {group[-1]: at}
        return place

    def _combined(self, total: list[Value]) -> list[Value]:
        """Return what the threads of a group have found, at least in the first of them."""
        d = self.d
        if d.group == 1:
            return total
        follow, ordered = self.members.follow, d.way is Way.CHUNKED
        if d.way is Way.PICKED:
            follow = self.members.follow_by_position
        if d.columns == 1:
            return combine_threads(
                self.block, total, self.held, d.group, self.threads, follow, in_order=ordered,
                shared=self.shared,
            )  # fmt: skip
        assert self.shared is not None
        place = self.block.thread_index()
        return combine_rows(
            self.block, total, self.shared, place, self.row, d.group, d.columns, d.used, follow
        )

    # --- results --------------------------------------------------------------------------------

    def _leave(self, total: list[Value]) -> None:
        """Store the results of a part."""
        at = self.b.add(self.b.mul(self.part, self.d.lines * self.d.width), self.result)
        for et, value, base in zip(self.held, total, self.k.scratch, strict=False):
            scalar.store(self.b, et, value, base, at)

    def _left(self, part: Index) -> list[Value]:
        """Return the results of a part."""
        at = self.b.add(self.b.mul(part, self.d.lines * self.d.width), self.result)
        pairs = zip(self.held, self.k.scratch, strict=False)
        return [scalar.load(self.b, et, base, at) for et, base in pairs]

    def _store(self, total: list[Value]) -> None:
        """Store the results, the initial values included."""
        if self.d.way is not Way.WHOLE:
            total = self.members.follow(self.members.inits(), total)
        output = 0
        for w, own in self.members.of_each(total):
            gone, kept = set(w.inst.dimensions), w.kept_at(self.result)
            at = tuple(kept.get(d, 0) for d in range(w.r.source.rank) if d not in gone)
            wanted = [s.element_type for s in w.r.results]
            values = w.combiner.result(self.b, own, wanted)
            if is_on_demand(self.k.inst):
                self._end(w.inst, values[0], at)
                return
            for value in values:
                self.k.store(value, at, output)
                output += 1

    def _end(self, reduce: Instruction, value: Value, at: Indices) -> None:
        """Store what is computed of a result. at: its index."""
        k = self.k
        rows = space_of(k.inst, k.roles)
        dims = rows.loops_of(reduce) if rows is not None else None
        assert rows is not None and dims is not None
        k.elements.kept[reduce] = lambda _: value
        indices: list[Index] = [0] * k.shape.rank
        for d, own in zip(rows.order, dims, strict=True):
            indices[d] = at[own]
        k.store(k.elements.compute(k.inst, tuple(indices)), tuple(indices))

    # --- one thread's elements ------------------------------------------------------------------

    def _partial(self) -> list[Value]:
        acc = Accumulators(self.b, self.held)
        match self.d.way:
            case Way.WHOLE:
                acc.put(self.members.inits())
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
            return self._left(at)
        return self._elements(at, 1)[0]

    def _vector(self, at: Index) -> list[list[Value]]:
        """Return the elements that are read by one instruction."""
        return [self._left(at)] if self.is_join else self._elements(at, self.d.vector)

    def _elements(self, at: Index, count: int) -> list[list[Value]]:
        """Return elements that follow each other in the innermost loop."""
        found: list[list[Value]] = [[] for _ in range(count)]
        for w, kept in zip(self.members.reducers, self.kept, strict=True):
            groups = w.r.reduced
            *head, last = split_index(self.b, at, self._sizes(w, groups)) if groups else [0]
            for n, values in enumerate(found):
                place = self._place(groups, [*head, self.b.add(last, n)]) if groups else {}
                values += w.element(kept, place)
        return found

    def _follow_each(self, acc: Accumulators, first: Index, last: Index) -> None:
        """Follow elements one by one, of which some are read at once."""
        b = self.b
        turns = b.udiv(b.sub(last, first), AT_ONCE)
        with b.loop(0, turns, plain=True) as n:
            at = b.add(first, b.mul(n, AT_ONCE))
            for new in [self._element(b.add(at, i)) for i in range(AT_ONCE)]:
                acc.put(self.members.follow(acc.get(), new))
        with b.loop(b.add(first, b.mul(turns, AT_ONCE)), last, plain=True) as at:
            acc.put(self.members.follow(acc.get(), self._element(at)))

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
        turns = b.udiv(b.sub(b.sub(last, first), d.group), d.group * AT_ONCE)
        begin = b.add(begin, d.group)
        with b.loop(0, turns, plain=True) as n:
            at = b.add(begin, b.mul(n, d.group * AT_ONCE))
            for new in [self._element(b.add(at, i * d.group)) for i in range(AT_ONCE)]:
                acc.put(self.members.follow_picked(acc.get(), new))
        rest = b.add(begin, b.mul(turns, d.group * AT_ONCE))
        with b.loop(rest, last, d.group, plain=True) as at:
            acc.put(self.members.follow_picked(acc.get(), self._element(at)))

    def _spread(self, acc: Accumulators) -> None:
        """Take every so many-th element, or vector of them.

        Elements that are read at once are combined in pairs, then added to a sum of few, and that
        to the total: what rounds is part of few sums.
        """
        b, d = self.b, self.d
        first, last = self._bounds()
        identity = self.members.identity()
        vectors = max(1, AT_ONCE // d.vector)
        stride = d.tile * vectors
        turns = b.udiv(b.sub(last, first), stride)
        begin = b.add(first, b.mul(self.row, d.vector))
        acc.put(identity)

        def turn(into: Accumulators, number: Index) -> None:
            at = b.add(begin, b.mul(number, stride))
            new = [x for i in range(vectors) for x in self._vector(b.add(at, i * d.tile))]
            into.put(self.members.follow_all(into.get(), new))

        most = turns if isinstance(turns, int) else d.part // stride
        if self.members.rounds and most > 2 * _TURNS:
            some = Accumulators(b, self.held)
            with b.loop(0, turns, _TURNS, plain=True) as start:
                some.put(identity)
                with b.loop(start, b.minimum(b.add(start, _TURNS), turns), plain=True) as n:
                    turn(some, n)
                acc.put(self.members.follow(acc.get(), some.get()))
        elif turns == 1:
            turn(acc, 0)
        else:
            with b.loop(0, turns, plain=True) as n:
                turn(acc, n)
        rest = b.add(begin, b.mul(turns, stride))
        if b.add(first, b.mul(turns, stride)) != last:
            with b.loop(rest, last, d.tile, plain=True) as at:
                acc.put(self.members.follow_all(acc.get(), self._vector(at)))


PLANNERS = {"reduce": plan_reduce}
