"""How a module is distributed over devices: shardings, and what collectives send."""

from __future__ import annotations

from typing import Any

from hlo.analysis.devices import needs_partitioning
from hlo.analysis.network.costs import collective_costs
from hlo.compiler.partition import partition
from hlo.errors import HloError
from hlo.ir import Module
from hlo.reports.collectives import communication
from hlo.reports.numbers import bytes_text
from hlo.support.quantities import quantity_text


def distribution(module: Module) -> tuple[dict[str, Any] | None, Module]:
    """Return shardings and collectives as data, and the program of each device.

    The data are None for a module of one device without either. A module with shardings is
    partitioned as `hlo.partition` does; `error` says why it cannot be.
    """
    found: dict[str, Any] = {"shardings": None, "collectives": None, "error": ""}
    program = module
    if needs_partitioning(module):
        try:
            done = partition(module)
        except HloError as e:
            found["error"] = str(e)
        else:
            program, found["shardings"] = done.module, done.report.as_json()
    costs = collective_costs(program)
    if costs:
        found["collectives"] = {
            "network": _network(program),
            "rows": [
                [c.instruction.name, c.instruction.opcode, str(c.instruction.shape)[:200],
                 c.transfer.members, c.algorithm.name, c.runs.count, c.sent_bytes, c.seconds]
                for c in costs
            ],
        }  # fmt: skip
    return (found if any(found.values()) else None), program


def _network(program: Module) -> str:
    """Return what the collectives are sent over, and what that takes in a run."""
    found = communication(program)
    return (
        f"Each device sends {bytes_text(round(found.sent_bytes))} in a run, which takes "
        f"{quantity_text(found.seconds, 's')}: {found.network}."
    )
