"""Reshapes and transposes that are bitcasts: every element keeps its position in memory."""

from __future__ import annotations

from collections.abc import Iterable

from hlo.ir import Instruction
from hlo.values.layout.bitcasts import is_order, layout_of, reshape_is_bitcast
from hlo.values.types import ArrayShape


def is_bitcast(inst: Instruction) -> bool:
    """True for a bitcast, and for a reshape or transpose that is equivalent to one in its layouts.

    False for copies, whose purpose is a separate buffer, and for layouts with tiles, padding,
    packed elements or other memory spaces.
    """
    if inst.opcode == "bitcast":
        return True
    if inst.opcode not in ("reshape", "transpose"):
        return False
    before, after = inst.operands[0].array_shape, inst.array_shape
    if before.is_dynamic or not (is_order(before) and is_order(after)):
        return False
    if inst.opcode == "reshape":
        return reshape_is_bitcast(before, after)
    from_major = [inst.dimensions[d] for d in reversed(layout_of(after).minor_to_major)]
    return _wide(before, from_major) == _wide(before, layout_of(before).minor_to_major[::-1])


def _wide(shape: ArrayShape, dims: Iterable[int]) -> list[int]:
    """Return those of the given dimensions that are not of size one."""
    return [d for d in dims if shape.dims[d] != 1]
