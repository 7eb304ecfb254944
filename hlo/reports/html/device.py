"""What a run of a module takes on a GPU that need not be here, as a report has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hlo.gpu.work import Unit
from hlo.ir import Module
from hlo.reports.gpu import GpuReport
from hlo.reports.html.roofline import Peaks
from hlo.reports.numbers import bytes_text, microseconds_text, percent_text

Cells = tuple[object, ...]

KERNEL_HEADS = (
    "kernel", "runs", "us in all", "share", "bound by", "roof", "tensor ops", "tensor peak",
    "occupancy", "bytes",
)  # fmt: skip
KERNEL_NUMBERS = (1, 2, 3, 5, 6, 7, 8, 9)


def device_profile(module: Module, found: GpuReport) -> Mapping[str, Any]:
    """Return the estimate in the form of a profile.

    Entries are named after the instructions of the module that they compute, where passes have kept
    the names, and else after their kernels. `bound`: what takes the time of each.
    """
    total, opcodes = found.cost.estimate, _opcodes(module)
    copies = total.seconds - sum(k.runs * k.seconds for k in found.kernels)
    return {
        "module": module.name,
        "entries": [
            {
                "name": k.launch.instruction or k.launch.kernel, "kind": "kernel",
                "self_s": k.runs * k.seconds, "operations": k.runs * k.launch.work.all_operations,
                "bytes": k.runs * k.launch.work.global_bytes, "bound": k.bound,
                "opcode": opcodes.get(k.launch.instruction, ""),
            }
            for k in found.kernels
        ] + ([{"name": "copies", "kind": "call", "self_s": copies}] if total.copies else []),
    }  # fmt: skip


def device_peaks(found: GpuReport) -> Peaks:
    """Return the peaks of the device, of the units that the kernels use."""
    total = found.cost.estimate
    device = total.device
    rates = {unit.value: device.rate(unit) for unit in total.operations if device.rate(unit)}
    rates = rates or {Unit.F32.value: device.rate(Unit.F32)}
    return Peaks(rates, device.memory_bandwidth, device.name, False)


def device_facts(found: GpuReport) -> list[tuple[str, str]]:
    """Return what the summary says of a run on the device."""
    total = found.cost.estimate
    more = "" if total.is_exact else " or more"
    need, there = bytes_text(found.cost.memory_bytes), bytes_text(total.device.memory_bytes)
    host = f", {total.host_calls} calls of the host not timed" if total.host_calls else ""
    return [
        ("Device, estimated", total.device.name),
        ("Launches", f"{total.launches:,}{more}{host}"),
        ("Memory of the device", f"{need} of {there}"),
        ("Traffic of the device", bytes_text(total.global_bytes)),
        ("Operations on tensor cores", percent_text(total.tensor_share)),
    ]  # fmt: skip


def kernel_rows(found: GpuReport) -> list[Cells]:
    """Return a row for each kernel, those that take longest first."""
    whole = sum(k.runs * k.seconds for k in found.kernels)
    rows: list[Cells] = []
    for k in found.kernels:
        seconds, work = k.runs * k.seconds, k.launch.work
        tensor = work.tensor_operations
        rows.append((
            k.launch.kernel, (f"{k.runs:,}", k.runs), (microseconds_text(seconds), seconds),
            _share(seconds / whole if whole else 0.0), k.bound, _share(k.roof_share),
            _share(k.tensor_share) if tensor else ("", -1),
            _share(k.tensor_peak_share) if tensor else ("", -1), _share(k.occupancy.share),
            (bytes_text(work.global_bytes), work.global_bytes),
        ))  # fmt: skip
    return rows


def _share(share: float) -> tuple[str, float]:
    return percent_text(share), share


def _opcodes(module: Module) -> dict[str, str]:
    """Return the opcode of each name that one instruction has."""
    found: dict[str, str] = {}
    twice = set()
    for inst in module.instructions():
        if inst.name in found:
            twice.add(inst.name)
        found[inst.name] = inst.opcode
    return {name: opcode for name, opcode in found.items() if name not in twice}
