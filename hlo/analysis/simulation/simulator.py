"""A run of a module's schedule on many devices.

A simulation of discrete events: the start and the end of each instruction on each device, and of
each collective on the network. All devices run the same program, and devices that meet in a
collective meet in its order, so the events are processed in the order of the schedule, for all
devices at once. Each device computes one instruction at a time, and has one collective under way at
a time; computation goes on between the start and the end of an asynchronous one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.network.transfers import PERMUTE, Transfer, synchronous, transfer_of
from hlo.analysis.simulation.fabric import Carried, Fabric, by_size
from hlo.analysis.simulation.machine import Machine
from hlo.analysis.simulation.topology import Numbers, Topology
from hlo.analysis.trips import trip_count
from hlo.errors import HloError
from hlo.ir import Computation, Instruction, Module
from hlo.ir.computation import counted
from hlo.ops.collective.device_groups import all_groups

# Instructions that one run may take; loops whose iterations are alike take two or three.
_MOST_STEPS = 200_000
# Iterations are alike when all devices are later by the same time, but for rounding.
_ALIKE = 1e-9
_CALLS = frozenset({"call", "async-start"})


@dataclass
class CollectiveRuns:
    """The runs of one collective.

    seconds: on the network, without waiting for other devices. waited: seconds in which a device
    did nothing else, the mean over all devices. sent_bytes: by the busiest device.
    """

    instruction: Instruction
    transfer: Transfer
    algorithm: str
    count: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0
    sent_bytes: float = 0.0


@dataclass
class Simulation:
    """What a simulated run was like.

    seconds: until the last device has ended. computing, waiting: of it, the mean over all devices.
    exact: false with loops of unknown trip count, simulated as one iteration, and with
    conditionals, of which the branch that takes longest runs.
    """

    devices: int
    seconds: float
    computing: float
    waiting: float
    collectives: Sequence[CollectiveRuns]
    exact: bool

    @property
    def communicating(self) -> float:
        """The seconds that collectives take on the network, hidden behind computation or not."""
        return sum(c.seconds for c in self.collectives)


def simulate(module: Module, topology: Topology, machine: Machine, seed: int = 0) -> Simulation:
    """Return what a run of a module's schedule takes on as many devices as the topology has.

    That many have to be a multiple of the module's; the module then runs in several copies, as
    further replicas. Collectives of all replicas (`replica_groups={}`) reach over all copies,
    those whose groups are listed stay within each. seed: of the machine's jitter. Raises HloError
    for other numbers, and where the shape of a collective would depend on the number of replicas.
    """
    copies = copies_of(module, topology.devices)
    run = _Run(module, topology, machine, copies, seed)
    run.computation(module.entry)
    return run.result()


def copies_of(module: Module, devices: int) -> int:
    """Return how many copies of a module run side by side on some devices. Raises HloError."""
    replicas, partitions = module.device_counts
    own = replicas * partitions
    if devices % own:
        raise HloError.at(
            "bad-value",
            f"devices={devices} is not a multiple of the module's {own} devices "
            f"({counted(replicas, 'replica')} x {counted(partitions, 'partition')})",
            None, f"devices={own} runs it as it is; a multiple of that adds replicas",
        )  # fmt: skip
    return devices // own


@dataclass
class _Clock:
    """When each device is free: to compute, and to communicate. Seconds from the start."""

    compute: Numbers
    network: Numbers
    pending: dict[Instruction, Numbers] = field(default_factory=dict)

    def later_than(self, other: _Clock) -> float | None:
        """Return by how much all devices are later than before; None if not all by the same."""
        by = self.compute - other.compute
        # A network that is free already is as if it became free now.
        busy = np.maximum(self.network, self.compute) - np.maximum(other.network, other.compute)
        first = float(by[0])
        close = np.allclose(by, first, rtol=_ALIKE, atol=0)
        return first if close and np.allclose(busy, first, rtol=_ALIKE, atol=0) else None

    def copy(self) -> _Clock:
        return _Clock(self.compute.copy(), self.network.copy(), dict(self.pending))


@dataclass(frozen=True)
class _Meeting:
    """What a collective moves, how, and among which devices: the groups of each size, one a row."""

    transfer: Transfer
    carried: Carried
    groups: Sequence[Numbers]


class _Run:
    def __init__(
        self, module: Module, topology: Topology, machine: Machine, copies: int, seed: int
    ) -> None:
        self._module, self._machine, self._copies = module, machine, copies
        self._fabric = Fabric(topology)
        self._random = np.random.default_rng(seed)
        self._devices = topology.devices
        self._clock = _Clock(np.zeros(self._devices), np.zeros(self._devices))
        self._computing = 0.0
        self._rows: dict[Instruction, CollectiveRuns] = {}
        self._meetings: dict[Instruction, _Meeting] = {}
        self._seconds: dict[Computation, float] = {}
        self._communicates: set[Computation] = set()
        for comp in module.callees_first():
            if any(synchronous(i) is not None or self._meets_inside(i) for i in comp):
                self._communicates.add(comp)
        self._steps = 0
        self._exact = True

    def result(self) -> Simulation:
        rows = tuple(self._rows.values())
        return Simulation(
            self._devices, float(np.max(self._clock.compute)), self._computing,
            sum(row.waited for row in rows), rows, self._exact,
        )  # fmt: skip

    def _meets_inside(self, inst: Instruction) -> bool:
        return any(c in self._communicates for c in inst.called_computations)

    # --- the schedule ---------------------------------------------------------------------------

    def computation(self, comp: Computation) -> None:
        for inst in comp.in_order():
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise HloError.at(
                    "bad-value", f"the run takes more than {_MOST_STEPS} simulated instructions",
                    None, "without jitter, loops whose iterations are alike are not repeated",
                )  # fmt: skip
            self._instruction(inst)

    def _instruction(self, inst: Instruction) -> None:
        if synchronous(inst) is not None:
            self._collective(inst)
        elif inst.opcode.endswith("-done") and self._begun(inst) in self._clock.pending:
            self._finish(inst)
        elif inst.opcode == "while" and self._meets_inside(inst):
            self._loop(inst)
        elif inst.opcode == "conditional" and self._meets_inside(inst):
            self._branches(inst)
        elif inst.opcode in _CALLS and self._meets_inside(inst):
            self.computation(inst.called_computations[0])
        else:
            self._compute(self._time(inst))

    def _compute(self, seconds: float) -> None:
        if not seconds:
            return
        if self._machine.jitter:
            noise = self._random.standard_normal(self._devices) * self._machine.jitter
            times = seconds * np.maximum(1 + noise, 0)
            self._clock.compute = self._clock.compute + times
            self._computing += float(np.mean(times))
        else:
            self._clock.compute = self._clock.compute + seconds
            self._computing += seconds

    def _time(self, inst: Instruction) -> float:
        """Return how long an instruction without communication takes."""
        if inst.opcode == "while":
            trips = self._trips(inst)
            return trips * self._of(inst.body) + (trips + 1) * self._of(inst.condition)
        if inst.opcode == "conditional":
            self._exact = False
            return max(map(self._of, inst.called_computations))
        if inst.opcode in _CALLS:
            return self._of(inst.called_computations[0])
        return self._machine.seconds(cost_of_instruction(inst))

    def _of(self, comp: Computation) -> float:
        if comp not in self._seconds:
            self._seconds[comp] = sum(map(self._time, comp))
        return self._seconds[comp]

    def _trips(self, loop: Instruction) -> int:
        trips = trip_count(loop)
        self._exact &= trips is not None
        return 1 if trips is None else trips

    def _loop(self, loop: Instruction) -> None:
        left = self._trips(loop)
        by: float | None = None
        self.computation(loop.condition)
        while left:
            before, counted = self._clock.copy(), self._counted()
            self.computation(loop.body)
            self.computation(loop.condition)
            left -= 1
            by, last = self._clock.later_than(before), by
            alike = by is not None and last is not None and np.isclose(by, last, rtol=_ALIKE)
            if alike and by is not None and not self._machine.jitter:
                self._repeat(left, by, counted)
                return

    def _repeat(self, times: int, seconds: float, before: Sequence[float]) -> None:
        """Add iterations like the last one.

        seconds: of one. before: what had been counted at its start.
        """
        clock = self._clock
        clock.compute = clock.compute + times * seconds
        clock.network = clock.network + times * seconds
        now = self._counted()
        grown = [b + (1 + times) * (n - b) for b, n in zip(_padded(before, now), now, strict=True)]
        self._computing = grown[0]
        rows = list(self._rows.values())
        for n, row in enumerate(rows):
            row.count, row.seconds, row.waited, row.sent_bytes = grown[1 + 4 * n : 5 + 4 * n]

    def _counted(self) -> list[float]:
        counted = [self._computing]
        for row in self._rows.values():
            counted += row.count, row.seconds, row.waited, row.sent_bytes
        return counted

    def _branches(self, inst: Instruction) -> None:
        """Run the branch that takes longest."""
        self._exact = False
        start = self._clock, self._rows, self._computing
        ends = []
        for comp in inst.called_computations:
            clock, rows, self._computing = start
            self._clock = clock.copy()
            self._rows = {i: replace(row) for i, row in rows.items()}
            self.computation(comp)
            ends.append((self._clock, self._rows, self._computing))
        longest = max(ends, key=lambda end: float(np.max(end[0].compute)))
        self._clock, self._rows, self._computing = longest

    # --- collectives ----------------------------------------------------------------------------

    def _collective(self, inst: Instruction) -> None:
        clock = self._clock
        meeting = self._meeting(inst)
        free = np.maximum(clock.compute, clock.network)
        ends = free.copy()
        for group in meeting.groups:
            if meeting.transfer.opcode == PERMUTE:
                # A device has sent, and received what the other one could send.
                sources, targets = group.T
                ends[sources] = free[sources] + meeting.carried.seconds
                both = np.maximum(free[sources], free[targets])
                ends[targets] = np.maximum(ends[targets], both + meeting.carried.seconds)
            else:
                last = np.max(free[group], axis=1, keepdims=True)
                ends[group] = last + meeting.carried.seconds
        clock.network = np.where(ends > free, ends, clock.network)
        row = self._rows.get(inst)
        if row is None:
            row = CollectiveRuns(inst, meeting.transfer, meeting.carried.algorithm)
            self._rows[inst] = row
        row.count += 1
        row.seconds += meeting.carried.seconds
        row.sent_bytes += meeting.carried.sent
        if synchronous(inst) is inst and not inst.opcode.endswith("-start"):
            self._wait(row, ends)
        else:
            clock.pending[inst] = ends

    def _begun(self, inst: Instruction) -> Instruction:
        start = inst.operands[0]
        while start.opcode == "async-update":
            start = start.operands[0]
        return start

    def _finish(self, inst: Instruction) -> None:
        start = self._begun(inst)
        self._wait(self._rows[start], self._clock.pending.pop(start))

    def _wait(self, row: CollectiveRuns, ends: Numbers) -> None:
        now = self._clock.compute
        later = np.maximum(now, ends)
        row.waited += float(np.mean(later - now))
        self._clock.compute = later

    def _meeting(self, inst: Instruction) -> _Meeting:
        if inst not in self._meetings:
            collective = synchronous(inst)
            assert collective is not None
            counts, groups = self._groups(collective)
            transfer = transfer_of(inst, counts)
            assert transfer is not None
            if transfer.opcode == PERMUTE:
                carried = self._fabric.permute(groups, transfer.bytes)
            else:
                carried = self._fabric.collective(transfer, groups)
            self._meetings[inst] = _Meeting(transfer, carried, by_size(groups))
        return self._meetings[inst]

    def _groups(self, inst: Instruction) -> tuple[tuple[int, int], Sequence[Sequence[int]]]:
        """Return the numbers of replicas and partitions that groups are of, and the groups of all
        devices."""
        replicas, partitions = self._module.device_counts
        listed = "source_target_pairs" in inst.attrs or inst.replica_groups.count
        if listed or self._copies == 1:
            own = all_groups(inst, (replicas, partitions))
            each = replicas * partitions
            groups = [[n + c * each for n in g] for c in range(self._copies) for g in own]
            return (replicas, partitions), groups
        wide = replicas * self._copies, partitions
        reach, before = all_groups(inst, wide), all_groups(inst, (replicas, partitions))
        if len(reach[0]) != len(before[0]) and inst.opcode not in _OF_ANY_GROUP:
            raise HloError.at(
                "bad-value",
                f"devices={self._devices}: the shape of {inst.name} depends on the number of "
                f"replicas, which is {replicas}",
                inst.span, f"devices={replicas * partitions}, or a module for more replicas",
            )  # fmt: skip
        return wide, reach


# Collectives whose shapes do not depend on the size of the group.
_OF_ANY_GROUP = frozenset(
    {"all-reduce", "all-reduce-start", "collective-broadcast", "collective-reduce"}
)


def _padded(values: Sequence[float], to: Sequence[float]) -> list[float]:
    """Return values with zeros for those that were not there yet."""
    return [*values, *[0.0] * (len(to) - len(values))]
