"""Bytes and seconds of a module's collectives on a network without structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hlo.analysis.executions import Executions, executions_of
from hlo.analysis.network.algorithms import Algorithm, algorithms_for
from hlo.analysis.network.transfers import Transfer, transfer_of
from hlo.ir import Instruction, Module
from hlo.support.quantities import quantity_text, read_positive, read_quantity, read_settings


@dataclass(frozen=True)
class Network:
    """A network in which all devices send and receive at the same time, none in another's way.

    bandwidth: bytes per second that a device sends, and receives as many. latency: seconds from the
    start of a message to the arrival of its first byte.
    """

    bandwidth: float = 50e9
    latency: float = 2e-6

    def seconds(self, algorithm: Algorithm) -> float:
        """Return how long a collective takes by an algorithm."""
        return algorithm.rounds * self.latency + algorithm.sent / self.bandwidth

    def fastest(self, transfer: Transfer) -> Algorithm:
        """Return the algorithm that takes the least time; of equal ones the simplest."""
        ways = algorithms_for(transfer.opcode, transfer.members, transfer.bytes)
        return min(ways, key=self.seconds)

    def __str__(self) -> str:
        bandwidth, latency = quantity_text(self.bandwidth, "B/s"), quantity_text(self.latency, "s")
        return f"bandwidth {bandwidth} each way, latency {latency}"


def read_network(text: str, flag: str = "--network") -> Network:
    """Return a network given as `bandwidth=50GB/s,latency=2us`; what is left out has its default.

    flag: what the text is of, in errors. Raises HloError.
    """
    read: dict[str, tuple[Callable[[str, str, str], float], str]] = {
        "bandwidth": (read_positive, "B/s"),
        "latency": (read_quantity, "s"),
    }
    given = read_settings(text, flag, read)
    values = {name: read[name][0](value, read[name][1], f"{flag}: {name}")
              for name, value in given.items()}  # fmt: skip
    return Network(**values)


@dataclass(frozen=True)
class CollectiveCost:
    """What a collective of a module costs each device.

    runs: how often it runs. sent_bytes, seconds: of one run, by `algorithm`.
    """

    instruction: Instruction
    transfer: Transfer
    algorithm: Algorithm
    runs: Executions
    sent_bytes: float
    seconds: float


def collective_costs(module: Module, network: Network | None = None) -> list[CollectiveCost]:
    """Return the cost of each collective that a run of the module reaches, in the module's order.

    network: by default one with the default bandwidth and latency.
    """
    network = Network() if network is None else network
    runs, found = executions_of(module), []
    wrapped = {c for i in module.instructions() if i.opcode == "async-start"
               for c in i.called_computations}  # fmt: skip
    for comp in module.computations:
        if not runs[comp].count or comp in wrapped:
            continue  # what a start wraps counts where it starts
        for inst in comp.in_order():
            transfer = transfer_of(inst, module.device_counts)
            if transfer is None:
                continue
            way = network.fastest(transfer)
            found.append(
                CollectiveCost(inst, transfer, way, runs[comp], way.sent, network.seconds(way))
            )
    return found
