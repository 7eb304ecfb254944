"""Kernels that write parts of their result: dynamic-update-slice, concatenate."""

from __future__ import annotations

import math

from hlo.codegen.llvm import Index
from hlo.codegen.loops.element import Indices, clamped_start
from hlo.codegen.loops.kernel import Kernel, kernel, loop_nest, over_elements, split_index
from hlo.codegen.targets.base import Extent
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape


@kernel("dynamic-update-slice")
def dynamic_update_slice(k: Kernel) -> Extent:
    """Write the update to the result, whose buffer already contains the operand."""
    update = k.inst.operands[1]
    starts = clamped_start(k.elements, k.inst, 2, update.array_shape.dims, k.shape.dims)

    def body(at: Indices) -> None:
        target = tuple(k.b.add(s, i) for s, i in zip(starts, at, strict=True))
        k.store(k.elements.at(update, at), target)

    return over_elements(k, update.array_shape, body)


@kernel("concatenate")
def concatenate(k: Kernel) -> Extent:
    """Copy each operand to its offset, for each index of the dimensions outside the concatenated
    one.

    If that is the outermost one, a chunk is a range of it, with the parts of operands in the range.
    """
    b, (axis,) = k.b, k.inst.dimensions
    assert k.shape.layout is not None
    order = [d for d in loop_order(k.shape) if d != axis]
    lead = order[: sum(_is_outside(k.shape, d, axis) for d in order)]
    inner = order[len(lead) :]

    def part(operand: Instruction, fixed: dict[int, Index], ranges: list[tuple[Index, Index]],
             offset: int) -> None:  # fmt: skip
        def body(found: tuple[str, ...]) -> None:
            index = fixed | dict(zip([axis, *inner], found, strict=True))
            at = tuple(index.get(d, 0) for d in range(k.shape.rank))
            value = k.elements.at(operand, at)
            k.store(value, tuple(b.add(i, offset) if d == axis else i for d, i in enumerate(at)))

        loop_nest(b, [*ranges, *((0, k.shape.dims[d]) for d in inner)], body)

    def parts(fixed: dict[int, Index], begin: Index, end: Index) -> None:
        offset = 0
        for operand in k.inst.operands:
            size = operand.array_shape.dims[axis]
            low = b.maximum(b.sub(begin, offset), 0)
            part(operand, fixed, [(low, b.minimum(b.sub(end, offset), size))], offset)
            offset += size

    iterations = math.prod(k.shape.dims[d] for d in lead)
    if iterations == 1:
        iterations = k.shape.dims[axis]
        parts({}, k.begin, k.end)
    else:
        with b.loop(k.begin, k.end) as number:
            found = split_index(b, number, [k.shape.dims[d] for d in lead])
            parts(dict(zip(lead, found, strict=True)), 0, k.shape.dims[axis])
    return Extent(iterations, k.shape.num_elements / iterations)


def _is_outside(shape: ArrayShape, d: int, axis: int) -> bool:
    """True when a dimension varies slower in memory than another."""
    assert shape.layout is not None
    order = shape.layout.minor_to_major
    return order.index(d) > order.index(axis)
