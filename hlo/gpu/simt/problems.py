"""What the machine finds wrong in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hlo.errors import Diagnostic, HloError
from hlo.gpu.ptx.records import Instruction


class Kind(Enum):
    """What is wrong; the values are the codes of diagnostics."""

    RACE = "gpu-race"
    UNINITIALIZED = "gpu-uninitialized"
    OUT_OF_BOUNDS = "gpu-out-of-bounds"
    MISALIGNED = "gpu-misaligned"
    DIVERGENT_BARRIER = "gpu-divergent-barrier"
    ENDLESS_LOOP = "gpu-endless-loop"
    INACTIVE_LANE = "gpu-inactive-lane"
    UNFINISHED_COPY = "gpu-unfinished-copy"
    UNORDERED_SUM = "gpu-unordered-sum"
    TRAP = "gpu-trap"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    kernel, instruction: the kernel, and the HLO that it was launched for. code: the PTX. block,
    thread: of the first thread that does it, or -1. count: how many threads do, in the same step.
    """

    kind: Kind
    message: str
    kernel: str
    instruction: str = ""
    code: Instruction | None = None
    block: int = -1
    thread: int = -1
    count: int = 1

    @property
    def line(self) -> int:
        """Return the line of the PTX, or 0."""
        return self.code.line if self.code is not None else 0

    def __str__(self) -> str:
        where = f"kernel {self.kernel}"
        if self.instruction:
            where += f" (%{self.instruction.removeprefix('%')})"
        if self.code is not None:
            where += f", PTX line {self.code.line} ({self.code.name})"
            if self.code.location is not None:
                where += f" of {self.code.location.file}:{self.code.location.line}"
        if self.block >= 0:
            where += f", block {self.block}, thread {self.thread}"
        if self.count > 1:
            where += f" and {self.count - 1} more"
        return f"{self.message}: {where}"


def error_of(problems: list[Problem]) -> HloError:
    """Return problems as one error."""
    return HloError([Diagnostic(p.kind.value, str(p)) for p in problems])
