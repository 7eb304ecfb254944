"""The CUDA driver, through the package cuda-bindings, and its errors as HloErrors."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from hlo.errors import HloError

_INSTALL = "pip install 'hlo-tools[cuda]'"


class Driver:
    """The driver's functions.

    cu: the module that has them by their names in C, as `cuda.bindings.driver`: each returns a
    tuple of its status and what it gives.
    """

    def __init__(self, cu: Any) -> None:
        self.cu = cu
        self._success = cu.CUresult.CUDA_SUCCESS

    def done(self, returned: tuple[Any, ...], doing: str, code: str = "device-failed") -> Any:
        """Return what a function of the driver gave: nothing, a value, or a tuple of them.

        Raises HloError for a status that is an error. doing: what went on, for the message.
        """
        status, *values = returned
        if status != self._success:
            raise self.error(status, doing, code)
        return values[0] if len(values) == 1 else tuple(values)

    def error(self, status: Any, doing: str, code: str = "device-failed") -> HloError:
        """Return the error of a status."""
        hint = None
        if status in self._lost:
            hint = (
                "the process has lost the device; CUDA_LAUNCH_BLOCKING=1 waits after each kernel, "
                "so that the error names the right one"
            )
        return HloError.at(code, f"{doing}: {self.said(status)}", hint=hint)

    @property
    def _lost(self) -> set[Any]:
        """The errors after which nothing works any more in this process."""
        results = self.cu.CUresult
        names = (
            "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT",
            "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ASSERT",
            "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_ECC_UNCORRECTABLE",
        )  # fmt: skip
        return {getattr(results, name) for name in names}

    def said(self, status: Any) -> str:
        """Return the name of a status and what the driver says of it."""
        words = []
        for function in (self.cu.cuGetErrorName, self.cu.cuGetErrorString):
            found, text = function(status)
            if found == self._success and text is not None:
                words.append(text.decode() if isinstance(text, bytes) else str(text))
        return ", ".join(words) or str(status)


@cache
def load_driver() -> Driver:
    """Return the driver of this machine.

    Raises HloError, code `no-device`, where cuda-bindings, the driver, or a device is missing.
    """
    try:
        from cuda.bindings import driver
    except ImportError:
        raise HloError.at(
            "no-device", "the package cuda-bindings is not installed", hint=_INSTALL
        ) from None
    found = Driver(driver)
    try:
        [status] = driver.cuInit(0)
    except (RuntimeError, OSError):
        raise HloError.at(
            "no-device", "there is no CUDA driver on this machine: libcuda.so.1 is not found",
            hint="install NVIDIA's driver; in a container, run it with access to the GPU (--gpus). "
            "--backend gpu-emulated runs the kernels without a GPU",
        ) from None  # fmt: skip
    if status != driver.CUresult.CUDA_SUCCESS:
        raise HloError.at(
            "no-device", f"the CUDA driver does not start: {found.said(status)}", hint=_hidden()
        )
    if not found.done(driver.cuDeviceGetCount(), "counting devices"):
        raise HloError.at("no-device", "the CUDA driver finds no device", hint=_hidden())
    return found


def _hidden() -> str:
    """Return what may hide a device."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES is {visible!r}"
    return "nvidia-smi shows which devices the driver sees"
