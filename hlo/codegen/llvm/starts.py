"""Addresses in loops: where an array's elements begin is computed before the loop.

Inside, an address that grows by so many bytes a turn is that start and the index. LLVM's analysis
of loops does not see what the start was made of: it would try all ways to compute the sum, which
takes as long as everything else for a short loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.llvm.indices import IndexWriter
from hlo.codegen.llvm.values import Index
from hlo.llvm import (
    Binary,
    Call,
    Cast,
    Compare,
    GetElementPtr,
    Instruction,
    Line,
    Operation,
    Select,
    byte_size,
)

_DIVISIONS = frozenset({"udiv", "sdiv", "urem", "srem"})
_INTRINSICS = frozenset({"@llvm.smin", "@llvm.smax", "@llvm.umin", "@llvm.umax"})


def with_starts(b: IndexWriter, index: str, lines: Sequence[Line]) -> list[Line]:
    """Return the straight code of a loop with its addresses relative to starts.

    The starts are written to `b`, which is before the loop. index: what the loop counts, which is
    all that it carries from turn to turn.
    """
    return _Addresses(b, index).rewritten(lines)


class _Addresses:
    """The addresses of one loop."""

    def __init__(self, b: IndexWriter, index: str) -> None:
        self._b, self._index = b, index
        self._made: dict[str, Operation] = {}
        # By how much a value grows with the index, or an address, in bytes; None if not evenly.
        self._steps: dict[str, int | None] = {index: 1}
        # Values where the index is zero.
        self._first: dict[str, Index] = {index: 0}
        # The addresses inside, by start, type, and elements of it for each step of the index.
        self._inside: dict[tuple[str, str, int], str] = {}
        self._lines: list[Line] = []

    def rewritten(self, lines: Sequence[Line]) -> list[Line]:
        for line in lines:
            if type(line) is Instruction and line.result:
                operation = line.operation
                step = self._steps[line.result] = self._step(operation)
                self._made[line.result] = operation
                if step and isinstance(operation, GetElementPtr):
                    self._write(line, step)
                    continue
            self._lines.append(line)
        return self._lines

    def _write(self, line: Instruction, step: int) -> None:
        """Write an address that grows by so many bytes."""
        b = self._b
        root, distance = b.root_of(str(self._value(line.result)))
        # Machines multiply indices by so many bytes on the way.
        size = min(step & -step, 8)
        key = b.hidden(root), f"i{8 * size}", step // size
        if distance or key in self._inside:
            operation = GetElementPtr("", "i8", ("ptr", "i64"), (self._at(key), str(distance)))
            b.bases[line.result] = operation.operands[0]
            self._lines.append(line._replace(operation=operation))
        else:
            self._inside[key] = self._address(key, line.result)

    def _at(self, key: tuple[str, str, int]) -> str:
        if key not in self._inside:
            self._inside[key] = self._address(key, self._b.fresh())
        return self._inside[key]

    def _address(self, key: tuple[str, str, int], name: str) -> str:
        start, type_, factor = key
        at = self._index
        if factor != 1:
            at = self._b.fresh()
            product = Binary("mul", "nsw", "i64", (self._index, str(factor)))
            self._lines.append(Instruction(at, product))
        operation = GetElementPtr("", type_, ("ptr", "i64"), (start, at))
        self._lines.append(Instruction(name, operation))
        self._b.bases[name] = start
        return name

    # --- what values are from turn to turn --------------------------------------------------------

    def _step(self, operation: Operation) -> int | None:
        steps = [self._steps.get(x, 0) for x in operation.operands]
        match operation:
            case Binary("add" | "sub" as opcode, _, "i64"):
                a, b = steps
                return None if a is None or b is None else a + b if opcode == "add" else a - b
            case Binary("mul", _, "i64", (_, y)) if steps[0] and y.lstrip("-").isdigit():
                return steps[0] * int(y)
            case GetElementPtr(_, type_, ("ptr", "i64")):
                a, b = steps
                size = byte_size(type_)
                return None if a is None or b is None or (b and not size) else a + b * size
            case Binary(opcode, operands=(_, y)) if opcode in _DIVISIONS and not y.isdigit():
                return None
            case Call() if operation.function not in _INTRINSICS:
                return None
            case Binary() | Cast() | Compare() | Select() | Call():
                return 0 if steps.count(0) == len(steps) else None
        return None

    def _value(self, name: str) -> Index:
        """Return a value, or an address, as it is where the index is zero."""
        if name not in self._first:
            operation = self._made.get(name)
            if operation is None:
                return int(name) if name.lstrip("-").isdigit() else name
            self._first[name] = self._computed(operation)
        return self._first[name]

    def _computed(self, operation: Operation) -> Index:
        b, values = self._b, [self._value(x) for x in operation.operands]
        match operation:
            case Binary("add", _, "i64"):
                return b.add(*values)
            case Binary("sub", _, "i64"):
                return b.sub(*values)
            case Binary("mul", _, "i64"):
                return b.mul(*values)
            case GetElementPtr():
                return b.element_address(str(values[0]), operation.type, values[1])
            case Cast():
                type_ = operation.to
            case Compare():
                type_ = "i1"
            case Binary() | Select() | Call():
                type_ = operation.type
            case _:
                raise AssertionError(operation)
        return b.op(type_, operation._replace(operands=tuple(map(str, values)))).name
