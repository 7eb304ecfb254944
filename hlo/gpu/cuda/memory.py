"""Memory of a device, counted, and pinned memory of the host through which data goes."""

from __future__ import annotations

import ctypes
import threading
from typing import Any
from weakref import WeakSet

import numpy as np

from hlo.errors import HloError
from hlo.gpu.cuda.context import Context
from hlo.gpu.device import Holder

# Of pinned memory: at the first transfer, and the most.
_FIRST_BYTES, _MOST_BYTES = 64 << 10, 8 << 20


class Memory:
    """What is allocated on a device, from a pool of ours that keeps what is given back."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._sizes: dict[int, tuple[int, str]] = {}
        # Those who may have memory to give back.
        self.holders: WeakSet[Holder] = WeakSet()
        self._pool: Any = None
        if context.properties.has_pools:
            with context:
                flag = int(context.driver.cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
                made = context.driver.cu.cuStreamCreate(flag)
                self._stream = context.driver.done(made, "making a stream")
                self._pool = self._new_pool()

    def _new_pool(self) -> Any:
        cu, done = self._context.driver.cu, self._context.driver.done
        wanted = cu.CUmemPoolProps()
        wanted.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = self._context.properties.number
        pool = done(cu.cuMemPoolCreate(wanted), "making a memory pool")
        # Waiting gives nothing back to the system: the next run takes as much.
        keep = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        done(
            cu.cuMemPoolSetAttribute(pool, keep, cu.cuuint64_t((1 << 64) - 1)),
            "setting up the memory pool",
        )
        return pool

    def allocate(self, size: int, name: str) -> int:
        """Return the address of new memory. Raises HloError, code `too-large`, if there is not
        enough."""
        cu, driver = self._context.driver.cu, self._context.driver
        with self._context:
            status, address = self._allocated(size)
            if status == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                for holder in list(self.holders):
                    holder.give_back()
                self.settle()
                status, address = self._allocated(size)
            if status == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                raise self._too_large(size, name)
            doing = f"allocating {size} bytes for {name or 'data'}"
            driver.done((status,), doing)
            if self._pool is not None:
                # Other streams may use it from now on.
                driver.done(cu.cuStreamSynchronize(self._stream), doing)
        with self._lock:
            self._sizes[int(address)] = size, name
        return int(address)

    def _allocated(self, size: int) -> tuple[Any, Any]:
        """Return the status of an allocation, and the address."""
        cu = self._context.driver.cu
        if self._pool is None:
            status, address = cu.cuMemAlloc(max(1, size))
        else:
            status, address = cu.cuMemAllocFromPoolAsync(max(1, size), self._pool, self._stream)
        return status, address

    def _too_large(self, size: int, name: str) -> HloError:
        properties = self._context.properties
        cu, done = self._context.driver.cu, self._context.driver.done
        free, _ = done(cu.cuMemGetInfo(), "asking for free memory")
        return HloError.at(
            "too-large", f"{size} bytes for {name or 'data'} are not free on {properties.name}: "
            f"{free} of {properties.memory_bytes} are, and {self.allocated_bytes} are in use here",
        )  # fmt: skip

    def free(self, address: int) -> None:
        """Give memory back that nothing uses any more."""
        with self._lock:
            size, name = self._sizes.pop(address)
        cu = self._context.driver.cu
        with self._context:
            if self._pool is None:
                returned = cu.cuMemFree(address)
            else:
                returned = cu.cuMemFreeAsync(address, self._stream)
            self._context.driver.done(returned, f"freeing {size} bytes of {name or 'data'}")

    def settle(self) -> None:
        """Wait for all that any library has the device do."""
        with self._context:
            driver = self._context.driver
            driver.done(driver.cu.cuCtxSynchronize(), "waiting for the device")

    def close(self) -> None:
        """Give the pool back: nothing is allocated any more."""
        cu, done = self._context.driver.cu, self._context.driver.done
        if self._pool is not None:
            with self._context:
                done(cu.cuMemPoolDestroy(self._pool), "giving the memory pool back")
                done(cu.cuStreamDestroy(self._stream), "giving a stream back")
            self._pool = None

    @property
    def allocated_bytes(self) -> int:
        """How much memory is allocated at present."""
        with self._lock:
            return sum(size for size, _ in self._sizes.values())

    @property
    def allocations(self) -> list[tuple[int, str]]:
        """Size and name of all that is allocated at present."""
        with self._lock:
            return list(self._sizes.values())


class Staging:
    """Pinned memory between arrays of the host and the device, in two halves: one is copied by the
    host while the device reads or writes the other."""

    def __init__(self, context: Context, stream: Any) -> None:
        self._context, self._stream = context, stream
        self._address = 0
        self._halves: list[np.ndarray] = []
        self._events: list[Any] = []

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy bytes to the device, in order with what is on the stream."""
        cu, done = self._context.driver.cu, self._context.driver.done
        for half, start, end in self._parts(data.size):
            self._wait(half)
            staged = self._halves[half][: end - start]
            np.copyto(staged, data[start:end])
            doing = "copying to the device"
            done(
                cu.cuMemcpyHtoDAsync(
                    address + start, staged.ctypes.data, staged.size, self._stream
                ),
                doing,
            )
            done(cu.cuEventRecord(self._events[half], self._stream), doing)

    def read(self, address: int, data: np.ndarray) -> None:
        """Copy bytes from the device, after what is on the stream."""
        cu, done = self._context.driver.cu, self._context.driver.done
        pending: list[tuple[int, int, int]] = []
        doing = "copying from the device"
        for half, start, end in self._parts(data.size):
            if len(pending) == 2:
                self._take(data, *pending.pop(0))
            staged = self._halves[half][: end - start]
            done(
                cu.cuMemcpyDtoHAsync(
                    staged.ctypes.data, address + start, staged.size, self._stream
                ),
                doing,
            )
            done(cu.cuEventRecord(self._events[half], self._stream), doing)
            pending.append((half, start, end))
        for part in pending:
            self._take(data, *part)

    def _take(self, data: np.ndarray, half: int, start: int, end: int) -> None:
        self._wait(half)
        np.copyto(data[start:end], self._halves[half][: end - start])

    def _wait(self, half: int) -> None:
        driver = self._context.driver
        driver.done(driver.cu.cuEventSynchronize(self._events[half]), "waiting for the device")

    def _parts(self, size: int) -> list[tuple[int, int, int]]:
        """Divide so many bytes: the half, the first byte, and the end of each part."""
        wanted = min(max(_FIRST_BYTES, size), _MOST_BYTES)
        if not self._halves or 2 * self._halves[0].size < wanted:
            self._grow(1 << (wanted - 1).bit_length())
        step = self._halves[0].size
        starts = range(0, size, step)
        return [(n % 2, start, min(size, start + step)) for n, start in enumerate(starts)]

    def _grow(self, size: int) -> None:
        cu, done = self._context.driver.cu, self._context.driver.done
        self.close()
        self._address = int(done(cu.cuMemHostAlloc(size, 0), f"allocating {size} pinned bytes"))
        whole = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self._address))
        self._halves = [whole[: size // 2], whole[size // 2 :]]
        flag = int(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._events = [done(cu.cuEventCreate(flag), "making an event") for _ in range(2)]

    def close(self) -> None:
        """Give the memory back, when nothing is under way."""
        cu, done = self._context.driver.cu, self._context.driver.done
        for event in self._events:
            done(cu.cuEventSynchronize(event), "waiting for the device")
            done(cu.cuEventDestroy(event), "giving an event back")
        if self._address:
            done(cu.cuMemFreeHost(self._address), "freeing pinned memory")
        self._address, self._halves, self._events = 0, [], []
