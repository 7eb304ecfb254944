"""How long instructions take on one of many equal devices, on a network without structure."""

from __future__ import annotations

from collections.abc import Iterable

from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.network.costs import Network
from hlo.analysis.network.transfers import synchronous, transfer_of
from hlo.analysis.simulation.machine import Machine
from hlo.analysis.trips import trip_count
from hlo.ir import Computation, Instruction, Module

_CALLS = frozenset({"call", "async-start"})


class Durations:
    """The seconds that instructions of a module take.

    Valid until the order of a computation changes: `forget` it then, before asking for its callers.
    """

    def __init__(self, module: Module, machine: Machine, network: Network) -> None:
        self._counts = module.device_counts
        self._machine = machine
        self._network = network
        self._of: dict[Computation, float] = {}
        self._computing: dict[Instruction, float] = {}
        self._sending: dict[Instruction, float] = {}

    def computing(self, inst: Instruction) -> float:
        """Return how long the device is busy with an instruction, collectives inside included.

        The start of a collective takes no time, nor does its done; one without them is `sending`.
        """
        if inst not in self._computing:
            self._computing[inst] = self._estimate(inst)
        return self._computing[inst]

    def _estimate(self, inst: Instruction) -> float:
        if synchronous(inst) is not None:
            return 0.0
        if inst.opcode == "while":
            trips = trip_count(inst)
            trips = 1 if trips is None else trips
            return trips * self.of(inst.body) + (trips + 1) * self.of(inst.condition)
        if inst.opcode == "conditional":
            return max(map(self.of, inst.called_computations))
        if inst.opcode in _CALLS:
            return self.of(inst.called_computations[0])
        return self._machine.seconds(cost_of_instruction(inst))

    def sending(self, inst: Instruction) -> float:
        """Return how long the network is busy with what an instruction does or starts."""
        if inst not in self._sending:
            transfer, seconds = transfer_of(inst, self._counts), 0.0
            if transfer is not None:
                seconds = self._network.seconds(self._network.fastest(transfer))
            self._sending[inst] = seconds
        return self._sending[inst]

    def of(self, comp: Computation) -> float:
        """Return how long a computation takes in its order."""
        if comp not in self._of:
            self._of[comp] = self.makespan(comp.in_order())
        return self._of[comp]

    def forget(self, comp: Computation) -> None:
        self._of.pop(comp, None)

    def makespan(self, order: Iterable[Instruction]) -> float:
        """Return how long instructions take in an order: one computation and one collective at a
        time, and computation goes on between the start and the done of a collective."""
        now = network = 0.0
        ends: dict[Instruction, float] = {}
        for inst in order:
            if synchronous(inst) is not None:
                network = max(now, network) + self.sending(inst)
                if is_start(inst):
                    ends[inst] = network
                else:
                    now = network
            elif is_done(inst):
                now = max(now, ends.get(begun_by(inst), now))
            else:
                now += self.computing(inst)
        return max(now, network)


def is_start(inst: Instruction) -> bool:
    """True for the start of an asynchronous collective."""
    return inst.opcode.endswith("-start") and synchronous(inst) is not None


def is_done(inst: Instruction) -> bool:
    """True for the done of an asynchronous collective."""
    return inst.opcode.endswith("-done") and is_start(begun_by(inst))


def begun_by(inst: Instruction) -> Instruction:
    """Return the start of the chain that an asynchronous done ends."""
    start = inst.operands[0]
    while start.opcode == "async-update":
        start = start.operands[0]
    return start
