"""What was repaired, and what the repairs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.ops.spec import OpRecord
from hlo.values.types import Shape, compatible


class Repair(NamedTuple):
    """A repair of an instruction, or of an attribute of the module's header.

    subject: its name, with which errors about it begin. xla: what XLA does with it, as a predicate.
    """

    subject: str
    xla: str


Note = Callable[[str, str], None]
"""Is told of each repair, with the fields of `Repair`."""


def inferred(inst: Instruction, declared: Shape | None = None) -> Shape | None:
    """Return the shape that the operands and attributes give; None if they break a rule.

    declared: stands for the shape that the instruction has.
    """
    try:
        return inst.spec.infer(OpRecord.of(inst, inst.operand_shapes, shape=declared))
    except InferError:
        return None


def is_as_declared(inst: Instruction) -> bool:
    """True if an instruction has the shape that its operands and attributes give."""
    shape = inferred(inst)
    return shape is not None and compatible(shape, inst.shape)
