"""Values of constants, reading no more elements than necessary."""

from __future__ import annotations

import numpy as np

from hlo.ir import Instruction
from hlo.values.numerals import bits_of
from hlo.values.types import ArrayShape


def splat(inst: Instruction) -> np.ndarray | None:
    """Return the value of rank 0 that every element of a constant has; None for anything else."""
    while inst.opcode == "broadcast":
        inst = inst.operands[0]
    if inst.opcode != "constant":
        return None
    literal = inst.literal
    if literal.elided or not isinstance(literal.shape, ArrayShape):
        return None
    value = literal.array
    if value.size != 1:
        bits = bits_of(value).reshape(-1)
        # Comparing two elements suffices for most constants that are not splats.
        if not bits.size or bits[0] != bits[-1] or not (bits[:64] == bits[0]).all():
            return None
        if not (bits == bits[0]).all():
            return None
    return np.asarray(value.reshape(-1)[0], value.dtype)
