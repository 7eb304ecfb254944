"""Kernels, or instructions, by arithmetic intensity, against what a machine can do at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hlo.analysis.cost import Cost, costs_of_module
from hlo.analysis.executions import executions_of
from hlo.analysis.simulation.machine import Machine
from hlo.errors import HloError
from hlo.ir import Instruction, Module
from hlo.ir.calls import applied_computations
from hlo.profiler.records import Peak
from hlo.profiler.roofline import machine_peak, measured_like
from hlo.reports.html.times import entries_of
from hlo.values.types import ArrayShape, Shape

_MOST = 600


@dataclass(frozen=True)
class Peaks:
    """What a machine can do: operations a second by element type, "" for any, and bytes a second.

    origin: the machine, in words. is_measured: False for a machine that is only stated.
    """

    flops: Mapping[str, float]
    bytes: float
    origin: str
    is_measured: bool

    def seconds(self, cost: Cost, shape: Shape) -> float:
        """Return the least time of operations with results of a shape, and their memory traffic."""
        flops = self.flops.get(_measured_type(shape), max(self.flops.values()))
        return max((cost.operations + cost.transcendentals) / flops, cost.bytes / self.bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the data of the chart's lines."""
        return {
            "flops": dict(self.flops), "bytes": self.bytes, "from": self.origin,
            "is_measured": self.is_measured,
        }  # fmt: skip


def peaks_of(module: Module, profile: Mapping[str, Any] | None) -> Peaks:
    """Return the peaks of a profile, or of this machine, measured once and kept on disk.

    Where they cannot be measured, those of the machine that simulations have by default.
    """
    peak = profile.get("peak") if profile is not None else None
    if isinstance(peak, Mapping) and peak.get("flops") and peak.get("bytes"):
        found = Peak(
            peak.get("cpu", ""), peak.get("threads", 1), dict(peak["flops"]), peak["bytes"]
        )
        return _measured(found)
    try:
        types = _types(module)
        peak = machine_peak(element_types=types)
        return _measured(replace(peak, flops={t: peak.flops[t] for t in sorted(types)}))
    except HloError:
        machine = Machine()
        return Peaks({"": machine.flops}, machine.memory_bandwidth, str(machine), False)


def _measured(peak: Peak) -> Peaks:
    origin = f"measured on {peak.cpu}, threads: {peak.threads}"
    return Peaks(peak.flops, peak.bytes, origin, True)


def _types(module: Module) -> set[str]:
    """Return the types that stand for the arithmetic of a module."""
    costs = costs_of_module(module)
    return {_measured_type(i.shape) for i, c in costs.items() if c.operations} or {"f32"}


def _measured_type(shape: Shape) -> str:
    leaf = next((leaf for _, leaf in shape.leaves() if isinstance(leaf, ArrayShape)), None)
    return measured_like("f32" if leaf is None else str(leaf.element_type))


def roofline(
    module: Module, profile: Mapping[str, Any] | None, peaks: Peaks, *, is_estimate: bool = False
) -> dict[str, Any]:
    """Return the data of the chart: peaks, and points of name, FLOP, bytes and seconds of a run.

    With a profile the points are its kernels. Without one they are the instructions, at the time
    that they take at least. is_estimate: the profile is estimated. The costliest points are kept.
    """
    points = _kernels(profile) if profile is not None else _points(module, peaks)
    points.sort(key=lambda p: -p[3])
    return {
        "peaks": peaks.to_json(),
        "is_profile": profile is not None,
        "is_estimate": is_estimate,
        "points": points[:_MOST],
        "omitted": max(0, len(points) - _MOST),
    }


# Name, FLOP, bytes, seconds, opcode, and what takes the time where that is known.
Point = tuple[str, float, float, float, str, str]


def _kernels(profile: Mapping[str, Any]) -> list[Point]:
    found: list[Point] = []
    for entry in entries_of(profile):
        flops = entry.get("operations", 0) + entry.get("transcendentals", 0)
        if flops > 0 and entry.get("bytes", 0) > 0 and entry["self_s"] > 0:
            found.append((
                entry["name"], flops, entry["bytes"], entry["self_s"], entry.get("opcode", ""),
                entry.get("bound", ""),
            ))  # fmt: skip
    return found


def _points(module: Module, peaks: Peaks) -> list[Point]:
    return [
        (inst.name, cost.operations + cost.transcendentals, cost.bytes,
         peaks.seconds(cost, inst.shape), inst.opcode, "")
        for inst, cost in _costs(module)
        if cost.operations + cost.transcendentals and cost.bytes
    ]  # fmt: skip


def estimated_seconds(module: Module, peaks: Peaks) -> dict[Instruction, float]:
    """Return the least time of each instruction in a run, unfused."""
    return {inst: peaks.seconds(cost, inst.shape) for inst, cost in _costs(module)}


def _costs(module: Module) -> Iterator[tuple[Instruction, Cost]]:
    """Yield the instructions that run, each with its cost in all its executions."""
    runs = executions_of(module)
    scalars = set(applied_computations(module))
    for inst, cost in costs_of_module(module).items():
        times = 0 if inst.parent is None or inst.parent in scalars else runs[inst.parent].count
        # What calls others is counted by what it calls, but for fusions: those are the kernels.
        if inst.called_computations and inst.opcode in ("while", "conditional", "call"):
            continue
        if times and (cost.operations or cost.transcendentals or cost.bytes):
            yield inst, cost.times(times)
