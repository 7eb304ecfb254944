"""A SIMT machine: runs PTX without a GPU, and checks what it does."""

from hlo.gpu.simt.device import SimtDevice
from hlo.gpu.simt.report import Access, KernelReport, SimtReport

__all__ = ["Access", "KernelReport", "SimtDevice", "SimtReport"]


def __dir__() -> list[str]:
    return sorted(__all__)
