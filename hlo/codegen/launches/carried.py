"""Scalars that a launch computes beside its own work, so that they need none of their own.

Its first thread stores them. A launch that reads some of them itself computes these in each of its
threads, for no thread waits for another block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hlo.gpu.plan import Place

# A scalar in memory takes so many bytes at the most.
SCALAR_BYTES = 16


@dataclass(frozen=True)
class Span:
    """Memory from a place on."""

    place: Place
    size: int = SCALAR_BYTES

    def meets(self, other: Span) -> bool:
        """True when two spans have a byte in common."""
        a, b = self.place, other.place
        if (a.region, a.number) != (b.region, b.number):
            return False
        return a.offset < b.offset + other.size and b.offset < a.offset + self.size


def meet(some: Iterable[Span], others: Sequence[Span]) -> bool:
    """True when one of some spans has a byte in common with one of others."""
    return any(a.meets(b) for a in some for b in others)
