"""Kernels that write parts of their result: dynamic-update-slice, concatenate."""

from __future__ import annotations

from hlo.codegen.element import Indices, clamped_start
from hlo.codegen.kernel import Extent, Kernel, kernel, loop_nest, over_elements
from hlo.types import ArrayShape


@kernel("dynamic-update-slice")
def dynamic_update_slice(k: Kernel) -> Extent:
    """Write the update into the result, which holds the operand already."""
    update = k.inst.operands[1]
    assert isinstance(update.shape, ArrayShape)
    starts = clamped_start(k.elements, k.inst, 2, update.shape.dims, k.shape.dims)

    def body(at: Indices) -> None:
        target = tuple(k.b.add(s, i) for s, i in zip(starts, at, strict=True))
        k.store(k.elements.at(update, at), target)

    return over_elements(k, update.shape, body)


@kernel("concatenate")
def concatenate(k: Kernel) -> Extent:
    """Copy each operand to its place, one loop nest an operand."""
    (axis,) = k.inst.attrs["dimensions"]
    offset = 0
    with k.b.loop(k.begin, k.end):
        for operand in k.inst.operands:
            shape = operand.shape
            assert isinstance(shape, ArrayShape)
            assert k.shape.layout is not None
            order = list(reversed(k.shape.layout.minor_to_major))

            def body(found: tuple[str, ...], operand=operand, order=order, offset=offset) -> None:  # type: ignore[no-untyped-def]
                at = [""] * len(order)
                for d, i in zip(order, found, strict=True):
                    at[d] = i
                value = k.elements.at(operand, tuple(at))
                target = tuple(k.b.add(i, offset) if d == axis else i for d, i in enumerate(at))
                k.store(value, target)

            loop_nest(k.b, [(0, shape.dims[d]) for d in order], body)
            offset += shape.dims[axis]
    return Extent(1)
