"""How long the steps of a launch plan take on a GPU, by what they move and compute.

A kernel takes as long as the unit that it keeps busy the longest: memory, second-level cache,
shared memory, tensor cores or the others, each at its rate; in the multiprocessor with the most
blocks. Besides, few threads cannot keep memory busy, and what one thread does takes its time. A
launch and the first access to memory come on top. Nothing is said of bank conflicts, of accesses
that do not coalesce, or of data that a cache still holds from the kernel before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hlo.gpu.model.devices import GpuModel
from hlo.gpu.model.occupancy import Occupancy, Residents, occupancy
from hlo.gpu.plan import Copy, HostCall, Launch, LaunchPlan, Step, Switch, While
from hlo.gpu.work import Unit, Work

# Bytes that a thread waits for at a time, beside what is copied to shared memory meanwhile.
_IN_FLIGHT = 16
# Clocks of an operation of a thread whose result the next one needs; multiplication and addition
# are one instruction.
_DEPENDENT_CLOCKS = 2
_LAUNCH, _LATENCY = "launch", "latency"


@dataclass(frozen=True)
class KernelEstimate:
    """Launches of one kernel on equal grids.

    runs: how many. seconds, roof_seconds: of one, as estimated, and if the device did at its full
    rate what has to be done. bound: what takes the time. tensor_peak_share: of the peak of the
    tensor cores, as the data sheet has it, that they reach; the launch does not count.
    """

    launch: Launch
    runs: int
    block: Residents
    occupancy: Occupancy
    seconds: float
    roof_seconds: float
    bound: str
    tensor_peak_share: float

    @property
    def tensor_share(self) -> float:
        """Which part of all operations tensor cores do."""
        work = self.launch.work
        return work.tensor_operations / work.all_operations if work.all_operations else 0.0

    @property
    def roof_share(self) -> float:
        """Which part of the estimated time the roof is."""
        return self.roof_seconds / self.seconds if self.seconds else 1.0


@dataclass(frozen=True)
class Estimate:
    """A run of a program. is_exact: false if a loop of unknown length counts as one turn.

    copies, host_calls: how many; what the host does is not in `seconds`.
    """

    device: GpuModel
    kernels: tuple[KernelEstimate, ...]
    copies: int
    copied_bytes: int
    host_calls: int
    is_exact: bool

    @property
    def launches(self) -> int:
        """How many kernels run."""
        return sum(k.runs for k in self.kernels)

    @property
    def global_bytes(self) -> int:
        """The bytes that are read from and written to memory."""
        return 2 * self.copied_bytes + sum(
            k.runs * k.launch.work.global_bytes for k in self.kernels
        )

    @property
    def operations(self) -> Mapping[Unit, int]:
        """The operations of each unit."""
        found: Counter[Unit] = Counter()
        for k in self.kernels:
            for unit, count in k.launch.work.operations:
                found[unit] += k.runs * count
        return found

    @property
    def tensor_share(self) -> float:
        """Which part of all operations tensor cores do."""
        total = sum(self.operations.values())
        tensor = sum(n for unit, n in self.operations.items() if unit.is_tensor)
        return tensor / total if total else 0.0

    @property
    def seconds(self) -> float:
        """The time of a run."""
        return self._copy_seconds + sum(k.runs * k.seconds for k in self.kernels)

    @property
    def roof_seconds(self) -> float:
        """The time at the device's full rates, without launches."""
        copied = 2 * self.copied_bytes / self.device.memory_bandwidth
        return copied + sum(k.runs * k.roof_seconds for k in self.kernels)

    @property
    def _copy_seconds(self) -> float:
        device = self.device
        fixed = self.copies * (device.launch_seconds + device.latency_seconds)
        return fixed + 2 * self.copied_bytes / device.memory_bandwidth


def estimate(plan: LaunchPlan, device: GpuModel, blocks: Mapping[str, Residents]) -> Estimate:
    """Return the estimate of a run. blocks: what a block of each kernel takes, by name; its shared
    memory is the static one."""
    runs = _Runs()
    runs.add(plan.steps, 1)
    kernels = []
    for launch, count in runs.launches.items():
        said = blocks[launch.kernel]
        block = Residents(launch.threads, said.registers, said.shared_bytes + launch.shared_bytes)
        kernels.append(_kernel(launch, count, block, device))
    return Estimate(
        device, tuple(kernels), runs.copies, runs.copied_bytes, runs.host_calls, runs.is_exact
    )


class _Runs:
    """What runs how often."""

    def __init__(self) -> None:
        self.launches: Counter[Launch] = Counter()
        self.copies = self.copied_bytes = self.host_calls = 0
        self.is_exact = True

    def add(self, steps: Sequence[Step], times: int) -> None:
        """Count steps that run so many times."""
        for step in steps:
            match step:
                case Launch():
                    self.launches[_anywhere(step)] += times
                case Copy():
                    self.copies += times
                    self.copied_bytes += times * step.size
                case While():
                    turns = 1 if step.trips is None else step.trips
                    self.is_exact = self.is_exact and step.trips is not None
                    self.add(step.body, times * turns)
                    if step.trips is None:
                        self.add(step.condition, times * (turns + 1))
                case Switch():
                    self.is_exact = False
                    self.add(max(step.branches, key=_bytes, default=()), times)
                case HostCall():
                    self.host_calls += times


def _anywhere(launch: Launch) -> Launch:
    """Return a launch without what tells it from equal ones elsewhere in memory."""
    return Launch(
        launch.kernel, launch.blocks, launch.threads, (), launch.shared_bytes, launch.instruction,
        launch.work,
    )  # fmt: skip


def _bytes(steps: Sequence[Step]) -> int:
    """Return what the launches of a branch move: the dearest one counts."""
    return sum(s.work.global_bytes for s in steps if isinstance(s, Launch))


def _kernel(launch: Launch, runs: int, block: Residents, device: GpuModel) -> KernelEstimate:
    work, held = launch.work, occupancy(block, device)
    times = dict(_times(launch, block, held, device))
    bound = max(times, key=times.__getitem__)
    fixed = device.launch_seconds + work.rounds * device.latency_seconds
    busy = times[bound]
    roof = max([work.global_bytes / device.memory_bandwidth, *_at_full_rate(work, device)])
    peak = max(
        (n / device.rate(u) for u, n in work.operations if u.is_tensor and device.rate(u)),
        default=0.0,
    )
    return KernelEstimate(
        launch, runs, block, held, fixed + busy, roof, bound if busy > fixed else _fixed(work),
        peak / busy if peak else 0.0,
    )  # fmt: skip


def _fixed(work: Work) -> str:
    """Return what takes the time of a kernel that keeps no unit busy."""
    return _LATENCY if work.rounds > 1 else _LAUNCH


def _at_full_rate(work: Work, device: GpuModel) -> Iterator[float]:
    for unit, count in work.operations:
        if device.rate(unit):
            yield count / device.rate(unit)


def _times(
    launch: Launch, block: Residents, held: Occupancy, device: GpuModel
) -> Iterator[tuple[str, float]]:
    """Yield how long each unit takes."""
    work, blocks, count = launch.work, max(1, launch.blocks), device.multiprocessors
    # The multiprocessor with the most blocks works on for so many times its fair share.
    uneven = math.ceil(blocks / count) * count / blocks
    resident = min(blocks, max(1, held.blocks) * count)
    in_flight = resident * (block.threads * _IN_FLIGHT + launch.shared_bytes)
    rate = min(device.memory_bandwidth, in_flight / device.latency_seconds)
    yield "memory", work.global_bytes / rate
    cached = work.cached_bytes or work.global_bytes
    yield "L2", cached / (device.l2_bytes_per_clock * device.clock_hz)
    shared = device.shared_bytes_per_clock * device.clock_hz * count
    yield "shared memory", uneven * work.shared_bytes / shared
    for unit, operations in work.operations:
        full = device.rate(unit)
        if unit.is_tensor:
            full *= device.mma_share
            if full:
                yield unit.value, uneven * operations / full
            continue
        threads = blocks * launch.threads
        serial = _DEPENDENT_CLOCKS * operations / threads / device.clock_hz
        turns = math.ceil(blocks / max(1, held.blocks * count))
        if full:
            busy = uneven * operations / full
            yield unit.value, busy
            if serial * turns > busy:
                yield f"{unit.value}, few threads", serial * turns
