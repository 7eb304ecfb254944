"""Kernels, or instructions, by arithmetic intensity, against what a machine can do at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hlo.analysis.cost import costs_of_module
from hlo.analysis.executions import executions_of
from hlo.analysis.simulation.machine import Machine
from hlo.ir import Module
from hlo.ir.calls import applied_computations
from hlo.reports.html.times import entries_of

_MOST = 600


def roofline(module: Module, profile: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the data of the chart: peaks, and points of name, FLOP, bytes and seconds of a run.

    With a profile the points are its kernels, and its peaks the measured ones. Without one they
    are the instructions, at the time that they take at least, and the peaks are those of the
    machine that simulations have by default. The dearest points are kept.
    """
    peak = profile.get("peak") if profile is not None else None
    machine = Machine()
    peaks: dict[str, Any] = {
        "flops": {"": machine.flops}, "bytes": machine.memory_bandwidth, "from": str(machine),
        "is_measured": False,
    }  # fmt: skip
    if isinstance(peak, Mapping) and peak.get("flops") and peak.get("bytes"):
        cpu, threads = peak.get("cpu", ""), peak.get("threads", 1)
        peaks = {"flops": dict(peak["flops"]), "bytes": peak["bytes"],
                 "from": f"measured on {cpu}, threads: {threads}", "is_measured": True}  # fmt: skip
    points = _kernels(profile) if profile is not None else _instructions(module, machine)
    points.sort(key=lambda p: -p[3])
    return {
        "peaks": peaks,
        "is_profile": profile is not None,
        "points": points[:_MOST],
        "omitted": max(0, len(points) - _MOST),
    }


Point = tuple[str, float, float, float, str]


def _kernels(profile: Mapping[str, Any]) -> list[Point]:
    found: list[Point] = []
    for entry in entries_of(profile):
        flops = entry.get("operations", 0) + entry.get("transcendentals", 0)
        if flops > 0 and entry.get("bytes", 0) > 0 and entry["self_s"] > 0:
            found.append(
                (entry["name"], flops, entry["bytes"], entry["self_s"], entry.get("opcode", ""))
            )
    return found


def _instructions(module: Module, machine: Machine) -> list[Point]:
    runs = executions_of(module)
    scalars = set(applied_computations(module))
    found: list[Point] = []
    for inst, cost in costs_of_module(module).items():
        times = 0 if inst.parent is None or inst.parent in scalars else runs[inst.parent].count
        work = cost.operations + cost.transcendentals
        # What calls others is counted by what it calls, but for fusions: those are the kernels.
        if inst.called_computations and inst.opcode in ("while", "conditional", "call"):
            continue
        if times and work and cost.bytes:
            seconds = machine.seconds(cost.times(times))
            found.append((inst.name, work * times, cost.bytes * times, seconds, inst.opcode))
    return found
