"""The model of speed: how long a launch plan takes on a GPU that need not be here."""

from __future__ import annotations

from hlo.gpu.model.devices import DEVICES, GpuModel, device_named
from hlo.gpu.model.estimate import Estimate, KernelEstimate, estimate
from hlo.gpu.model.occupancy import Occupancy, Residents, occupancy

__all__ = [
    "DEVICES", "Estimate", "GpuModel", "KernelEstimate", "Occupancy", "Residents", "device_named",
    "estimate", "occupancy",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
