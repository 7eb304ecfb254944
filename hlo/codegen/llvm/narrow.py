"""Divisions of indices that are known to be small, in 32 bits.

GPUs divide by several instructions, of which 64 bits take about four times as many as 32. LLVM's
passes that find out how large indices are do not run for all kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from hlo.codegen.llvm.alignment import additions
from hlo.llvm import (
    Binary,
    Branch,
    Call,
    Cast,
    Compare,
    Instruction,
    Label,
    Line,
    Operation,
    Phi,
    Select,
)

_WORD = (1 << 32) - 1
# What is more than so is negative for some operations.
_LARGEST = {"i32": (1 << 31) - 1, "i64": (1 << 63) - 1}
_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32}
_DIVISIONS = ("udiv", "urem")
# Operations whose results may be known.
_TELLING = frozenset({Binary, Call, Cast, Phi, Select})


def _of_bits(x: int, y: int) -> int:
    return (1 << max(x, y).bit_length()) - 1


# The most that results are which grow with both operands.
_GROWING: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "mul": operator.mul, "or": _of_bits, "xor": _of_bits
}  # fmt: skip


def with_narrow_divisions(lines: Sequence[Line], limits: Mapping[str, int]) -> list[Line]:
    """Return lines that divide numbers of up to 32 bits in 32 bits.

    limits: what intrinsics return at the most, by name.
    """
    if not any(map(_division, lines)):
        return list(lines)
    # The most that values can be which cannot be negative.
    most: dict[str, int] = {}
    sums = additions(lines)
    found: list[Line] = []
    for at, line in enumerate(lines):
        if type(line) is Instruction and type(line.operation) in _TELLING:
            operation = line.operation
            if type(operation) is Phi:
                limit = _counted(lines, at, most, sums) if operation.type == "i64" else None
            else:
                limit = _limit(operation, most, limits)
            if limit is not None and limit <= _LARGEST[_type_of(operation)]:
                most[line.result] = limit
            division = _division(line)
            if division is not None:
                operands = [_most(x, most) for x in division.operands]
                if all(x is not None and x <= _WORD for x in operands):
                    found += _divided(line.result, division)
                    continue
        found.append(line)
    return found


def _counted(
    lines: Sequence[Line], at: int, most: Mapping[str, int], sums: Mapping[str, tuple[str, str]]
) -> int | None:
    """Return the most that a loop's counter can be, None for what is none.

    A turn begins with a test whether the counter is less than a limit, and ends with an addition.
    """
    line = lines[at]
    assert isinstance(line, Instruction)
    start, *following = line.operation.operands
    first = _most(start, most)
    if first is None or len(following) != 1 or following[0] not in sums:
        return None
    counter, step = sums[following[0]]
    if not step.isdigit():
        return None
    while _is_phi(lines[at]):
        at += 1
    match lines[at : at + 3]:
        case [
            Instruction(test, Compare("icmp", "slt", "i64", (x, y))),
            Instruction("", Branch((condition,), (inside, _))),
            Label(body),
        ] if (x, condition, inside) == (counter, test, body) and counter == line.result:
            end = _most(y, most)
            return None if end is None else max(first, end - 1 + int(step))
    return None


def _is_phi(line: Line) -> bool:
    return type(line) is Instruction and type(line.operation) is Phi


def _division(line: Line) -> Binary | None:
    """Return the division of 64 bits that a line is, if it is one."""
    if type(line) is Instruction and type(line.operation) is Binary:
        if line.operation.opcode in _DIVISIONS and line.operation.type == "i64":
            return line.operation
    return None


def _divided(name: str, operation: Binary) -> list[Line]:
    """Return a division in 32 bits."""
    lines: list[Line] = []
    operands: list[str] = []
    for number, operand in enumerate(operation.operands):
        if operand[0] == "%":
            short = f"{name}.{number}"
            lines.append(Instruction(short, Cast("trunc", "i64", "i32", (operand,))))
            operand = short
        operands.append(operand)
    short = f"{name}.i32"
    lines.append(Instruction(short, operation._replace(type="i32", operands=tuple(operands))))
    lines.append(Instruction(name, Cast("zext", "i32", "i64", (short,))))
    return lines


def _most(operand: str, most: Mapping[str, int]) -> int | None:
    return int(operand) if operand.isdigit() else most.get(operand)


def _type_of(operation: Operation) -> str:
    """Return the type of a result whose limit is known."""
    if isinstance(operation, Cast):
        return operation.to
    assert isinstance(operation, Binary | Call | Phi | Select)
    return operation.type


def _limit(operation: Operation, most: Mapping[str, int], limits: Mapping[str, int]) -> int | None:
    """Return the most that a result can be, None if it may be negative, or anything."""
    match operation:
        case Binary(opcode, _, "i64" | "i32", (x, y)):
            factor = int(y) if y.isdigit() else 0
            return _of_binary(opcode, _most(x, most), _most(y, most), factor)
        case Cast("zext", type_, "i32" | "i64", (x,)) if type_ in _BITS:
            return most.get(x, (1 << _BITS[type_]) - 1)
        case Call("", "i32", function) if function in limits:
            return limits[function]
        case Call(_, "i32" | "i64", "@llvm.smin" | "@llvm.umin", _, (x, y)):
            return _of_both(min, _most(x, most), _most(y, most))
        case Call(_, "i32" | "i64", "@llvm.smax" | "@llvm.umax", _, (x, y)):
            return _of_both(max, _most(x, most), _most(y, most))
        case Select(_, "i64" | "i32", (_, x, y)):
            return _of_both(max, _most(x, most), _most(y, most))
    return None


def _of_both(of: Callable[[int, int], int], x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else of(x, y)


def _of_binary(opcode: str, x: int | None, y: int | None, factor: int) -> int | None:
    """Return the most that a result can be. factor: the second operand, 0 if it is not known."""
    if opcode == "and":
        return min([n for n in (x, y) if n is not None], default=None)
    if opcode == "urem" and y:
        return y - 1 if x is None else min(x, y - 1)
    if x is None:
        return None
    if opcode == "lshr":
        return x >> factor
    if opcode == "udiv":
        return x // factor if factor else x
    if y is not None and opcode in _GROWING:
        return _GROWING[opcode](x, y)
    return None
