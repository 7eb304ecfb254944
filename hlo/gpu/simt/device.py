"""The machine as a device that launch plans run on."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from hlo.errors import HloError
from hlo.gpu.device import Device
from hlo.gpu.ptx import parse_ptx
from hlo.gpu.ptx.inlining import without_calls
from hlo.gpu.ptx.records import Module, Variable
from hlo.gpu.simt.arguments import Argument, dims_of, words_of
from hlo.gpu.simt.code import Kernel
from hlo.gpu.simt.launch import LaunchState, check_launch
from hlo.gpu.simt.layout import GLOBAL_BASE
from hlo.gpu.simt.machine import BlockOrder, Machine
from hlo.gpu.simt.memory import EMPTY, FULL
from hlo.gpu.simt.problems import Kind
from hlo.gpu.simt.report import SimtReport

# Ten seconds or more.
_LIMIT = 1 << 22


class SimtDevice(Device):
    """Runs PTX on this processor, and checks what it does.

    checks: look for races, reads of memory that was not written, and what else is wrong; without,
    large runs are faster. limit: instructions that one launch may take, each for all the threads
    that do it together, and some for each batch of blocks. order: returns the numbers of so many
    blocks in the order in which they run, as far as they run one after the other; by default from 0
    on.
    """

    def __init__(
        self, *, checks: bool = True, limit: int = _LIMIT, order: BlockOrder | None = None
    ) -> None:
        self.machine = Machine(has_checks=checks, limit=limit, order=order)
        self.heap = self.machine.heap
        # Threads of the host may share the machine; it runs one launch at a time.
        self._lock = threading.RLock()

    @property
    def report(self) -> SimtReport:
        """What all launches did."""
        return self.machine.report

    def load(self, code: str, binary: bytes = b"") -> LoadedCode:
        """Return the kernels of a PTX text. Raises HloError."""
        return LoadedCode(self, parse_ptx(code))

    def unload(self, code: LoadedCode) -> None:
        """Give the memory of the variables of loaded code back."""
        for address in code.addresses.values():
            self.free(address)

    def allocate(self, size: int, name: str = "") -> int:
        with self._lock:
            return self.heap.allocate(size, name) + GLOBAL_BASE

    def free(self, address: int) -> None:
        with self._lock:
            self.heap.free(address - GLOBAL_BASE)

    def forget(self, address: int) -> None:
        begin = address - GLOBAL_BASE
        self.heap.memory.define(begin, self.heap.allocations[begin][0], EMPTY)

    def write(self, address: int, data: np.ndarray) -> None:
        begin = self._range(address, data.size)
        memory = self.heap.memory
        memory.bytes[begin : begin + data.size] = data
        memory.define(begin, data.size, FULL)

    def read(self, address: int, data: np.ndarray) -> None:
        begin = self._range(address, data.size)
        memory = self.heap.memory
        data[:] = memory.bytes[begin : begin + data.size]
        if memory.map is not None:
            empty = np.flatnonzero(memory.map[begin : begin + data.size] == EMPTY)
            if len(empty):
                raise HloError.at(
                    Kind.UNINITIALIZED.value,
                    f"the host reads memory that nothing was written to: "
                    f"{self.heap.describe(begin + int(empty[0]))}",
                )

    def copy(self, target: int, source: int, size: int) -> None:
        to, begin = self._range(target, size), self._range(source, size)
        memory = self.heap.memory
        memory.bytes[to : to + size] = memory.bytes[begin : begin + size].copy()
        if memory.map is not None:
            memory.map[to : to + size] = memory.map[begin : begin + size].copy()

    def launch(
        self, code: LoadedCode, kernel: str, blocks: SupportsIndex | Sequence[SupportsIndex],
        threads: SupportsIndex | Sequence[SupportsIndex], shared_bytes: int,
        addresses: Sequence[Argument], instruction: str = "",
    ) -> None:  # fmt: skip
        """Launch a kernel, and wait for it. Raises HloError for all that is wrong.

        blocks, threads: how many, or how many in x, y and z. shared_bytes: dynamic shared memory.
        addresses: the arguments, addresses and others: numbers, numpy's too, which have the type of
        their parameter then, and the bytes of structures. instruction: the HLO, for messages.
        """
        found = code.kernels.get(kernel)
        if found is None:
            raise HloError.at("unknown-function", f"the PTX has no kernel {kernel}")
        with self._lock:
            grid, block = dims_of(blocks, "blocks"), dims_of(threads, "threads")
            check_launch(found, grid, block, shared_bytes, len(addresses))
            parameters = [
                words_of(parameter, value)
                for parameter, value in zip(found.function.parameters, addresses, strict=True)
            ]
            launch = LaunchState(
                self.machine, found, grid, block, shared_bytes, parameters, instruction
            )
            launch.run()

    @property
    def allocated_bytes(self) -> int:
        return self.heap.allocated_bytes

    def _range(self, address: int, size: int) -> int:
        """Return the offset of memory that the host reads or writes. Raises HloError."""
        begin = address - GLOBAL_BASE
        for start, (length, _) in self.heap.allocations.items():
            if start <= begin and begin + size <= start + length:
                return begin
        if not size:
            return max(0, begin)
        raise HloError.at(
            "bad-address", f"{size} bytes at 0x{address:x}: {self.heap.describe(begin)}"
        )


class LoadedCode:
    """The kernels of a PTX text, and the memory of its variables."""

    def __init__(self, device: SimtDevice, module: Module) -> None:
        self.addresses = addresses = dict[str, int]()
        held = [v for v in module.variables.values() if v.space in ("global", "const")]
        for variable in held:
            addresses[variable.name] = device.allocate(max(1, variable.size), variable.name)
        for variable in held:
            if variable.size:
                device.write(addresses[variable.name], _content(variable, addresses))
        self.kernels: dict[str, Kernel] = {
            name: Kernel(without_calls(function, module), addresses)
            for name, function in module.kernels.items()
        }


def _content(variable: Variable, addresses: Mapping[str, int]) -> np.ndarray:
    """Return the first bytes of a variable."""
    data = np.zeros(variable.size, np.uint8)
    data[: len(variable.content)] = np.frombuffer(variable.content, np.uint8)
    for offset, name, after in variable.addresses:
        address: Any = np.uint64(addresses[name] + after)
        data[offset : offset + 8] = np.array([address]).view(np.uint8)
    return data
