"""The collectives of a module, by opcode: how many, what they send, how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hlo.analysis.network.costs import CollectiveCost, Network, collective_costs
from hlo.ir import Module
from hlo.reports.numbers import bytes_text, table
from hlo.support.quantities import quantity_text


@dataclass(frozen=True)
class CollectiveRow:
    """The collectives of one opcode.

    instructions: in the text. runs: in one run of the module; without `exact`, loops of unknown
    trip count are counted as one iteration and each branch of a conditional as if it ran.
    members: the largest group. algorithms: what sends them, in the order of the text. sent_bytes,
    seconds: of all runs, for each device. result_bytes: of the results, each instruction once.
    """

    opcode: str
    instructions: int
    runs: int
    exact: bool
    members: int
    algorithms: tuple[str, ...]
    sent_bytes: float
    seconds: float
    result_bytes: int


@dataclass(frozen=True)
class Communication:
    """What a module's collectives cost each device; prints as a table.

    rows: by opcode, the most time first. network: what they are sent over.
    """

    network: Network
    rows: tuple[CollectiveRow, ...]

    @property
    def sent_bytes(self) -> float:
        """The bytes that a device sends in one run of the module."""
        return sum(row.sent_bytes for row in self.rows)

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    @property
    def result_bytes(self) -> int:
        """The bytes of the results of all collectives of the text, each once."""
        return sum(row.result_bytes for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        totals = {
            "sent_bytes": self.sent_bytes,
            "seconds": self.seconds,
            "result_bytes": self.result_bytes,
        }
        return {**asdict(self), **totals}

    def lines(self) -> list[str]:
        """Return the table, one line each."""
        head = ("", "count", "runs", "devices", "sent each", "time", "results", "algorithm")
        rows = [
            (r.opcode, str(r.instructions), f"{r.runs}{'' if r.exact else '?'}", str(r.members),
             bytes_text(round(r.sent_bytes)), quantity_text(r.seconds, "s"),
             bytes_text(r.result_bytes), ", ".join(r.algorithms))
            for r in self.rows
        ]  # fmt: skip
        total = (
            "in all", str(sum(r.instructions for r in self.rows)),
            f"{sum(r.runs for r in self.rows)}{'' if all(r.exact for r in self.rows) else '?'}",
            "", bytes_text(round(self.sent_bytes)), quantity_text(self.seconds, "s"),
            bytes_text(self.result_bytes), "",
        )  # fmt: skip
        return [f"collectives ({self.network})", *table([head, *rows, total], left=(0, 7))]


def communication(module: Module, network: Network | None = None) -> Communication:
    """Return what the collectives of a module cost each device.

    network: by default one with the default bandwidth and latency.
    """
    network = Network() if network is None else network
    by_opcode: dict[str, list[CollectiveCost]] = {}
    for cost in collective_costs(module, network):
        by_opcode.setdefault(cost.transfer.opcode, []).append(cost)
    rows = [_row(opcode, costs) for opcode, costs in by_opcode.items()]
    return Communication(network, tuple(sorted(rows, key=lambda r: -r.seconds)))


def _row(opcode: str, costs: Sequence[CollectiveCost]) -> CollectiveRow:
    return CollectiveRow(
        opcode,
        len(costs),
        sum(c.runs.count for c in costs),
        all(c.runs.exact for c in costs),
        max(c.transfer.members for c in costs),
        tuple(dict.fromkeys(c.algorithm.name for c in costs)),
        sum(c.runs.count * c.sent_bytes for c in costs),
        sum(c.runs.count * c.seconds for c in costs),
        sum(c.transfer.result_bytes for c in costs),
    )
