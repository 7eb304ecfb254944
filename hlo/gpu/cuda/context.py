"""The context of a device, which every call of the driver needs to be in."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any

from hlo.errors import HloError
from hlo.gpu.cuda.driver import Driver, load_driver

# Ten times the compute capability that the kernels need: Ampere.
_LEAST_CAPABILITY = 80
# Instructions that only one capability has are in code for `sm_90a`, ...
_SPECIFIC = {90, 100, 103, 120, 121}


@dataclass(frozen=True)
class Properties:
    """What is known of a device. capability: ten times the compute capability."""

    number: int
    name: str
    capability: int
    multiprocessors: int
    memory_bytes: int
    most_shared_bytes: int
    has_pools: bool

    @property
    def cpu(self) -> str:
        """The name of the model that code is compiled for."""
        return f"sm_{self.capability}{'a' if self.capability in _SPECIFIC else ''}"


class Context:
    """The primary context of a device, which other libraries of this process use too.

    It is current between `with context:` and the end of that, in the calling thread.
    """

    def __init__(self, driver: Driver, number: int = 0) -> None:
        """number: of the device. Raises HloError, code `no-device`, if it cannot be used."""
        self.driver = driver
        cu, done = driver.cu, driver.done
        count = done(cu.cuDeviceGetCount(), "counting devices")
        if not 0 <= number < count:
            raise HloError.at("no-device", f"there is no device {number}, the driver has {count}")
        self.device = done(cu.cuDeviceGet(number), f"device {number}", "no-device")
        self.properties = self._properties(number)
        if self.properties.capability < _LEAST_CAPABILITY:
            raise HloError.at(
                "no-device", f"{self.properties.name} has compute capability "
                f"{self.properties.capability / 10}, kernels need {_LEAST_CAPABILITY / 10}",
            )  # fmt: skip
        self._handle = done(
            cu.cuDevicePrimaryCtxRetain(self.device), f"opening {self.properties.name}", "no-device"
        )
        self._local = threading.local()

    def close(self) -> None:
        """Give the context back: nothing of it is used any more."""
        released = self.driver.cu.cuDevicePrimaryCtxRelease(self.device)
        self.driver.done(released, f"closing {self.properties.name}")

    def _properties(self, number: int) -> Properties:
        cu, done, device = self.driver.cu, self.driver.done, self.device
        doing = f"asking device {number}"

        def ask(name: str) -> int:
            attribute = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(done(cu.cuDeviceGetAttribute(attribute, device), doing))

        name = done(cu.cuDeviceGetName(128, device), doing)
        capability = 10 * ask("COMPUTE_CAPABILITY_MAJOR") + ask("COMPUTE_CAPABILITY_MINOR")
        return Properties(
            number, name.split(b"\0")[0].decode(), capability, ask("MULTIPROCESSOR_COUNT"),
            int(done(cu.cuDeviceTotalMem(device), doing)),
            ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"), bool(ask("MEMORY_POOLS_SUPPORTED")),
        )  # fmt: skip

    def __enter__(self) -> None:
        depth = getattr(self._local, "depth", 0)
        if not depth:
            self._call("cuCtxPushCurrent", self._handle)
        self._local.depth = depth + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._local.depth -= 1
        if not self._local.depth:
            self._call("cuCtxPopCurrent")

    def _call(self, name: str, *arguments: Any) -> None:
        self.driver.done(getattr(self.driver.cu, name)(*arguments), "choosing the device")


@cache
def open_context(number: int = 0) -> Context:
    """Return the context of a device of this machine; it is opened once."""
    return Context(load_driver(), number)
