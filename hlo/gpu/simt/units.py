"""What all accesses of a kernel to a memory are multiples of."""

from __future__ import annotations

from hlo.gpu.ptx.records import SIZES, Function, Immediate, Instruction
from hlo.gpu.simt.steps import elements, space_of

_MOST = 16


def access_units(function: Function) -> dict[str, int]:
    """Return the largest unit in bytes for global and for shared memory.

    Accesses are multiples of their size, so memory can be watched in pieces of the smallest.
    """
    units = {"global": _MOST, "shared": _MOST}
    for block in function.blocks:
        for inst in block.instructions:
            size = _accessed(inst)
            said = space_of(inst)
            for space in units:
                if size and (not said or inst.opcode == "cp" or space == said):
                    units[space] = min(units[space], size)
    return units


def _accessed(inst: Instruction) -> int:
    """Return how many bytes an instruction accesses at once, 0 for none."""
    # What is wrong with an instruction is found when it is compiled.
    size = SIZES.get(inst.type, 0)
    match inst.opcode:
        case "ld" | "ldu":
            return size * sum(len(elements(operand)) for operand in inst.operands[:1])
        case "st":
            return size * sum(len(elements(operand)) for operand in inst.operands[1:2])
        case "atom" | "red":
            return size
        case "cp" if len(inst.operands) > 2 and isinstance(inst.operands[2], Immediate):
            return inst.operands[2].bits
    return 0
