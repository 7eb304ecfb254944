"""A flattened computation tree: the entry, and the computations of its loops and branches."""

from __future__ import annotations

from collections.abc import Iterator

from hlo.ir import Computation


def computations_of(entry: Computation) -> Iterator[Computation]:
    """Yield the entry, and all computations that its loops and branches run."""
    stack = [entry]
    while stack:
        comp = stack.pop()
        yield comp
        for inst in comp:
            if inst.opcode in ("while", "conditional"):
                stack += inst.called_computations
