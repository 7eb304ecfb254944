"""Reductions over dimensions.

Where what is reduced is contiguous in memory, one result is reduced after the other (rows), and
vectors run along the sum. Where results are contiguous, a strip of them is kept on the stack while
rows go by (columns), and vectors run along the strip; very narrow rows are taken several at a time.
Where few results take long sums, both work on parts of fixed size, and a second kernel reduces the
parts' values, so that threads can share the work without a say in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo.codegen import scalar
from hlo.codegen.element import ElementEmitter, Indices, element_rule
from hlo.codegen.fusion import Role
from hlo.codegen.kernel import (
    Extent,
    Kernel,
    Plan,
    loop_order,
    over_elements,
    planner,
    split_index,
)
from hlo.codegen.kernels.combiner import Accumulators, Combiner, element_type
from hlo.codegen.kernels.rows import prepare_row
from hlo.codegen.llvm import Index, Val
from hlo.codegen.merge import mergeable_reads
from hlo.codegen.rows import rows_of
from hlo.codegen.scalar import Value
from hlo.codegen.target import Target
from hlo.ir import Instruction
from hlo.types import ArrayShape

# Results of up to so many contiguous elements are computed without a loop.
_UNROLLED = 16
# Loops of up to so many elements would be unrolled before they are vectorized.
_ROLLED = 256
# Bytes of results that stay on the stack.
_STRIP_BYTES = 8192
# Rows of fewer elements are taken several at a time, to make so many.
_NARROW, _WIDENED = 32, 128
# Shares that a large reduction should have, and the least number of elements in one.
_SHARES, _PART_ELEMENTS = 128, 8192
# Rows of a part, at most: short sums are also more exact.
_PART_ROWS = 4096
# Rows that a pass over a strip takes together, by how many operations are fused into a read.
_ROWS_AT_ONCE = ((1, 8), (6, 4))
# Sums that run side by side where vectors are of no use.
_CHAINS = 4


@dataclass(frozen=True)
class Reduction:
    """The parts of a reduce instruction, and how its loops are laid.

    Loops are groups of dimensions that one index runs over. reduced: the reduced dimensions in the
    order in which they are walked. kept: the others, in memory order.
    """

    inst: Instruction
    roles: Mapping[Instruction, Role]
    combiner: Combiner

    @staticmethod
    def of(inst: Instruction, roles: Mapping[Instruction, Role]) -> Reduction:
        return Reduction(inst, roles, Combiner.of(inst.attrs["to_apply"]))

    @cached_property
    def operands(self) -> list[Instruction]:
        return self.inst.operands[: self.combiner.count]

    @property
    def source(self) -> ArrayShape:
        assert isinstance(self.operands[0].shape, ArrayShape)
        return self.operands[0].shape

    @cached_property
    def results(self) -> list[ArrayShape]:
        return [s for _, s in self.inst.shape.leaves() if isinstance(s, ArrayShape)]

    @cached_property
    def reduced(self) -> list[list[int]]:
        gone = set(self.inst.attrs["dimensions"])
        order = [d for d in loop_order(self.source) if d in gone]
        # Only a known function may be applied in another order than the row-major one.
        return self._merged(order if self.combiner.known else sorted(order))

    @cached_property
    def kept(self) -> list[list[int]]:
        gone = set(self.inst.attrs["dimensions"])
        return self._merged([d for d in loop_order(self.source) if d not in gone])

    def _merged(self, order: Sequence[int]) -> list[list[int]]:
        flags = mergeable_reads(self.operands, self.roles, order)
        groups: list[list[int]] = []
        for at, d in enumerate(order):
            if at and flags[at - 1]:
                groups[-1].append(d)
            else:
                groups.append([d])
        return groups

    def size(self, groups: Sequence[Sequence[int]]) -> int:
        """Return the number of positions of some loops."""
        return math.prod(self.source.dims[d] for g in groups for d in g)

    @cached_property
    def length(self) -> int:
        return self.size(self.reduced)

    @cached_property
    def by_columns(self) -> bool:
        """True when neighbouring results read neighbouring elements."""
        order = loop_order(self.source)
        return bool(self.kept and order and order[-1] == self.kept[-1][-1])

    @property
    def width(self) -> int:
        """The contiguous results of a reduction by columns."""
        return self.size(self.kept[-1:])

    @cached_property
    def strip(self) -> int:
        """How many of them are reduced together."""
        most = max(64, _STRIP_BYTES // sum(et.byte_width for et in self.combiner.held))
        if self.width <= most:
            return self.width
        return -(-self.width // -(-self.width // most) // 64) * 64

    @cached_property
    def part(self) -> int:
        """How many of the reduced elements of a result make a part."""
        length, results = self.length, self.size(self.kept)
        if not results or not self.combiner.splits(length):
            return length
        least = _PART_ELEMENTS
        if self.by_columns:
            wanted = -(-_SHARES // -(-results // self.strip))
            least = -(-least // self.strip)
        elif results >= _SHARES // 2:
            return length
        else:
            wanted = -(-_SHARES // max(results, 1))
        size = max(least, -(-length // wanted), 1)
        if self.by_columns:
            size = min(size, _PART_ROWS)
        return length if size >= length else size

    @property
    def parts(self) -> int:
        return -(-self.length // self.part) if self.part else 1

    @cached_property
    def fused_reads(self) -> int:
        """How many instructions are computed to read one element."""
        seen: set[Instruction] = set()
        todo = list(self.operands)
        while todo:
            inst = todo.pop()
            if inst not in seen:
                seen.add(inst)
                if self.roles[inst] is Role.FUSED:
                    todo.extend(inst.operands)
        return len(seen)

    def scratch_bytes(self) -> tuple[int, ...]:
        """Return the sizes of the arrays `[parts, results]` that parts leave, one a value."""
        count = self.parts * self.size(self.kept)
        return tuple(count * et.byte_width for et in self.combiner.held)


class _Writer:
    """Emission of a reduction, into a kernel of its own or into another one."""

    def __init__(self, inst: Instruction, elements: ElementEmitter) -> None:
        self.inst = inst
        self.elements = elements
        self.b = elements.b
        self.r = Reduction.of(inst, elements.roles)
        self.combiner = self.r.combiner
        self.given = [element_type(o) for o in self.r.operands]

    def indices(self, groups: Sequence[Sequence[int]], found: Sequence[Index]) -> dict[int, Index]:
        """Return the index of each dimension from those of loops."""
        dims = self.r.source.dims
        result: dict[int, Index] = {}
        for group, at in zip(groups, found, strict=True):
            for d, i in zip(group, split_index(self.b, at, [dims[d] for d in group]), strict=True):
                result[d] = i
        return result

    def reduced_at(self, at: Index) -> dict[int, Index]:
        """Return the indices of a position in the reduced dimensions."""
        return self._at(self.r.reduced, at)

    def kept_at(self, at: Index) -> dict[int, Index]:
        """Return the indices of a result, given its position in memory order."""
        return self._at(self.r.kept, at)

    def _at(self, groups: list[list[int]], at: Index) -> dict[int, Index]:
        if not groups:
            return {}
        sizes = [self.r.size([g]) for g in groups]
        return self.indices(groups, split_index(self.b, at, sizes))

    def element(self, kept: Mapping[int, Index], reduced: Mapping[int, Index]) -> list[Value]:
        """Return the operands' elements, as the combiner takes them."""
        at = tuple(kept.get(d, reduced.get(d, 0)) for d in range(self.r.source.rank))
        values = [self.elements.at(o, at) for o in self.r.operands]
        return self.combiner.elements(self.b, values, self.given)

    def inits(self) -> list[Value]:
        operands = self.inst.operands[self.combiner.count :]
        values = [self.elements.at(i, ()) for i in operands]
        return self.combiner.start(self.b, values, [element_type(i) for i in operands])

    def apply(self, held: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        return self.combiner.apply(self.elements, held, new)


class _KernelWriter(_Writer):
    """Emission of a reduction into a kernel of its own."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k.inst, k.elements)
        self.k = k

    def store(self, values: Sequence[Value], kept: Mapping[int, Index]) -> None:
        """Store one set of results."""
        r = self.r
        gone = set(self.inst.attrs["dimensions"])
        at = tuple(kept.get(d, 0) for d in range(r.source.rank) if d not in gone)
        rounded = self.combiner.result(self.b, values, [s.element_type for s in r.results])
        for n, value in enumerate(rounded):
            self.k.store(value, at, n)

    def leave(self, values: Sequence[Value], part: Index, result: Index) -> None:
        """Store what a part comes to, for `_join`."""
        at = self.b.add(self.b.mul(part, self.r.size(self.r.kept)), result)
        for et, value, base in zip(self.combiner.held, values, self.k.scratch, strict=True):
            scalar.store(self.b, et, value, base, at)

    def left(self, part: Index, result: Index) -> list[Value]:
        """Return what `leave` has stored."""
        at = self.b.add(self.b.mul(part, self.r.size(self.r.kept)), result)
        return [
            scalar.load(self.b, et, base, at)
            for et, base in zip(self.combiner.held, self.k.scratch, strict=True)
        ]


@planner("reduce")
def plan_reduce(inst: Instruction, roles: Mapping[Instruction, Role], _: Target) -> Plan:
    """Choose rows or columns, whole or in parts."""
    r = Reduction.of(inst, roles)
    if not r.size(r.kept):
        return Plan(())
    if r.length <= _UNROLLED and (not r.by_columns or r.width < _NARROW):
        return Plan((_short_rows,))
    emitter = _columns if r.by_columns else _rows
    if r.parts == 1:
        return Plan((emitter,))
    return Plan((emitter, _join), r.scratch_bytes())


def _short_rows(k: Kernel) -> Extent:
    """Reduce a few elements to each result, in registers; vectors run along the results."""
    w = _KernelWriter(k)
    kept = [d for d in range(w.r.source.rank) if d not in k.inst.attrs["dimensions"]]
    shape = w.r.results[0]

    def body(at: Indices) -> None:
        place = dict(zip(kept, at, strict=True))
        held = w.inits()
        for n in range(w.r.length):
            held = w.apply(held, w.element(place, w.reduced_at(n)))
        w.store(held, place)

    order = [kept[d] for d in loop_order(shape)]
    extent = over_elements(k, shape, body, mergeable_reads(w.r.operands, k.roles, order))
    return Extent(extent.iterations, extent.cost * max(1, w.r.length))


def _rows(k: Kernel) -> Extent:
    """Reduce one result, or one part of one, after the other; vectors run along memory."""
    w = _KernelWriter(k)
    b, r = k.b, w.r
    parts = r.parts
    rows = rows_of(k.inst, k.roles)
    with b.loop(k.begin, k.end) as at:
        result, part = split_index(b, at, [max(1, r.size(r.kept)), parts])
        kept = w.kept_at(result)
        if rows is not None:
            prepare_row(k, rows, [kept[d] for d in rows.order[: rows.outer]])
        if parts == 1:
            w.store(_row(w, kept, 0, r.length), kept)
        else:
            first = b.mul(part, r.part)
            last = b.minimum(b.add(first, r.part), r.length)
            w.leave(_row(w, kept, first, last), part, result)
    return Extent(r.size(r.kept) * parts, float(max(1, r.part)))


def _row(w: _Writer, kept: Mapping[int, Index], first: Index, last: Index) -> list[Value]:
    """Reduce the elements of one result from one position to another, at least one."""
    b, r, whole = w.b, w.r, w.r.parts == 1
    if not w.combiner.known and w.combiner.splits(r.length):
        return _row_in_chains(w, kept, first, last)
    acc = Accumulators(b, w.combiner.held)
    if whole:
        acc.put(w.inits())
    elif w.combiner.known:
        acc.put(w.combiner.identity())

    def step(reduced: Mapping[int, Index]) -> None:
        acc.put(w.apply(acc.get(), w.element(kept, reduced)))

    if len(r.reduced) <= 1:
        with b.loop(first, last, rolled=r.size(r.reduced[-1:]) <= _ROLLED) as at:
            step(w.reduced_at(at))
        return acc.get()
    # One pass for each line of the innermost loop, cut where the part begins and ends.
    lines, inner = r.reduced[:-1], r.size(r.reduced[-1:])
    sizes = [r.size([g]) for g in lines]
    with b.loop(b.udiv(first, inner), b.udiv(b.add(last, inner - 1), inner)) as line:
        start = b.mul(line, inner)
        head = w.indices(lines, split_index(b, line, sizes))
        lo, hi = b.sub(first, start), b.sub(last, start)
        lo, hi = (0, inner) if whole else (b.maximum(lo, 0), b.minimum(hi, inner))
        with b.loop(lo, hi, rolled=r.size(r.reduced[-1:]) <= _ROLLED) as at:
            step(head | w.indices(r.reduced[-1:], [at]))
    return acc.get()


@element_rule("reduce")
def _element(elements: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    """Reduce one result where it is used."""
    w = _Writer(inst, elements)
    dims = [d for d in range(w.r.source.rank) if d not in inst.attrs["dimensions"]]
    total = _row(w, dict(zip(dims, indices, strict=True)), 0, w.r.length)
    return w.combiner.result(w.b, total, [w.r.results[0].element_type])[0]


def _row_in_chains(w: _Writer, kept: Mapping[int, Index], first: Index, last: Index) -> list[Value]:
    """Reduce neighbouring pieces side by side, since one step has to wait for the one before."""
    b, combiner = w.b, w.combiner
    piece = b.udiv(b.sub(last, first), _CHAINS)
    starts = [b.add(first, b.mul(piece, n)) for n in range(_CHAINS)]
    chains = [Accumulators(b, combiner.held) for _ in starts]

    def element(at: Index) -> list[Value]:
        return w.element(kept, w.reduced_at(at))

    def begin_each() -> list[Val]:
        for chain, start in zip(chains, starts, strict=True):
            chain.put(element(start))
        with b.loop(1, piece) as i:
            for chain, start in zip(chains, starts, strict=True):
                chain.put(w.apply(chain.get(), element(b.add(start, i))))
        for chain in chains[1:]:
            chains[0].put(w.apply(chains[0].get(), chain.get()))
        return []

    def begin_one() -> list[Val]:
        chains[0].put(element(first))
        return []

    long = b.compare("sgt", piece, 0)
    b.choose(long, begin_each, begin_one)
    ends = (b.add(first, b.mul(piece, _CHAINS)), b.add(first, 1))
    rest = b.select(long, *(Val("i64", str(end)) for end in ends)).name
    with b.loop(rest, last) as at:
        chains[0].put(w.apply(chains[0].get(), element(at)))
    if w.r.parts > 1:
        return chains[0].get()
    return w.apply(w.inits(), chains[0].get())


# --- columns ------------------------------------------------------------------------------------


def _columns(k: Kernel) -> Extent:
    """Reduce strips of neighbouring results together, row by row."""
    w = _KernelWriter(k)
    b, r = k.b, w.r
    outer = r.kept[:-1]
    outer_sizes = [r.size([g]) for g in outer]
    strips = -(-r.width // r.strip)
    count = math.prod(outer_sizes)
    rows = _rows_in_one(w)
    strip = Accumulators(b, w.combiner.held, r.strip * rows)
    with b.loop(k.begin, k.end) as at:
        line, number, part = split_index(b, at, [count, strips, r.parts])
        place = w.indices(outer, split_index(b, line, outer_sizes)) if outer else {}
        first = b.mul(number, r.strip)
        here = r.strip if r.width % r.strip == 0 else b.minimum(r.strip, b.sub(r.width, first))
        lo = b.mul(part, r.part)
        hi = b.minimum(b.add(lo, r.part), r.length) if r.parts > 1 else r.length

        def kept(j: Index) -> dict[int, Index]:
            return place | w.indices(r.kept[-1:], [b.add(first, j)])

        lo = _begin_strip(w, strip, kept, here, rows, lo)
        if rows > 1:
            _narrow_rows(w, strip, line, rows, lo, hi)
            _fold_rows(w, strip, rows)
        else:
            _strip_rows(w, strip, kept, here, lo, hi)
        with b.loop(0, here) as j:
            if r.parts == 1:
                w.store(strip.get(j), kept(j))
            else:
                w.leave(strip.get(j), part, b.add(b.mul(line, r.width), b.add(first, j)))
    cost = float(r.strip * max(1, r.part))
    return Extent(count * strips * r.parts, cost)


def _rows_in_one(w: _Writer) -> int:
    """Return how many rows are taken as one because they are narrow and lie behind each other."""
    r = w.r
    if not w.combiner.known or r.width >= _NARROW or r.length * r.width < 4 * _WIDENED:
        return 1
    order = [d for group in (*r.kept[:-1], *r.reduced, r.kept[-1]) for d in group]
    flags = mergeable_reads(r.operands, r.roles, order)
    if order != loop_order(r.source) or not all(flags):
        return 1
    whole_vectors = _NARROW // math.gcd(_NARROW, r.width)
    return -(-_WIDENED // (r.width * whole_vectors)) * whole_vectors


def _begin_strip(
    w: _Writer,
    strip: Accumulators,
    kept: Callable[[Index], dict[int, Index]],
    here: Index,
    rows: int,
    lo: Index,
) -> Index:
    """Set the accumulators of a strip; returns the row that comes next."""
    b = w.b
    whole = w.r.parts == 1
    # Several rows in one: the initial value counts once.
    identity = w.combiner.known and (not whole or rows > 1)
    size = w.r.strip * rows if rows > 1 else here
    with b.loop(0, size) as j:
        if identity:
            strip.put(w.combiner.identity(), j)
        elif whole:
            strip.put(w.inits(), j)
        else:
            strip.put(w.element(kept(j), w.reduced_at(lo)), j)
    return lo if identity or whole else b.add(lo, 1)


def _strip_rows(
    w: _Writer,
    strip: Accumulators,
    kept: Callable[[Index], dict[int, Index]],
    here: Index,
    lo: Index,
    hi: Index,
) -> None:
    """Add rows to a strip, several in one pass."""
    b = w.b
    together = next((n for limit, n in _ROWS_AT_ONCE if w.r.fused_reads <= limit), 1)

    def add(rows: Sequence[Index]) -> None:
        places = [w.reduced_at(row) for row in rows]
        with b.loop(0, here) as j:
            held = strip.get(j)
            for place in places:
                held = w.apply(held, w.element(kept(j), place))
            strip.put(held, j)

    if together > 1:
        passes = b.udiv(b.sub(hi, lo), together)
        with b.loop(0, passes) as n:
            row = b.add(lo, b.mul(n, together))
            add([b.add(row, i) for i in range(together)])
        lo = b.add(lo, b.mul(passes, together))
    with b.loop(lo, hi) as row:
        add([row])


def _narrow_rows(
    w: _Writer,
    strip: Accumulators,
    line: Index,
    rows: int,
    lo: Index,
    hi: Index,
) -> None:
    """Add rows to a strip that has a place for every element of `rows` rows.

    All of the operand is one run of elements: indices are taken apart from the position in it, so
    that they can be put together again.
    """
    b, r, width = w.b, w.r, w.r.width

    def add(first: Index, count: Index) -> None:
        start = b.mul(b.add(b.mul(line, r.length), first), width)
        with b.loop(0, count) as j:
            at = b.add(start, j)
            kept, row = w.indices(r.kept[-1:], [b.urem(at, width)]), b.udiv(at, width)
            if len(r.kept) > 1:
                kept |= w.indices(r.kept[:-1], [b.udiv(row, r.length)])
                row = b.urem(row, r.length)
            new = w.element(kept, w.reduced_at(row))
            strip.put(w.apply(strip.get(j), new), j)

    passes = b.udiv(b.sub(hi, lo), rows)
    with b.loop(0, passes) as n:
        add(b.add(lo, b.mul(n, rows)), rows * width)
    done = b.add(lo, b.mul(passes, rows))
    add(done, b.mul(b.sub(hi, done), width))


def _fold_rows(w: _Writer, strip: Accumulators, rows: int) -> None:
    """Reduce the rows of a strip to its first one."""
    b, width = w.b, w.r.width
    with b.loop(0, width) as j:
        acc = Accumulators(b, w.combiner.held)
        acc.put(w.inits() if w.r.parts == 1 else w.combiner.identity())
        with b.loop(0, rows) as row:
            acc.put(w.apply(acc.get(), strip.get(b.add(b.mul(row, width), j))))
        strip.put(acc.get(), j)


def _join(k: Kernel) -> Extent:
    """Reduce what the parts have left, in order, onto the initial values."""
    w = _KernelWriter(k)
    b, r = k.b, w.r
    results = r.size(r.kept)
    size = min(max(results, 1), 1024)
    strip = Accumulators(b, w.combiner.held, size)
    with b.loop(k.begin, k.end) as number:
        first = b.mul(number, size)
        here = b.minimum(size, b.sub(results, first))
        with b.loop(0, here) as j:
            strip.put(w.inits(), j)
        with b.loop(0, r.parts) as part, b.loop(0, here) as j:
            strip.put(w.apply(strip.get(j), w.left(part, b.add(first, j))), j)
        with b.loop(0, here) as j:
            w.store(strip.get(j), w.kept_at(b.add(first, j)))
    return Extent(-(-results // size), float(size * r.parts))


__all__ = ["Reduction"]
