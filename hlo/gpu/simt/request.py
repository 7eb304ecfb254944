"""What an instruction asks of memory."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.gpu.ptx.records import Instruction

# Modifiers of loads and stores that are atomic.
_ATOMIC = frozenset(("relaxed", "acquire", "release", "volatile", "mmio"))


@dataclass(frozen=True)
class Request:
    """What an instruction asks of memory: `bytes` at once of each lane.

    does: `reads`, `writes` or `updates`.
    """

    inst: Instruction
    bytes: int
    does: str

    @property
    def is_atomic(self) -> bool:
        """Whether it may meet atomic accesses of other threads without being a race."""
        return not _ATOMIC.isdisjoint(self.inst.modifiers)
