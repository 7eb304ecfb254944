"""One device's share of an operation: the same operation on parts of its operands."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.values.types import Shape


def localized(inst: Instruction, operands: Sequence[Instruction], shape: Shape) -> Instruction:
    """Return the operation on parts of its operands, cut alike along factors of its rule.

    Attributes that hold sizes (ranges of whole dimensions, windows of a gather, feature groups)
    become those of the part; the sharding is left out. The instruction is in no computation yet.

    operands: instructions in the shapes of one device. shape: of the result on one device.
    """
    local = inst.clone(
        operands, shape=shape, attrs=inst.spec.resized(inst, [o.shape for o in operands], shape)
    )
    local.annotations.pop("sharding", None)
    return local
