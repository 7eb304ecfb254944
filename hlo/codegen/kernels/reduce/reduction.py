"""Reductions over dimensions.

If the reduced elements are contiguous in memory, results are computed one at a time (rows), and
vectors run along the reduced dimension. If results are contiguous, a strip of accumulators is on
the stack while rows are added (columns), and vectors run along the strip; several very narrow rows
are added at once. For few results of many elements, both compute partial results of fixed size,
which a second kernel reduces, so that the number of threads does not affect the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import rows_of
from hlo.codegen.kernels.reduce.columns import NARROW, reduce_columns
from hlo.codegen.kernels.reduce.combiner import Accumulators
from hlo.codegen.kernels.reduce.lanes import LANES, position_operand, row_in_lanes
from hlo.codegen.kernels.reduce.reducer import BLOCK, KernelReducer, Reducer, Reduction
from hlo.codegen.kernels.reduce.row_loops import prepare_row
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.collapse import collapsible_reads
from hlo.codegen.loops.element import ElementEmitter, Indices, element_rule
from hlo.codegen.loops.kernel import Kernel, over_elements, planner, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order

# Results of up to so many contiguous elements are computed without a loop.
_UNROLLED = 16
# Loops of up to so many elements would be unrolled before they are vectorized.
_ROLLED = 256
# Parts whose results are added pairwise before they are added to a result. Those of other functions
# follow each other anyway.
_JOINED, _JOINED_IN_ORDER = 16, 2
# Maximum number of elements that LLVM adds at the same time, in several vectors.
_LANES = 64
# Independent sums where vectors are of no use.
_CHAINS = 4


@planner("reduce")
def plan_reduce(inst: Instruction, roles: Mapping[Instruction, Role], _: Target) -> Plan:
    """Choose rows or columns, in one pass or in parts."""
    r = Reduction.of(inst, roles)
    if not r.size(r.kept):
        return Plan(())
    if r.length <= _UNROLLED and (not r.by_columns or r.width < NARROW):
        return Plan((_short_rows,))
    emitter = reduce_columns if r.by_columns else _rows
    if r.parts == 1:
        return Plan((emitter,))
    return Plan((emitter, _join), r.scratch_bytes())


def _short_rows(k: Kernel) -> Extent:
    """Reduce few elements per result, in registers; vectors run along the results."""
    w = KernelReducer(k)
    kept = [d for d in range(w.r.source.rank) if d not in k.inst.dimensions]
    shape = w.r.results[0]

    def body(at: Indices) -> None:
        place = dict(zip(kept, at, strict=True))
        new = [w.element(place, w.reduced_at(n)) for n in range(w.r.length)]
        w.store(w.apply_all(w.inits(), new), place)

    order = [kept[d] for d in loop_order(shape)]
    extent = over_elements(k, shape, body, collapsible_reads(w.r.operands, k.roles, order))
    return Extent(extent.iterations, extent.cost * max(1, w.r.length))


def _rows(k: Kernel) -> Extent:
    """Reduce results, or parts of them, one at a time; vectors run along memory."""
    w = KernelReducer(k)
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


def _row(w: Reducer, kept: Mapping[int, Index], first: Index, last: Index) -> list[Value]:
    """Reduce the elements of one result from one position to another, at least one."""
    b, r, whole = w.b, w.r, w.r.parts == 1
    if not w.combiner.known and w.combiner.splits(r.length):
        found = _row_in_pieces(w, kept, first, last)
        return w.apply(w.inits(), found) if whole else found
    acc = Accumulators(b, w.combiner.held)
    if whole:
        acc.put(w.inits())
    elif w.combiner.known:
        acc.put(w.combiner.identity())

    def over(head: dict[int, Index], lo: Index, hi: Index) -> None:
        def element(at: Index) -> list[Value]:
            return w.element(kept, head | w.indices(r.reduced[-1:], [at]))

        if w.combiner.rounds:
            _add_blocks(w, acc, element, lo, hi)
            return
        with b.loop(lo, hi, rolled=r.size(r.reduced[-1:]) <= _ROLLED) as at:
            acc.put(w.apply(acc.get(), element(at)))

    if len(r.reduced) <= 1:
        over({}, first, last)
        return acc.get()
    # One pass for each row of the innermost loop, clipped to the part.
    lines, inner = r.reduced[:-1], r.size(r.reduced[-1:])
    sizes = [r.size([g]) for g in lines]
    with b.loop(b.udiv(first, inner), b.udiv(b.add(last, inner - 1), inner)) as line:
        start = b.mul(line, inner)
        head = w.indices(lines, split_index(b, line, sizes))
        lo, hi = b.sub(first, start), b.sub(last, start)
        lo, hi = (0, inner) if whole else (b.maximum(lo, 0), b.minimum(hi, inner))
        over(head, lo, hi)
    return acc.get()


def _add_blocks(
    w: Reducer, acc: Accumulators, element: Callable[[Index], list[Value]], lo: Index, hi: Index
) -> None:
    """Add up elements in independent blocks.

    The sum of a block is in vector lanes, each of few elements. The remainder is a sum of its own,
    too: added to a large one, each of its elements would be rounded more.
    """
    b = w.b
    block = Accumulators(b, w.combiner.held)

    def add(start: Index, count: Index) -> None:
        block.put(w.combiner.identity())
        with b.loop(0, count, rolled=size <= _ROLLED) as i:
            block.put(w.apply(block.get(), element(b.add(start, i))))
        acc.put(w.apply(acc.get(), block.get(), in_order=True))

    size = BLOCK
    if isinstance(lo, int) and isinstance(hi, int):
        size = min(BLOCK, max(_LANES, (hi - lo) // _LANES * _LANES))
    blocks = b.udiv(b.sub(hi, lo), size)
    if blocks == 1:
        add(lo, size)
    elif blocks != 0:
        with b.loop(0, blocks) as n:
            add(b.add(lo, b.mul(n, size)), size)
    rest = b.add(lo, b.mul(blocks, size))
    if rest != hi:
        add(rest, b.sub(hi, rest))


@element_rule("reduce")
def _element(elements: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    """Reduce one result inline."""
    w = Reducer(inst, elements)
    dims = [d for d in range(w.r.source.rank) if d not in inst.dimensions]
    total = _row(w, dict(zip(dims, indices, strict=True)), 0, w.r.length)
    return w.combiner.result(w.b, total, [w.r.results[0].element_type])[0]


def _row_in_pieces(w: Reducer, kept: Mapping[int, Index], first: Index, last: Index) -> list[Value]:
    """Reduce the elements of a row, each piece in order, without initial values."""
    b, position = w.b, position_operand(w.r)
    if position is None:
        return _row_in_chains(w, kept, first, last)
    # The last part may have less than an element for each lane. It takes some of the part before
    # again, which changes nothing, since elements are only picked.
    return row_in_lanes(w, kept, b.minimum(first, b.sub(last, LANES)), last, position)


def _row_in_chains(w: Reducer, kept: Mapping[int, Index], first: Index, last: Index) -> list[Value]:
    """Reduce adjacent pieces in independent chains, since each step depends on the previous one."""
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
    return chains[0].get()


def _join(k: Kernel) -> Extent:
    """Reduce the results of parts, in order, starting with the initial values."""
    w = KernelReducer(k)
    b, r = k.b, w.r
    results = r.size(r.kept)
    size = min(max(results, 1), 1024)
    strip = Accumulators(b, w.combiner.held, size)
    with b.loop(k.begin, k.end) as number:
        first = b.mul(number, size)
        here = size if results % size == 0 else b.minimum(size, b.sub(results, first))
        with b.loop(0, here, folded=True) as j:
            strip.put(w.inits(), j)

        def add(parts: Sequence[Index]) -> None:
            with b.loop(0, here, folded=True) as j:
                left = [w.left(part, b.add(first, j)) for part in parts]
                strip.put(w.apply_all(strip.get(j), left), j)

        joined = _JOINED if w.combiner.known else _JOINED_IN_ORDER
        passes = r.parts // joined
        with b.loop(0, passes) as n:
            add([b.add(b.mul(n, joined), i) for i in range(joined)])
        if r.parts % joined:
            add(range(passes * joined, r.parts))
        with b.loop(0, here, folded=True) as j:
            w.store(strip.get(j), w.kept_at(b.add(first, j)))
    return Extent(-(-results // size), float(size * r.parts))
