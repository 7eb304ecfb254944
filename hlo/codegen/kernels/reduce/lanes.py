"""Rows of reducers that pick one of their elements, argmax and argmin above all, in vector lanes.

A lane has every `LANES`-th element of a row, in order. Of equal elements such a reducer may take
the earlier or the later one, so that what the lanes have found is combined in the order of the
elements, which an operand tells: the positions along the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hlo.codegen.kernels.reduce.combiner import Accumulators, Combiner
from hlo.codegen.kernels.reduce.reducer import Reducer, Reduction
from hlo.codegen.llvm import FALSE, TRUE, Index, Val, i64
from hlo.codegen.loops.inline import inline
from hlo.codegen.scalar.operations import Value
from hlo.codegen.scalar.representation import select
from hlo.ir import Instruction
from hlo.values.types import integer_range

LANES = 128
# Elements of more fused operations are computed in one place.
_FUSED_READS = 6


def position_operand(r: Reduction) -> int | None:
    """Return which operand has increasing positions along the rows, if lanes can be used at all.

    Rows of one dimension, of a reducer that picks, long enough to fill all lanes.
    """
    if len(r.reduced) != 1 or r.part < LANES or not r.combiner.picks:
        return None
    dims = [d for d in r.reduced[0] if r.source.dims[d] > 1]
    if len(dims) != 1 or any(et.is_complex for et in r.combiner.held):
        return None
    numbered = (
        n
        for n, (operand, et) in enumerate(zip(r.operands, r.combiner.held, strict=True))
        if operand.array_shape.element_type is et and _increases(operand, dims[0])
    )
    return next(numbered, None)


def _increases(inst: Instruction, dim: int) -> bool:
    """True for an array whose elements are 0, 1, .. along a dimension."""
    while inst.opcode == "broadcast":
        if dim not in inst.dimensions:
            return False
        dim = inst.dimensions.index(dim)
        inst = inst.operands[0]
    if inst.opcode != "iota" or inst.iota_dimension != dim:
        return False
    et = inst.array_shape.element_type
    return et.is_integer and inst.array_shape.dims[dim] - 1 <= integer_range(et)[1]


def row_in_lanes(
    w: Reducer, kept: Mapping[int, Index], first: Index, last: Index, position: int
) -> list[Value]:
    """Reduce the elements of a row from one position to another, without initial values.

    position: the operand that tells the order. There are at least `LANES` elements.
    """
    b = w.b
    known = compared_positions(w.combiner, position)

    def element(at: Index) -> list[Value]:
        return w.element(kept, w.reduced_at(at))

    def follow(held: list[Value], new: list[Value]) -> list[Value]:
        return inline(b, w.combiner.computation, [*held, *new], known=known)

    is_long = w.r.fused_reads > _FUSED_READS
    strip = (_of_long_elements if is_long else _of_elements)(w, first, last, element, follow)
    # Halves are joined until one lane is left, whole vectors even where they are more than a half:
    # what is in the lanes behind it does not matter.
    vector = max(1, b.vector_bits // max(et.bits for et in w.combiner.held))
    with b.loop(0, LANES.bit_length() - 1) as level:
        half = b.binary("lshr", i64(LANES // 2), level).name
        with b.loop(0, b.maximum(half, vector), apart=True, multiple=vector) as j:
            both = strip.get(j), strip.get(b.add(j, half))
            strip.put(follow(*in_order(w, *both, position)), j)
    return strip.get()


# The elements at a position; what is held after more elements.
_Element = Callable[[Index], list[Value]]
_Follow = Callable[[list[Value], list[Value]], list[Value]]


def _of_elements(
    w: Reducer, first: Index, last: Index, element: _Element, follow: _Follow
) -> Accumulators:
    """Return what each lane has found."""
    b = w.b
    # Two strips, that each step reads the one and writes the other: where the same memory is read
    # and written, LLVM makes a masked store of a selection, for which the next load has to wait.
    strip, other = (Accumulators(b, w.combiner.held, LANES) for _ in range(2))

    def advance(source: Accumulators, target: Accumulators, start: Index, count: Index) -> None:
        with b.loop(0, count, folded=True) as j:
            target.put(follow(source.get(j), element(b.add(start, j))), j)

    with b.loop(0, LANES, folded=True) as j:
        strip.put(element(b.add(first, j)), j)
    begin = b.add(first, LANES)
    steps = b.udiv(b.sub(last, begin), 2 * LANES)
    with b.loop(0, steps) as n:
        at = b.add(begin, b.mul(n, 2 * LANES))
        advance(strip, other, at, LANES)
        advance(other, strip, b.add(at, LANES), LANES)
    done = b.add(begin, b.mul(steps, 2 * LANES))
    if done != last:
        with b.loop(0, _shares(w, done, last)) as n:
            at = b.add(done, b.mul(n, LANES))
            advance(strip, strip, at, b.minimum(b.sub(last, at), LANES))
    return strip


def _of_long_elements(
    w: Reducer, first: Index, last: Index, element: _Element, follow: _Follow
) -> Accumulators:
    """Return what each lane has found, with one copy of the code for an element."""
    b = w.b
    strip, new = (Accumulators(b, w.combiner.held, LANES) for _ in range(2))
    size = b.sub(last, first)
    with b.loop(0, _shares(w, first, last)) as n:
        at = b.add(first, b.mul(n, LANES))
        is_all = isinstance(size, int) and size % LANES == 0
        count = LANES if is_all else b.minimum(b.sub(last, at), LANES)
        with b.loop(0, count, folded=True) as j:
            new.put(element(b.add(at, j)), j)
        with b.when(b.compare("eq", n, 0)), b.loop(0, LANES, folded=True) as j:
            strip.put(new.get(j), j)
        with b.when(b.compare("ne", n, 0)), b.loop(0, count, folded=True) as j:
            strip.put(follow(strip.get(j), new.get(j)), j)
    return strip


def _shares(w: Reducer, first: Index, last: Index) -> Index:
    """Return how many times all lanes it takes for the elements from one to another."""
    b = w.b
    return b.udiv(b.add(b.sub(last, first), LANES - 1), LANES)


def compared_positions(combiner: Combiner, position: int) -> dict[Instruction, Val]:
    """Return what comparisons of positions result in if the first argument's element is earlier."""
    pair = [position, position + combiner.count]
    known: dict[Instruction, Val] = {}
    for inst in combiner.computation:
        if inst.opcode != "compare" or any(o.opcode != "parameter" for o in inst.operands):
            continue
        numbers = [o.parameter_number for o in inst.operands]
        if sorted(numbers) == pair:
            holds = ("LT", "LE", "NE") if numbers == pair else ("GT", "GE", "NE")
            known[inst] = TRUE if inst.direction in holds else FALSE
    return known


def in_order(
    w: Reducer, x: list[Value], y: list[Value], position: int
) -> tuple[list[Value], list[Value]]:
    """Return two sets of values, that of the earlier element first."""
    b = w.b
    at, other = x[position], y[position]
    assert isinstance(at, Val) and isinstance(other, Val)
    is_first = b.icmp("slt" if w.combiner.held[position].is_signed else "ult", at, other)

    def chosen(yes: list[Value], no: list[Value]) -> list[Value]:
        return [select(b, is_first, *v) for v in zip(yes, no, strict=True)]

    return chosen(x, y), chosen(y, x)
