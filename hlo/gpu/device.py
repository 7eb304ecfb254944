"""What the executor of launch plans asks of a device: memory, code, launches.

Addresses are numbers of the device's own address space. Launches and copies between its memories
run in order; `read` waits for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np


class Device(ABC):
    """A GPU, or what stands for one."""

    @abstractmethod
    def load(self, code: str) -> Any:
        """Return kernels from their code (PTX), as `launch` takes them. Raises HloError."""

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

    @abstractmethod
    def launch(
        self, code: Any, kernel: str, blocks: int, threads: int, shared_bytes: int,
        addresses: Sequence[int],
    ) -> None:  # fmt: skip
        """Launch a kernel: `blocks` blocks of `threads` threads, with addresses as parameters."""

    @property
    @abstractmethod
    def allocated_bytes(self) -> int:
        """How much memory is allocated at present."""
