"""Simulated runs of partitioned modules, as `hlo-opt --simulate` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hlo.analysis.devices import needs_partitioning, unused_devices
from hlo.analysis.memory import peak_memory, shape_bytes
from hlo.analysis.simulation.machine import Machine
from hlo.analysis.simulation.simulator import CollectiveRuns, Simulation, copies_of, simulate
from hlo.analysis.simulation.topology import Links, Topology, topology_named
from hlo.compiler.partition import partition
from hlo.errors import HloError
from hlo.ir import Module
from hlo.reports.numbers import bytes_text, table
from hlo.support.quantities import (
    quantity_text,
    read_count,
    read_positive,
    read_quantity,
    read_settings,
)

# Clocks of devices are vectors of so many.
_MOST_DEVICES = 1 << 16
_UNITS = {
    "bandwidth": "B/s", "latency": "s", "node_bandwidth": "B/s", "node_latency": "s",
    "oversubscription": "", "flops": "FLOP/s", "memory_bandwidth": "B/s", "overhead": "s",
    "jitter": "",
}  # fmt: skip
_MAY_BE_ZERO = frozenset({"latency", "node_latency", "overhead", "jitter"})
_LINKS = frozenset(f.name for f in fields(Links))


@dataclass(frozen=True)
class Setup:
    """The machines of a simulation. devices, None: as many as the module is for."""

    devices: int | None = None
    topology: str = "switch"
    links: Links = field(default_factory=Links)
    machine: Machine = field(default_factory=Machine)
    seed: int = 0


def read_setup(text: str, flag: str = "--simulate") -> Setup:
    """Return the machines given as `devices=4096,topology=torus3d,bandwidth=50GB/s,...`.

    What is left out has its default. flag: what the text is of, in errors. Raises HloError.
    """
    known = ("devices", "topology", *_UNITS, "seed")
    given = read_settings(text, flag, dict.fromkeys(known))
    numbers = {}
    for name, value in given.items():
        what = f"{flag}: {name.replace('_', '-')}"
        if name in _UNITS:
            read = read_quantity if name in _MAY_BE_ZERO else read_positive
            numbers[name] = read(value, _UNITS[name], what)
    devices, seed = given.get("devices"), given.get("seed", "0")
    return Setup(
        None if devices is None else read_count(devices, 1, _MOST_DEVICES, f"{flag}: devices"),
        given.get("topology", "switch"),
        Links(**{k: v for k, v in numbers.items() if k in _LINKS}),
        Machine(**{k: v for k, v in numbers.items() if k not in _LINKS}),
        read_count(seed, 0, 1 << 32, f"{flag}: seed"),
    )


@dataclass(frozen=True)
class SimulatedRun:
    """A simulated run, with the memory that each device needs; prints as tables.

    copies: how many of the module run side by side, as further replicas. partitioned: whether the
    module was on whole arrays, and was partitioned by its shardings.
    """

    module: str
    device_counts: tuple[int, int]
    copies: int
    machine: Machine
    topology: Topology
    simulation: Simulation
    argument_bytes: int
    peak_bytes: int
    peak_at: str | None
    partitioned: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as dictionaries and numbers, as `--json` prints it."""
        run = self.simulation
        return {
            "module": self.module,
            "devices": run.devices,
            "copies": self.copies,
            "topology": str(self.topology),
            "machine": asdict(self.machine),
            "seconds": run.seconds,
            "computing": run.computing,
            "waiting": run.waiting,
            "communicating": run.communicating,
            "exact": run.exact,
            "argument_bytes": self.argument_bytes,
            "peak_bytes": self.peak_bytes,
            "collectives": [
                {
                    "name": c.instruction.name, "opcode": c.transfer.opcode,
                    "members": c.transfer.members, "algorithm": c.algorithm, "runs": c.count,
                    "sent_bytes": c.sent_bytes, "seconds": c.seconds, "waited": c.waited,
                }
                for c in run.collectives
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        run = self.simulation
        copies = f"{self.copies} copies of " if self.copies > 1 else ""
        own = " x ".join(
            f"{n} {what}{'' if n == 1 else 's'}"
            for n, what in zip(self.device_counts, ("replica", "partition"), strict=True)
        )
        seconds, more = quantity_text(run.seconds, "s"), "" if run.exact else " or more"
        lines = [
            f"{self.module}: {run.devices} devices ({copies}{own})"
            + (", partitioned by its shardings" if self.partitioned else ""),
            f"  network     {self.topology}",
            f"  device      {self.machine}",
            f"  time        {seconds} a run{more}",
            f"  computing   {_part(run.computing, run.seconds)}",
            f"  waiting     {_part(run.waiting, run.seconds)}, for collectives that take "
            f"{quantity_text(run.communicating, 's')}",
            f"  memory      {bytes_text(self.peak_bytes)} a device, unfused, at {self.peak_at}; "
            f"arguments {bytes_text(self.argument_bytes)}",
        ]
        if run.collectives:
            lines += ["", "collectives, on each device", *_rows(run.collectives)]
        return "\n".join(lines)


def _rows(collectives: Sequence[CollectiveRuns]) -> list[str]:
    head = ("", "", "devices", "runs", "sent each", "takes", "waited", "algorithm")
    cells = [
        (c.transfer.opcode, c.instruction.name, str(c.transfer.members), f"{c.count:.0f}",
         bytes_text(round(c.sent_bytes)), quantity_text(c.seconds, "s"),
         quantity_text(c.waited, "s"), c.algorithm)
        for c in sorted(collectives, key=lambda c: (-c.waited, -c.seconds))
    ]  # fmt: skip
    return table([head, *cells], left=(0, 1, 7))


def _part(seconds: float, whole: float) -> str:
    share = f"{100 * seconds / whole:.1f}" if whole else "0"
    return f"{quantity_text(seconds, 's')} ({share} %)"


def simulated_run(module: Module, setup: Setup) -> SimulatedRun:
    """Return a simulated run of a module, which is partitioned by its shardings if it has any.

    Raises HloError for shardings that do not fit, and for numbers of devices that do not fit it.
    """
    is_whole = "shardings" in unused_devices(module) or needs_partitioning(module)
    if is_whole:
        has_partitions = module.device_counts[1] > 1
        module = partition(module, None if has_partitions else setup.devices).module
    replicas, partitions = module.device_counts
    devices = replicas * partitions if setup.devices is None else setup.devices
    if devices > _MOST_DEVICES:
        raise HloError.at("bad-value", f"devices={devices}: {_MOST_DEVICES} at most are simulated")
    copies = copies_of(module, devices)
    topology = topology_named(setup.topology, devices, setup.links)
    peak = peak_memory(module.entry)
    return SimulatedRun(
        module.name, module.device_counts, copies, setup.machine, topology,
        simulate(module, topology, setup.machine, setup.seed),
        sum(map(shape_bytes, module.entry.parameter_shapes)),
        peak.bytes, peak.at.name if peak.at is not None else None, is_whole,
    )  # fmt: skip
