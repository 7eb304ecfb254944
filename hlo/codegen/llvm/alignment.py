"""Which powers of two indices and addresses are multiples of, by how they are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.llvm import (
    Binary,
    Call,
    Cast,
    GetElementPtr,
    Instruction,
    Line,
    Operation,
    Select,
    byte_size,
)

# Of 0, and the most that is looked at otherwise.
MOST = 1 << 30
# The widest access of a thread of a GPU, in bytes.
WIDEST = 16
_EXTREMA = tuple(f"@llvm.{name}" for name in ("smin", "smax", "umin", "umax"))


def multiple_of(operation: Operation, known: Mapping[str, int]) -> int:
    """Return a power of two that a result is a multiple of, by those of the values before."""

    def of(operand: str) -> int:
        return constant_multiple(operand) if (found := known.get(operand)) is None else found

    if isinstance(operation, Binary):
        x, y = operation.operands
        return min(_of_binary(operation.opcode, of(x), of(y), y), MOST)
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


def additions(lines: Sequence[Line]) -> dict[str, tuple[str, str]]:
    """Return what is added up to each sum, by its name."""
    found: dict[str, tuple[str, str]] = {}
    for line in lines:
        if type(line) is Instruction and type(line.operation) is Binary:
            opcode, _, _, (x, y) = line.operation
            if opcode == "add":
                found[line.result] = x, y
    return found


def constant_multiple(operand: str) -> int:
    """Return a power of two that an operand is a multiple of, 1 for what is no constant."""
    number = int(operand) if operand.lstrip("-").isdigit() else 1
    return min(number & -number, MOST) or MOST


def _of_binary(opcode: str, x: int, y: int, operand: str) -> int:
    if opcode in ("add", "sub", "or", "xor", "urem"):
        return min(x, y)
    if opcode == "mul":
        return x * y
    if opcode == "and":
        return max(x, y)
    if opcode == "shl" and operand.isdigit():
        return x << min(int(operand), MOST.bit_length())
    if opcode == "udiv" and operand == str(y):
        return max(1, x // y)
    return 1
