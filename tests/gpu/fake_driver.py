"""A CUDA driver without a GPU, for tests: memory of the host, kernels that are Python functions.

It has the functions of `cuda.bindings.driver` that hlo/gpu/cuda calls, and does everything at once
unless a stream is captured.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_TIMEOUT = 702
    CUDA_ERROR_ASSERT = 710
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715
    CUDA_ERROR_MISALIGNED_ADDRESS = 716
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717
    CUDA_ERROR_INVALID_PC = 718
    CUDA_ERROR_LAUNCH_FAILED = 719


def _names(*names: str) -> SimpleNamespace:
    return SimpleNamespace(**{name: number for number, name in enumerate(names)})


_OK = CUresult.CUDA_SUCCESS
# A kernel: the addresses that it is launched with, and blocks, threads and shared memory.
Kernel = Callable[[list[int], tuple[int, int, int]], None]


def memory(address: int, dtype: Any, count: int) -> np.ndarray:
    """Return memory of the fake device as an array."""
    size = np.dtype(dtype).itemsize * count
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(dtype)


class FakeDriver:
    """See the file. calls: how often each function was called. fail: the statuses that the next
    calls of functions return. is_busy: the device never gets done."""

    CUresult = CUresult
    CUdevice_attribute = _names(
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED",
    )  # fmt: skip
    CUfunction_attribute = _names("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES")
    CUstream_flags = _names("CU_STREAM_DEFAULT", "CU_STREAM_NON_BLOCKING")
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstreamCaptureMode = _names("GLOBAL", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL")
    CUjit_option = _names("CU_JIT_ERROR_LOG_BUFFER", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES")
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUpointer_attribute = _names("CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
    cuuint64_t = int

    def __init__(
        self, kernels: dict[str, Kernel] | None = None, *, attributes: tuple[int, ...] = (),
        devices: int = 1, memory_bytes: int = 1 << 30,
    ) -> None:  # fmt: skip
        self.kernels = kernels or {}
        self.attributes = attributes or (9, 0, 132, 227 << 10, 1)
        self.devices, self.memory_bytes = devices, memory_bytes
        self.calls: dict[str, int] = {}
        self.fail: dict[str, CUresult] = {}
        self.blocks: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.modules: dict[int, bytes] = {}
        self.graphs: dict[int, list[Callable[[], None]]] = {}
        self.streams: dict[int, list[Callable[[], None]] | None] = {}
        self.events: set[int] = set()
        self.takes_binaries, self.is_busy = True, False
        self.depth = self.most_events = 0
        self._number = 0

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not (name.startswith("cu") and callable(found)) or name.startswith("cuuint"):
            return found

        def call(*args: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            failure = self.fail.get(name)
            if failure is not None:
                del self.fail[name]
                return (failure,) if name in _NOTHING else (failure, None)
            return found(*args)

        return call

    def _new(self) -> int:
        self._number += 1
        return self._number

    def cuGetErrorName(self, status: CUresult) -> Any:
        return _OK, status.name.encode()

    def cuGetErrorString(self, status: CUresult) -> Any:
        return _OK, b"what the driver says"

    def cuDeviceGetCount(self) -> Any:
        return _OK, self.devices

    def cuDeviceGet(self, number: int) -> Any:
        return _OK, number

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return _OK, b"Fake H100".ljust(size, b"\0")

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> Any:
        return _OK, self.attributes[attribute]

    def cuDeviceTotalMem(self, device: int) -> Any:
        return _OK, self.memory_bytes

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return _OK, "context"

    def cuDevicePrimaryCtxRelease(self, device: int) -> Any:
        return (_OK,)

    def cuCtxPushCurrent(self, context: Any) -> Any:
        self.depth += 1
        return (_OK,)

    def cuCtxPopCurrent(self) -> Any:
        self.depth -= 1
        return _OK, "context"

    def cuCtxSynchronize(self) -> Any:
        return (_OK,)

    # --- memory ---------------------------------------------------------------------------------

    def cuMemGetInfo(self) -> Any:
        return _OK, self.memory_bytes - self._used(), self.memory_bytes

    def _used(self) -> int:
        return sum(ctypes.sizeof(block) for block in self.blocks.values())

    def CUmemPoolProps(self) -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    def cuMemPoolCreate(self, wanted: Any) -> Any:
        return _OK, "pool"

    def cuMemPoolDestroy(self, pool: Any) -> Any:
        return (_OK,)

    def cuMemPoolSetAttribute(self, pool: Any, attribute: Any, value: Any) -> Any:
        return (_OK,)

    def cuMemAllocFromPoolAsync(self, size: int, pool: Any, stream: int) -> Any:
        return self.cuMemAlloc(size)

    def cuMemAlloc(self, size: int) -> Any:
        if self._used() + size > self.memory_bytes:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        block = (ctypes.c_uint8 * (size + 256))()
        address = -(-ctypes.addressof(block) // 256) * 256
        self.blocks[address] = block
        return _OK, address

    def cuMemFreeAsync(self, address: int, stream: int) -> Any:
        return self.cuMemFree(address)

    def cuMemFree(self, address: int) -> Any:
        del self.blocks[address]
        return (_OK,)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> Any:
        return _OK, 0

    def cuMemHostAlloc(self, size: int, flags: int) -> Any:
        block = (ctypes.c_uint8 * size)()
        self.pinned[ctypes.addressof(block)] = block
        return _OK, ctypes.addressof(block)

    def cuMemFreeHost(self, address: int) -> Any:
        del self.pinned[address]
        return (_OK,)

    def _copy(self, target: int, source: int, size: int, stream: int) -> Any:
        self._do(stream, lambda: ctypes.memmove(target, source, size))
        return (_OK,)

    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _copy

    # --- kernels --------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> Any:
        if image.startswith(b"\x7fELF"):
            if not self.takes_binaries:
                return CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, None
        elif not image.startswith(b"//") or not image.endswith(b"\0"):
            values[0][:9] = b"line 1: x"
            return CUresult.CUDA_ERROR_INVALID_PTX, None
        self.modules[number := self._new()] = image
        return _OK, number

    def cuModuleUnload(self, module: int) -> Any:
        del self.modules[module]
        return (_OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        if name.decode() not in self.kernels:
            return CUresult.CUDA_ERROR_NOT_FOUND, None
        return _OK, name.decode()

    def cuFuncSetAttribute(self, function: str, attribute: int, value: int) -> Any:
        return (_OK,) if value <= self.attributes[3] else (CUresult.CUDA_ERROR_INVALID_VALUE,)

    def cuLaunchKernel(self, function: str, *args: Any) -> Any:
        x, y, z, tx, ty, tz, shared, stream, pointers, extra = args
        assert (y, z, ty, tz, extra) == (1, 1, 1, 1, 0)
        kernel = self.kernels[function]
        count = kernel.__code__.co_argcount - 1
        at = memory(pointers, np.uint64, count) if count else ()
        values = [int(memory(int(p), np.uint64, 1)[0]) for p in at]
        self._do(stream, lambda: kernel(*values, (x, tx, shared)))
        return (_OK,)

    # --- streams, events, graphs ----------------------------------------------------------------

    def _do(self, stream: int, what: Callable[[], None]) -> None:
        assert self.depth > 0, "no context is current"
        captured = self.streams[stream]
        if captured is None:
            what()
        else:
            captured.append(what)

    def cuStreamCreate(self, flags: int) -> Any:
        self.streams[number := self._new()] = None
        return _OK, number

    def cuStreamDestroy(self, stream: int) -> Any:
        del self.streams[stream]
        return (_OK,)

    def cuStreamQuery(self, stream: int) -> Any:
        return (CUresult.CUDA_ERROR_NOT_READY,) if self.is_busy else (_OK,)

    def cuStreamSynchronize(self, stream: int) -> Any:
        assert self.streams[stream] is None, "the stream is captured"
        return (_OK,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Any:
        return (_OK,)

    def cuStreamBeginCapture(self, stream: int, mode: int) -> Any:
        self.streams[stream] = []
        return (_OK,)

    def cuStreamEndCapture(self, stream: int) -> Any:
        self.graphs[number := self._new()] = self.streams[stream] or []
        self.streams[stream] = None
        return _OK, number

    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:
        self.graphs[number := self._new()] = list(self.graphs[graph])
        return _OK, number

    def cuGraphDestroy(self, graph: int) -> Any:
        del self.graphs[graph]
        return (_OK,)

    cuGraphExecDestroy = cuGraphDestroy

    def cuGraphLaunch(self, graph: int, stream: int) -> Any:
        for step in self.graphs[graph]:
            self._do(stream, step)
        return (_OK,)

    def cuEventCreate(self, flags: int) -> Any:
        self.events.add(number := self._new())
        self.most_events = max(self.most_events, len(self.events))
        return _OK, number

    def cuEventRecord(self, event: int, stream: int) -> Any:
        return (_OK,)

    def cuEventSynchronize(self, event: int) -> Any:
        return (_OK,)

    def cuEventElapsedTime(self, start: int, end: int) -> Any:
        return _OK, float(end - start)

    def cuEventDestroy(self, event: int) -> Any:
        self.events.remove(event)
        return (_OK,)


_NOTHING = {
    "cuStreamQuery", "cuStreamSynchronize", "cuLaunchKernel", "cuFuncSetAttribute",
    "cuEventSynchronize", "cuGraphLaunch", "cuMemFreeAsync",
}  # fmt: skip
