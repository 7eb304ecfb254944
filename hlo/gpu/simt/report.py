"""What launches did: instructions, accesses to memory, and what was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hlo.gpu.ptx.records import Instruction
from hlo.gpu.simt.problems import Problem
from hlo.gpu.simt.traffic import Tally

# Lines of the text about accesses that need more transactions than their bytes.
_LINES = 12


@dataclass(frozen=True)
class Access:
    """Accesses of one PTX instruction to one memory, in all launches of a kernel for an HLO.

    does: `reads`, `writes` or `updates`. requests: of warps. bytes: of all lanes. transactions:
    sectors of 32 bytes of device memory, passes over the banks of shared memory. least: how few
    they could be for the same bytes; where there are many requests, both are estimated from some.
    """

    code: Instruction
    space: str
    does: str
    requests: int
    bytes: int
    transactions: int
    least: int

    @property
    def excess(self) -> int:
        """How many transactions are more than needed."""
        return self.transactions - self.least

    def to_json(self) -> dict[str, Any]:
        """Return the access as a JSON object; `line` is that of the PTX, `source` of the HLO."""
        location = self.code.location
        return {
            "line": self.code.line,
            "source": f"{location.file}:{location.line}" if location is not None else None,
            "opcode": self.code.name,
            "space": self.space,
            "does": self.does,
            "requests": self.requests,
            "bytes": self.bytes,
            "transactions": self.transactions,
            "least": self.least,
        }


@dataclass
class KernelReport:
    """A kernel, as launched for one HLO instruction.

    instructions: of warps. opcodes: how often warps did each. lanes: instructions of threads.
    """

    kernel: str
    instruction: str
    launches: int = 0
    threads: int = 0
    instructions: int = 0
    lanes: int = 0
    opcodes: Counter[str] = field(default_factory=Counter)
    tallies: dict[tuple[str, str, int], tuple[Instruction, int, Tally]] = field(
        default_factory=dict
    )

    @property
    def accesses(self) -> list[Access]:
        """Accesses to memory, those that waste most first."""
        found = [
            Access(
                inst, space, does, t.requests, t.lanes * size, t.scaled(t.transactions),
                t.scaled(t.least),
            )
            for (space, does, _), (inst, size, t) in self.tallies.items()
        ]  # fmt: skip
        return sorted(found, key=lambda access: (-access.excess, access.code.line))

    def total(self, space: str) -> tuple[int, int, int]:
        """Return the bytes, transactions and least transactions of a space."""
        of = [access for access in self.accesses if access.space == space]
        return (
            sum(a.bytes for a in of), sum(a.transactions for a in of), sum(a.least for a in of)
        )  # fmt: skip

    @property
    def efficiency(self) -> float:
        """The share of lanes that took part, over all instructions."""
        return self.lanes / (32 * self.instructions) if self.instructions else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            "kernel": self.kernel,
            "instruction": self.instruction,
            "launches": self.launches,
            "threads": self.threads,
            "instructions": self.instructions,
            "lanes": self.lanes,
            "opcodes": dict(self.opcodes),
            "accesses": [access.to_json() for access in self.accesses],
        }


@dataclass
class SimtReport:
    """What all launches of a machine did, until `clear`. `str()` is a table."""

    entries: dict[tuple[int, str], KernelReport] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything."""
        self.entries.clear()
        self.problems.clear()

    def of(self, number: int, kernel: str, instruction: str) -> KernelReport:
        """Return the counts of a kernel for an HLO instruction. number: tells kernels apart that
        have the same name in different codes."""
        key = number, instruction
        if key not in self.entries:
            self.entries[key] = KernelReport(kernel, instruction)
        return self.entries[key]

    @property
    def kernels(self) -> list[KernelReport]:
        """The kernels, as they were first launched."""
        return [*self.entries.values()]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the kernels as JSON objects."""
        return [kernel.to_json() for kernel in self.kernels]

    def __str__(self) -> str:
        head = ("kernel", "HLO", "launches", "threads", "warp instr.", "lanes",
                "global B", "sectors", "least", "shared B", "passes", "least")  # fmt: skip
        rows = [head, *map(_row, self.kernels)]
        text = [*_aligned(rows)]
        wasted = sorted(
            ((a, k) for k in self.kernels for a in k.accesses if a.excess > 0),
            key=lambda pair: -pair[0].excess,
        )
        if wasted:
            text += ["", "Accesses with more transactions than their bytes need:"]
            text += [_waste(access, kernel) for access, kernel in wasted[:_LINES]]
            if len(wasted) > _LINES:
                text.append(f"  and {len(wasted) - _LINES} more")
        if self.problems:
            text += ["", "Problems:", *(f"  {problem}" for problem in self.problems)]
        return "\n".join(text)


def _row(kernel: KernelReport) -> tuple[str, ...]:
    counts = kernel.launches, kernel.threads, kernel.instructions
    lanes = f"{100 * kernel.efficiency:.0f} %"
    memory = (*kernel.total("global"), *kernel.total("shared"))
    return (
        kernel.kernel, f"%{kernel.instruction}" if kernel.instruction else "", *map(str, counts),
        lanes, *map(str, memory),
    )  # fmt: skip


def _waste(access: Access, kernel: KernelReport) -> str:
    of = "passes" if access.space == "shared" else "sectors"
    hlo = f" (%{kernel.instruction})" if kernel.instruction else ""
    location = access.code.location
    source = f"{location.file}:{location.line}, " if location is not None else ""
    return (
        f"  {kernel.kernel}{hlo}, {source}PTX line {access.code.line}, {access.code.name}: "
        f"{access.transactions} {of}, {access.least} would do"
    )


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    table = [*rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if n < 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
