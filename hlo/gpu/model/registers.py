"""What a block of a kernel takes, from its PTX: an estimate where there is no ptxas to ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlo.gpu.model.occupancy import Residents
from hlo.gpu.ptx import parse_ptx
from hlo.gpu.ptx.records import (
    SIZES,
    Address,
    BasicBlock,
    Function,
    Instruction,
    Negated,
    Operand,
    Reg,
    Vector,
)

# What ptxas adds to the registers that are live: addresses, and room to move loads up.
_ADDED = 4
_LEAST, _MOST = 16, 255
# Their first operand is read.
_WITHOUT_RESULT = frozenset(
    "st red bar barrier bra brx ret exit trap cp prefetch membar fence mbarrier discard stmatrix "
    "wgmma griddepcontrol nanosleep".split()
)


def blocks_of(ptx: str) -> dict[str, Residents]:
    """Return what a block of each kernel takes, as far as its text says."""
    return {name: block_of(kernel) for name, kernel in parse_ptx(ptx, "kernels").kernels.items()}


def block_of(kernel: Function) -> Residents:
    """Return what a block of a kernel takes: registers that are live at a time, and some more."""
    registers = min(_MOST, max(_LEAST, live_registers(kernel) + _ADDED))
    shared = sum(variable.size for variable in kernel.shared)
    return Residents(max(1, kernel.threads), registers, shared)


def live_registers(function: Function) -> int:
    """Return how many registers of 32 bits hold values at the point where most of them do."""
    width = {name: SIZES[type_] // 4 or 1 for name, type_ in function.registers.items()}
    width |= {name: 0 for name, type_ in function.registers.items() if type_ == "pred"}
    live_in: list[set[str]] = [set() for _ in function.blocks]
    changed = True
    while changed:
        changed = False
        for number in range(len(function.blocks) - 1, -1, -1):
            *_, found = _live(function.blocks[number], live_in)
            if found != live_in[number]:
                live_in[number], changed = found, True
    return max(
        (
            sum(width.get(name, 1) for name in live)
            for block in function.blocks
            for live in _live(block, live_in)
        ),
        default=0,
    )


def _live(block: BasicBlock, live_in: list[set[str]]) -> Iterator[set[str]]:
    """Yield what is live after each instruction of a block, from the last on, and before all."""
    live: set[str] = set().union(*(live_in[n] for n in block.successors))
    for inst in reversed(block.instructions):
        yield set(live)
        written, read = _registers(inst)
        if inst.guard is None:
            live.difference_update(written)
        live.update(read)
    yield live


def _registers(inst: Instruction) -> tuple[list[str], list[str]]:
    """Return the registers that an instruction writes, and those that it reads."""
    operands = list(inst.operands)
    written: list[str] = []
    has_result = inst.opcode not in _WITHOUT_RESULT and operands
    if has_result and not isinstance(operands[0], Address):
        written = list(_names(operands[:1]))
        operands = operands[1:]
    guards = [inst.guard.name] if inst.guard is not None else []
    return written, [*_names(operands), *guards]


def _names(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Reg():
                yield operand.name
            case Negated():
                yield operand.reg.name
            case Vector():
                yield from _names(operand.elements)
            case Address():
                yield from _names([operand.base, *operand.coordinates])
