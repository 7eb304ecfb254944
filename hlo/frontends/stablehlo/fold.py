"""Constant folding while a text is read, for sizes that are computed from constants."""

from __future__ import annotations

import numpy as np

from hlo.eval import Interpreter
from hlo.ir import Instruction
from hlo.values.types import ArrayShape

# Sizes are short lists of integers, and short computations.
_MAX_ELEMENTS = 64
_MAX_DEPTH = 32
_FOLDED = frozenset(
    "add and broadcast clamp compare concatenate convert divide maximum minimum multiply negate "
    "not or remainder reshape select sign slice subtract".split()
)


def constant_value(inst: Instruction, depth: int = 0) -> np.ndarray | None:
    """Return the value of an integer instruction computed from constants, else None."""
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.dynamic or shape.num_elements > _MAX_ELEMENTS:
        return None
    if inst.opcode == "constant":
        return np.asarray(inst.literal.array)
    if inst.opcode not in _FOLDED or depth == _MAX_DEPTH or not _is_whole(shape):
        return None
    args = []
    for operand in inst.operands:
        value = constant_value(operand, depth + 1)
        if value is None:
            return None
        args.append(value)
    return np.asarray(inst.spec.evaluate(inst, args, Interpreter()))


def _is_whole(shape: ArrayShape) -> bool:
    return shape.element_type.is_integer or shape.element_type.is_pred
