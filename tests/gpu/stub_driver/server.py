"""The device of the stub driver: a process that holds memory and runs kernels.

`python -m tests.gpu.stub_driver.server FD` answers the requests of `driver.c` on a socket:

    request: operation u32, count of numbers u32, bytes of data u64; the numbers, u64 each; the data
    answer: status i32, 0 u32, a number u64, bytes of data u64; the data
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.device import Device
from hlo.gpu.ptx import parse_ptx

_REQUEST, _ANSWER = struct.Struct("<IIQ"), struct.Struct("<iIQQ")
# Statuses of the driver.
_INVALID_VALUE, _OUT_OF_MEMORY, _INVALID_PTX, _NO_BINARY = 1, 2, 218, 209
_NOT_FOUND, _ILLEGAL_ADDRESS = 500, 700
# The class of the device: this one but for tests of the stub itself.
_DEVICE = "hlo.gpu.simt:SimtDevice"


class Refused(Exception):
    """A request that is answered by a status. detail: what is wrong, for people."""

    def __init__(self, status: int, detail: str = "") -> None:
        super().__init__(detail)
        self.status = status


class Server:
    """Answers requests on a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._modules: dict[int, tuple[Any, dict[str, int]]] = {}
        self._functions: list[tuple[int, str]] = []
        self._sizes: dict[int, int] = {}

    def answer(self, operation: int, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        """Return the number and the data that answer a request. Raises Refused."""
        return _OPERATIONS[operation](self, numbers, data)

    def allocate(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        try:
            address = self.device.allocate(numbers[0], "memory of the program")
        except HloError as e:
            raise Refused(_OUT_OF_MEMORY, str(e)) from None
        self._sizes[address] = numbers[0]
        return address, b""

    def free(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        if self._sizes.pop(numbers[0], None) is None:
            raise Refused(_INVALID_VALUE, f"no memory begins at {numbers[0]:#x}")
        self.device.free(numbers[0])
        return 0, b""

    def write(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        self._need(numbers[0], len(data))
        self.device.write(numbers[0], np.frombuffer(data, np.uint8))
        return 0, b""

    def read(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        address, size = numbers
        self._need(address, size)
        found = np.empty(size, np.uint8)
        self.device.read(address, found)
        return 0, found.tobytes()

    def copy(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        target, source, size = numbers
        self._need(target, size)
        self._need(source, size)
        self.device.copy(target, source, size)
        return 0, b""

    def fill(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        target, word, count = numbers
        self._need(target, 4 * count)
        self.device.write(target, np.full(count, word, np.uint32).view(np.uint8))
        return 0, b""

    def _need(self, address: int, size: int) -> None:
        """Raise Refused if bytes are not all in one piece of memory."""
        if not any(at <= address and address + size <= at + n for at, n in self._sizes.items()):
            raise Refused(_INVALID_VALUE, f"{size} bytes at {address:#x} are not all allocated")

    def load(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        if data.startswith(b"\x7fELF"):
            raise Refused(_NO_BINARY, "machine code does not run on the SIMT machine")
        text = data.decode()
        try:
            kernels = parse_ptx(text).kernels
            code = self.device.load(text)
        except HloError as e:
            raise Refused(_INVALID_PTX, str(e)) from None
        number = len(self._modules) + 1
        self._modules[number] = code, {name: len(k.parameters) for name, k in kernels.items()}
        return number, b""

    def function(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        """Return the number of a kernel, and how many parameters it has."""
        name = data.decode()
        _, kernels = self._modules[numbers[0]]
        if name not in kernels:
            raise Refused(_NOT_FOUND, f"there is no kernel {name}")
        self._functions.append((numbers[0], name))
        return len(self._functions) - 1, struct.pack("<Q", kernels[name])

    def launch(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        function, blocks, threads, shared_bytes, *addresses = numbers
        module, name = self._functions[function]
        self.device.launch(self._modules[module][0], name, blocks, threads, shared_bytes, addresses)
        return 0, b""

    def allocated(self, numbers: Sequence[int], data: bytes) -> tuple[int, bytes]:
        return sum(self._sizes.values()), b""


_Operation = Callable[[Server, Sequence[int], bytes], tuple[int, bytes]]
# In the order of the numbers of `driver.c`.
_OPERATIONS: tuple[_Operation, ...] = (
    Server.allocate, Server.free, Server.write, Server.read, Server.copy, Server.load,
    Server.function, Server.launch, Server.allocated, Server.fill,
)  # fmt: skip


def serve(connection: socket.socket, server: Server) -> None:
    """Answer requests until the other side ends."""
    with connection, connection.makefile("rwb") as stream:
        while len(head := stream.read(_REQUEST.size)) == _REQUEST.size:
            operation, count, size = _REQUEST.unpack(head)
            numbers = struct.unpack(f"<{count}Q", stream.read(8 * count))
            data = stream.read(size)
            status, number, found = 0, 0, b""
            try:
                number, found = server.answer(operation, numbers, data)
            except Refused as e:
                status = e.status
                print(f"stub driver: {e}", file=sys.stderr, flush=True)
            except HloError as e:
                status = _ILLEGAL_ADDRESS
                print(f"stub driver: {e}", file=sys.stderr, flush=True)
            stream.write(_ANSWER.pack(status, 0, number, len(found)) + found)
            stream.flush()


def main() -> None:
    """Serve on the socket whose number is the argument."""
    module, _, name = os.environ.get("HLO_STUB_DEVICE", _DEVICE).partition(":")
    device: Device = getattr(import_module(module), name)()
    serve(socket.socket(fileno=int(sys.argv[1])), Server(device))


if __name__ == "__main__":
    main()
