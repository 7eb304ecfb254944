"""A rotation of dimensions, as slices that change places."""

from __future__ import annotations

from hlo.expansions.draft import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.ops.attrs import SliceDim


@expansion("shuffle")
def shuffle(inst: Instruction) -> Computation:
    """Put what stands before a shift behind what follows it, one dimension after the other."""
    d = Draft(inst)
    (x,) = d.parameters
    assert inst.shifts is not None, inst
    for dim, shift in zip(inst.dimensions, inst.shifts, strict=True):
        size = x.array_shape.dims[dim]
        start = shift % size if size else 0
        if start:
            parts = [_slice(d, x, dim, start, size), _slice(d, x, dim, 0, start)]
            x = d.op("concatenate", *parts, dimensions=(dim,))
    return d.done(d.relaid(x, inst.shape))


def _slice(d: Draft, x: Instruction, dim: int, start: int, limit: int) -> Instruction:
    sizes = x.array_shape.dims
    return d.op(
        "slice",
        x,
        slice=tuple(
            SliceDim(start, limit) if n == dim else SliceDim(0, size)
            for n, size in enumerate(sizes)
        ),
    )
