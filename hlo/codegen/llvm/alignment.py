"""Which powers of two addresses are multiples of, by how they are computed.

LLVM makes one load of neighbours where it knows that. Passes that find it out are among those that
take longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.codegen.llvm.writer import LoopChoice
from hlo.llvm import (
    Binary,
    Call,
    Cast,
    GetElementPtr,
    Instruction,
    Line,
    Load,
    Operation,
    Select,
    byte_size,
)

# Of 0, and the most that is looked at otherwise.
_MOST = 1 << 30
# The widest access of a thread.
_WIDEST = 16
_EXTREMA = tuple(f"@llvm.{name}" for name in ("smin", "smax", "umin", "umax"))


def with_alignments(
    lines: Sequence[Line | LoopChoice], bases: Mapping[str, int]
) -> list[Line | LoopChoice]:
    """Return lines whose loads say what their addresses are multiples of.

    bases: what addresses are that no line computes.
    """
    known = dict(bases)
    found: list[Line | LoopChoice] = []
    for line in lines:
        if type(line) is Instruction:
            operation = line.operation
            if type(operation) is Load and not operation.align:
                align = min(known.get(operation.operands[0], 1), _WIDEST)
                if align > byte_size(operation.type):
                    line = line._replace(operation=operation._replace(align=align))
            elif line.result:
                known[line.result] = min(_multiple(operation, known), _MOST)
        found.append(line)
    return found


def _multiple(operation: Operation, known: Mapping[str, int]) -> int:
    """Return a power of two that a result is a multiple of."""

    def of(operand: str) -> int:
        found = known.get(operand)
        if found is None:
            number = int(operand) if operand.lstrip("-").isdigit() else 1
            found = number & -number or _MOST
        return found

    if isinstance(operation, Binary):
        x, y = operation.operands
        return _of_binary(operation.opcode, of(x), of(y), y)
    if isinstance(operation, GetElementPtr):
        base, *indices = operation.operands
        return min(of(base), *[of(i) * byte_size(operation.type) or 1 for i in indices])
    if isinstance(operation, Select):
        return min(map(of, operation.operands[1:]))
    if isinstance(operation, Cast) and operation.opcode in ("zext", "sext", "trunc"):
        return of(operation.operands[0])
    if isinstance(operation, Call) and operation.function in _EXTREMA:
        return min(map(of, operation.operands))
    return 1


def _of_binary(opcode: str, x: int, y: int, divisor: str) -> int:
    if opcode in ("add", "sub", "or", "xor", "urem"):
        return min(x, y)
    if opcode == "mul":
        return x * y
    if opcode == "and":
        return max(x, y)
    if opcode == "udiv" and divisor == str(y):
        return max(1, x // y)
    return 1
