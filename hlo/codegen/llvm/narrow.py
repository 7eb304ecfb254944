"""Divisions of indices that are known to be small, in 32 bits.

GPUs divide by several instructions, of which 64 bits take about four times as many as 32. LLVM's
passes that find out how large indices are do not run for all kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from hlo.llvm import Binary, Call, Cast, Instruction, Line, Operation, Select

_WORD = (1 << 32) - 1
_LONG = (1 << 63) - 1
_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32}
_DIVISIONS = ("udiv", "urem")


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
    # The most that values can be which cannot be negative.
    most: dict[str, int] = {}
    found: list[Line] = []
    for line in lines:
        if type(line) is Instruction and line.result:
            operation = line.operation
            limit = _limit(operation, most, limits)
            if limit is not None and limit <= _LONG:
                most[line.result] = limit
            if isinstance(operation, Binary) and operation.opcode in _DIVISIONS:
                operands = [_most(x, most) for x in operation.operands]
                if operation.type == "i64" and all(x is not None and x <= _WORD for x in operands):
                    found += _divided(line.result, operation)
                    continue
        found.append(line)
    return found


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


def _limit(operation: Operation, most: Mapping[str, int], limits: Mapping[str, int]) -> int | None:
    """Return the most that a result can be, None if it may be negative, or anything."""
    match operation:
        case Binary(opcode, _, "i64" | "i32", (x, y)):
            factor = int(y) if y.isdigit() else 0
            return _of_binary(opcode, _most(x, most), _most(y, most), factor)
        case Cast("zext", type_, operands=(x,)) if type_ in _BITS:
            known = most.get(x)
            return min((1 << _BITS[type_]) - 1, _LONG if known is None else known)
        case Call("", "i32", function) if function in limits:
            return limits[function]
        case Call(function="@llvm.smin" | "@llvm.umin", operands=(x, y)):
            return _of_both(min, _most(x, most), _most(y, most))
        case Call(function="@llvm.smax" | "@llvm.umax", operands=(x, y)):
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
