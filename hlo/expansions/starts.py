"""Dynamic slices and updates whose starts are one vector, as those with a scalar a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.expansions.draft import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import SliceDim


def has_vector(inst: Instruction) -> bool:
    """True for a dynamic slice or update in the older form: its starts are one vector."""
    last = inst.operands[-1].array_shape
    return len(inst.operands) == _first_start(inst) + 1 and last.rank == 1


def with_scalar_starts(
    b: Builder, inst: Instruction, operands: Sequence[Instruction]
) -> Instruction:
    """Append the same operation on `operands` with the elements of their last one as starts."""
    vector = operands[-1]
    starts = [
        b.reshape(b.op("slice", vector, slice=(SliceDim(n, n + 1),)), ())
        for n in range(vector.array_shape.dims[0])
    ]
    attrs = {k: inst.attrs[k] for k in inst.spec.attrs}
    arrays = operands[: _first_start(inst)]
    return b.op(inst.opcode, *arrays, *starts, shape=inst.shape, **attrs)


def _first_start(inst: Instruction) -> int:
    return 1 if inst.opcode == "dynamic-slice" else 2


@expansion("dynamic-slice")
def scalar_starts(inst: Instruction) -> Computation | None:
    """A scalar for each element of the vector."""
    if not has_vector(inst):
        return None
    d = Draft(inst)
    return d.done(with_scalar_starts(d, inst, d.parameters))
