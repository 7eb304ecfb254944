"""Reductions by columns: adjacent results together, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hlo.codegen.kernels.reduce.combiner import Accumulators
from hlo.codegen.kernels.reduce.reducer import ROWS_AT_ONCE, KernelReducer, Reducer
from hlo.codegen.llvm import Index
from hlo.codegen.loops.collapse import collapsible_reads
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.targets.base import Extent
from hlo.values.layout.plain import loop_order

# Shorter rows are processed several at a time, to have so many elements.
NARROW, _WIDENED = 32, 128
# Rows per pass over a strip, by the maximum number of operations fused into a read. Of short rows,
# which are close to each other, fewer are prefetched better.
_FUSED_READS, _SHORT, _SHORT_AT_ONCE = (1, 6), 512, 4


def reduce_columns(k: Kernel) -> Extent:
    """Reduce strips of adjacent results together, row by row."""
    w = KernelReducer(k)
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
        is_even = r.parts == 1 or r.length % r.part == 0
        size = r.part if is_even else b.minimum(r.part, b.sub(r.length, lo))

        def kept(j: Index) -> dict[int, Index]:
            return place | w.indices(r.kept[-1:], [b.add(first, j)])

        done = _begin_strip(w, strip, kept, here, rows, lo)
        lo, size = b.add(lo, done), b.sub(size, done)
        if rows > 1:
            _narrow_rows(w, strip, line, rows, lo, size)
            _fold_rows(w, strip, rows)
        else:
            _strip_rows(w, strip, kept, here, lo, size)
        with b.loop(0, here, folded=True) as j:
            if r.parts == 1:
                w.store(strip.get(j), kept(j))
            else:
                w.leave(strip.get(j), part, b.add(b.mul(line, r.width), b.add(first, j)))
    cost = float(r.strip * max(1, r.part))
    return Extent(count * strips * r.parts, cost)


def _rows_in_one(w: Reducer) -> int:
    """Return how many rows are processed as one because they are narrow and contiguous."""
    r = w.r
    if not w.combiner.known or r.width >= NARROW or r.length * r.width < 4 * _WIDENED:
        return 1
    order = [d for group in (*r.kept[:-1], *r.reduced, r.kept[-1]) for d in group]
    flags = collapsible_reads(r.operands, r.roles, order)
    if order != loop_order(r.source) or not all(flags):
        return 1
    whole_vectors = NARROW // math.gcd(NARROW, r.width)
    return -(-_WIDENED // (r.width * whole_vectors)) * whole_vectors


def _begin_strip(
    w: Reducer,
    strip: Accumulators,
    kept: Callable[[Index], dict[int, Index]],
    here: Index,
    rows: int,
    lo: Index,
) -> int:
    """Initialize the accumulators of a strip; returns of how many rows."""
    b = w.b
    whole = w.r.parts == 1
    # With several rows in one, the initial value is used once.
    identity = w.combiner.known and (not whole or rows > 1)
    size = w.r.strip * rows if rows > 1 else here
    with b.loop(0, size, folded=True) as j:
        if identity:
            strip.put(w.combiner.identity(), j)
        elif whole:
            strip.put(w.inits(), j)
        else:
            strip.put(w.element(kept(j), w.reduced_at(lo)), j)
    return 0 if identity or whole else 1


def _strip_rows(
    w: Reducer,
    strip: Accumulators,
    kept: Callable[[Index], dict[int, Index]],
    here: Index,
    lo: Index,
    size: Index,
) -> None:
    """Add so many rows to a strip, several in one pass."""
    b = w.b
    single, several = _FUSED_READS
    together = 1
    if w.r.fused_reads <= several:
        is_long = w.r.strip >= _SHORT and w.r.fused_reads <= single
        together = ROWS_AT_ONCE if is_long else _SHORT_AT_ONCE

    def add(numbers: Sequence[Index]) -> None:
        places = [w.reduced_at(row) for row in numbers]
        with b.loop(0, here, folded=True) as j:
            rows = [w.element(kept(j), place) for place in places]
            strip.put(w.apply_all(strip.get(j), rows), j)

    done: Index = 0
    if together > 1:
        passes = b.udiv(size, together)
        with b.loop(0, passes) as n:
            row = b.add(lo, b.mul(n, together))
            add([b.add(row, i) for i in range(together)])
        done = b.mul(passes, together)
    if done != size:
        with b.loop(done, size) as n:
            add([b.add(lo, n)])


def _narrow_rows(
    w: Reducer,
    strip: Accumulators,
    line: Index,
    rows: int,
    lo: Index,
    size: Index,
) -> None:
    """Add so many rows to a strip with an accumulator for every element of `rows` rows.

    The operand is contiguous: indices are computed from the position in it, so that they can be
    recombined.
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

    passes = b.udiv(size, rows)
    with b.loop(0, passes) as n:
        add(b.add(lo, b.mul(n, rows)), rows * width)
    done = b.mul(passes, rows)
    if done != size:
        add(b.add(lo, done), b.mul(b.sub(size, done), width))


def _fold_rows(w: Reducer, strip: Accumulators, rows: int) -> None:
    """Reduce the rows of a strip to its first one."""
    b, width = w.b, w.r.width
    with b.loop(0, width) as j:
        acc = Accumulators(b, w.combiner.held)
        acc.put(w.inits() if w.r.parts == 1 else w.combiner.identity())

        def add(numbers: Sequence[Index]) -> None:
            new = [strip.get(b.add(b.mul(row, width), j)) for row in numbers]
            acc.put(w.apply_all(acc.get(), new))

        passes = rows // ROWS_AT_ONCE
        with b.loop(0, passes) as n:
            add([b.add(b.mul(n, ROWS_AT_ONCE), i) for i in range(ROWS_AT_ONCE)])
        if rows % ROWS_AT_ONCE:
            add(range(passes * ROWS_AT_ONCE, rows))
        strip.put(acc.get(), j)
