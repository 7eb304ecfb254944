"""What a run of a module takes on a GPU, kernel by kernel, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlo.compiler.gpu_cost import GpuCost, gpu_cost
from hlo.gpu.model import KernelEstimate, device_named
from hlo.ir import Module
from hlo.reports.numbers import (
    bytes_text,
    count_text,
    microseconds_text,
    percent_text,
    table,
)

_HEAD = (
    "kernel", "runs", "blocks", "threads", "regs", "shared", "occupancy", "operations",
    "tensor ops", "tensor peak", "bytes", "us each", "roof", "bound by",
)  # fmt: skip
_LEFT = (0, len(_HEAD) - 1)


@dataclass(frozen=True, repr=False)
class GpuReport:
    """The kernels of a run on a GPU, those that take longest first; prints as a table.

    >>> import hlo
    >>> module = hlo.parse("f32[8] sqrt(f32[8] x)")
    >>> gpu_report(module, "h100").cost.estimate.launches
    1
    """

    cost: GpuCost

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as dictionaries and numbers, as `--cost --device --json` prints it."""
        total, spills = self.cost.estimate, self.cost.spills
        return {
            "module": self.cost.module,
            "device": total.device.name,
            "registers": self._registers,
            "kernels": [self._row(k, spills) for k in self.kernels],
            "launches": total.launches,
            "copies": total.copies,
            "host_calls": total.host_calls,
            "bytes": total.global_bytes,
            "memory_bytes": self.cost.memory_bytes,
            "operations": {unit.value: n for unit, n in total.operations.items()},
            "tensor_share": total.tensor_share,
            "seconds": total.seconds,
            "roof_seconds": total.roof_seconds,
            "exact": total.is_exact,
            "warnings": self.warnings,
        }

    @property
    def warnings(self) -> list[str]:
        """What a kernel writer would look at."""
        found = [
            f"{name}: {size} bytes of spilled registers" for name, size in self.cost.spills.items()
        ]
        need, there = self.cost.memory_bytes, self.cost.estimate.device.memory_bytes
        if need > there:
            sizes = bytes_text(need), bytes_text(there)
            found.append("the module needs {} of memory, and the device has {}".format(*sizes))
        for kernel in self.kernels:
            if not kernel.occupancy.blocks:
                limit = kernel.occupancy.limit
                found.append(f"{kernel.launch.kernel}: a block takes more {limit} than there is")
        return found

    @property
    def _registers(self) -> str:
        return "ptxas" if self.cost.resources is not None else "estimate"

    @property
    def kernels(self) -> list[KernelEstimate]:
        """The kernels, those that take longest first."""
        return sorted(self.cost.estimate.kernels, key=lambda k: -k.runs * k.seconds)

    def _row(self, k: KernelEstimate, spills: dict[str, int]) -> dict[str, Any]:
        launch = k.launch
        return {
            "kernel": launch.kernel,
            "instruction": launch.instruction,
            "runs": k.runs,
            "blocks": launch.blocks,
            "threads": launch.threads,
            "registers": k.block.registers,
            "shared_bytes": k.block.shared_bytes,
            "spill_bytes": spills.get(launch.kernel, 0),
            "occupancy": k.occupancy.share,
            "limit": k.occupancy.limit,
            "bytes": launch.work.global_bytes,
            "operations": {unit.value: n for unit, n in launch.work.operations},
            "tensor_share": k.tensor_share,
            "tensor_peak_share": k.tensor_peak_share,
            "seconds": k.seconds,
            "roof_seconds": k.roof_seconds,
            "bound": k.bound,
        }

    def __repr__(self) -> str:
        total = self.cost.estimate
        rows = [_HEAD, *map(_cells, self.kernels)]
        more = "" if total.is_exact else ", or more: a loop or branch is not known"
        roof = total.roof_seconds / total.seconds if total.seconds else 1.0
        return "\n".join([
            f"{self.cost.module} on {total.device.name}, estimated; registers: {self._registers}",
            *table(rows, _LEFT),
            "",
            f"  launches       {total.launches}{more}",
            f"  copies         {total.copies}, {bytes_text(total.copied_bytes)}",
            *([f"  host calls     {total.host_calls}, not timed"] if total.host_calls else []),
            f"  memory         {bytes_text(self.cost.memory_bytes)}",
            f"  traffic        {bytes_text(total.global_bytes)}",
            f"  operations     {count_text(sum(total.operations.values()))}, "
            f"{percent_text(total.tensor_share)} on tensor cores",
            f"  time           {microseconds_text(total.seconds)} us",
            f"  roof           {microseconds_text(total.roof_seconds)} us, "
            f"{percent_text(roof)} of it",
            *(f"  warning: {said}" for said in self.warnings),
        ])  # fmt: skip


def gpu_report(
    module: Module, device: str, *, passes: str = "default", verify: str = "strict"
) -> GpuReport:
    """Return what a run of a module takes on a GPU by name, `h100`. Raises HloError.

    passes, verify: as for `hlo.compile`.
    """
    return GpuReport(gpu_cost(module, device_named(device), passes=passes, verify=verify))


def _cells(k: KernelEstimate) -> tuple[str, ...]:
    launch, work = k.launch, k.launch.work
    tensor = work.tensor_operations
    return (
        launch.kernel, str(k.runs), str(launch.blocks), str(launch.threads),
        str(k.block.registers), bytes_text(k.block.shared_bytes),
        percent_text(k.occupancy.share), count_text(work.all_operations),
        percent_text(k.tensor_share) if tensor else "",
        percent_text(k.tensor_peak_share) if tensor else "",
        bytes_text(work.global_bytes), microseconds_text(k.seconds), percent_text(k.roof_share),
        k.bound,
    )  # fmt: skip
