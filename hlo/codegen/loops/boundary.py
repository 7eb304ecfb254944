"""Inner loops in parts, where what they read wraps around or is padded: without a choice in most.

At the boundaries of an array a kernel reads elsewhere, or nothing. Inside it reads what is beside,
in vectors; so the innermost loop is one for each part between the boundaries that is long, and one
for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from hlo.analysis.fusion.operations import wrapped
from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import Builder, Index, i64
from hlo.codegen.loops.kernel import InnerLoop, Kernel, plain_loop
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Shorter parts are done together, one element after the other; of longer ones there are so many.
_SHORT, _MOST_LONG = 32, 3


def boundary_loop(k: Kernel, results: Sequence[Instruction], merged: Sequence[bool]) -> InnerLoop:
    """Return how the innermost loop over the elements of results is emitted.

    merged: which loops are collapsed, see `over_elements`.
    """
    shape = results[0].array_shape
    order = loop_order(shape)
    if not order or (merged and merged[-1]) or len(order) < 2:
        return plain_loop
    axis = order[-1]
    length = shape.dims[axis]
    cuts = sorted({0, length} | {c for c in _cuts(k, results, axis) if 0 < c < length})
    long = [part for part in pairwise(cuts) if part[1] - part[0] > _SHORT]
    short = [part for part in pairwise(cuts) if part[1] - part[0] <= _SHORT]
    if len(cuts) == 2 or not 0 < len(long) <= _MOST_LONG:
        return plain_loop

    def loop(b: Builder, bounds: tuple[Index, Index], body: Callable[[str], None]) -> None:
        if bounds != (0, length):
            plain_loop(b, bounds, body)
            return
        for part in long:

            def inside(i: str, part: tuple[int, int] = part) -> None:
                k.elements.ranges[i] = part
                body(i)

            plain_loop(b, part, inside)
        if short:
            with b.loop(0, sum(end - first for first, end in short), plain=True) as number:
                body(_place(b, number, short))

    return loop


def _place(b: Builder, number: str, parts: Sequence[tuple[int, int]]) -> str:
    """Return the index that has a number among those of some parts."""
    (first, end), *others = parts
    place = i64(b.add(number, first))
    done = end - first
    for first, end in others:
        later = b.compare("sge", number, done)
        place = b.select(later, i64(b.add(number, first - done)), place)
        done += end - first
    return place.name


def _cuts(k: Kernel, results: Sequence[Instruction], axis: int) -> set[int]:
    """Return the indices in a dimension from which on something fused reads otherwise."""
    found, seen = set[int](), set[tuple[Instruction, int]]()
    todo = [(result, 0) for result in results]
    while todo:
        inst, shift = todo.pop()
        if (inst, shift) in seen or len(seen) > 1000:
            continue
        seen.add((inst, shift))
        if inst not in results and k.roles.get(inst) is not Role.FUSED:
            continue
        if inst.opcode == "slice":
            if inst.slice[axis].stride == 1:
                todo.append((inst.operands[0], shift + inst.slice[axis].start))
        elif inst.opcode == "pad":
            padding, (operand, _) = inst.padding[axis], inst.operands
            if not padding.interior:
                low, n = padding.low, operand.array_shape.dims[axis]
                found |= {low - shift, low + n - shift}
                todo.append((operand, shift - low))
        elif inst.opcode == "concatenate":
            if inst.dimensions == (axis,) and (parts := wrapped(inst)):
                found |= {piece.first - shift for piece in parts[1]}
                found |= {piece.end - shift for piece in parts[1]}
        elif inst.spec.has(Trait.ELEMENTWISE):
            todo += [
                (o, shift)
                for o in inst.operands
                if isinstance(o.shape, ArrayShape) and o.array_shape.rank == inst.array_shape.rank
            ]
    return found
