"""A SIMT machine: runs PTX without a GPU, and checks what it does."""

from hlo.gpu.simt.device import SimtDevice

__all__ = ["SimtDevice"]
