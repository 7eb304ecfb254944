"""Concatenations of many operands, as updates of one array."""

from __future__ import annotations

from hlo.expansions import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.ops.host.custom_targets import UNINITIALIZED
from hlo.values.types import S64

# Up to so many operands are written by one kernel; for more, kernels of one operand compile faster,
# above all if they are equal.
_AT_ONCE = 16


@expansion("concatenate")
def _concatenate(inst: Instruction) -> Computation | None:
    """Each operand written to its offset in turn."""
    if len(inst.operands) <= _AT_ONCE:
        return None
    d = Draft(inst)
    shape = inst.array_shape
    (axis,) = inst.dimensions
    result = d.op("custom-call", shape=shape, custom_call_target=UNINITIALIZED)
    zero = d.constant(S64, 0)
    at = 0
    for part in d.parameters:
        starts = [d.constant(S64, at) if n == axis else zero for n in range(shape.rank)]
        result = d.op("dynamic-update-slice", result, part, *starts, shape=shape)
        at += part.array_shape.dims[axis]
    return d.done(result)
