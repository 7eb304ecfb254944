"""Values that nothing uses: indices whose known part has become part of addresses, mostly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hlo.llvm import Alloca, AtomicUpdate, Call, Instruction, Line, Load, Operation

# What may have effects, or be a name for memory that was given out.
_KEPT = frozenset({Call, Load, Alloca, AtomicUpdate})


def without_unused(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without values that nothing uses, but for calls and loads."""
    uses: Counter[str] = Counter()
    for line in lines:
        if type(line) is Instruction:
            uses.update(line.operation.operands)
    kept: list[Line] = []
    for line in reversed(lines):
        if type(line) is Instruction and line.result and not uses[line.result]:
            operation = line.operation
            if type(operation) not in _KEPT or _is_start(operation):
                uses.subtract(operation.operands)
                continue
        kept.append(line)
    return kept[::-1]


def _is_start(operation: Operation) -> bool:
    """Return whether an operation is what a loop's addresses begin with, see `starts.py`."""
    return isinstance(operation, Call) and operation.function == "@llvm.strip.invariant.group"
