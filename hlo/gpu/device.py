"""What the executor of launch plans asks of a device: memory, code, launches.

Addresses are numbers of the device's own address space. Launches and copies between its memories
run in order; `read` waits for all of them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


class Replay(ABC):
    """Launches and copies that were recorded, to be done again on the same addresses."""

    @abstractmethod
    def run(self) -> None:
        """Do all of them, in order with what else is launched."""

    @abstractmethod
    def close(self) -> None:
        """Give back what keeps them."""


class Holder(ABC):
    """Who keeps memory of a device that nothing uses at present."""

    @abstractmethod
    def give_back(self) -> None:
        """Give that memory back."""


class Device(ABC):
    """A GPU, or what stands for one."""

    # The device's type and number in DLPack, None for one that other libraries do not see.
    dlpack_device: tuple[int, int] | None = None

    # --- code -----------------------------------------------------------------------------------

    @abstractmethod
    def load(self, code: str, binary: bytes = b"") -> Any:
        """Return kernels from their code (PTX), as `launch` takes them. Raises HloError.

        binary: what `machine_code` has returned for it, perhaps long ago.
        """

    def machine_code(self, code: str) -> bytes:
        """Return code in a form that loads faster, nothing where there is none."""
        return b""

    def unload(self, code: Any) -> None:  # noqa: B027
        """Give back what `load` returned."""

    # --- memory ---------------------------------------------------------------------------------

    @abstractmethod
    def allocate(self, size: int, name: str = "") -> int:
        """Return the address of new memory, a multiple of 256.

        name: of what is kept there, for messages. Raises HloError, code `too-large`, if there is
        not enough.
        """

    @abstractmethod
    def free(self, address: int) -> None:
        """Give memory back."""

    @abstractmethod
    def write(self, address: int, data: np.ndarray) -> None:
        """Copy bytes to the device."""

    @abstractmethod
    def read(self, address: int, data: np.ndarray) -> None:
        """Copy bytes from the device, when all launches before are done. Raises HloError for what
        went wrong in them."""

    @abstractmethod
    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes on the device."""

    def forget(self, address: int) -> None:  # noqa: B027
        """Take the content of memory that `allocate` returned as undefined again."""

    def free_from_others(self, address: int) -> None:
        """Give memory back that other libraries may have seen, when the device has done all."""
        self.free(address)

    def on_shortage(self, holder: Holder) -> None:  # noqa: B027
        """Ask who holds memory that it could do without to give it back before `allocate` fails.

        holder: asked as long as it exists.
        """

    @property
    @abstractmethod
    def allocated_bytes(self) -> int:
        """How much memory is allocated at present."""

    # --- launches -------------------------------------------------------------------------------

    @abstractmethod
    def launch(
        self, code: Any, kernel: str, blocks: int, threads: int, shared_bytes: int,
        addresses: Sequence[int], instruction: str = "",
    ) -> None:  # fmt: skip
        """Launch a kernel: `blocks` blocks of `threads` threads, with addresses as parameters.

        instruction: the HLO that it computes, for messages.
        """

    def capture(self, record: Callable[[], None]) -> Replay | None:
        """Return the launches and copies that `record` makes, which are not done yet, to be done
        many times. None where a device has nothing that is faster than making them again."""
        return None

    def wait(self, check: Callable[[], None]) -> None:  # noqa: B027
        """Wait for all that was launched. check: raises an error where that takes too long."""

    def queue(self) -> Device:
        """Return the device for launches that need not wait for those made here, of another thread
        perhaps; until `close_queue`."""
        return self

    def close_queue(self) -> None:  # noqa: B027
        """Give back what `queue` made, when all that was launched is done."""

    def active(self) -> AbstractContextManager[None]:
        """Make calls from this thread quicker as long as the context lasts."""
        return nullcontext()

    # --- time -----------------------------------------------------------------------------------

    def mark(self) -> Any:
        """Note the time at which the device gets to this point."""
        return time.perf_counter()

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the time between two marks."""
        return float(end - start)

    def forget_mark(self, mark: Any) -> None:  # noqa: B027
        """Give back what keeps a mark."""
