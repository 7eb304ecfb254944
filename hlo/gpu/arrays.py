"""Arrays in memory of a device, which other libraries can use without copies."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.device import Device
from hlo.support.dlpack import CPU, make_capsule


class DeviceArray:
    """An array in memory of a GPU: what a program on GPUs takes without a copy, and gives.

    `numpy.asarray` copies it to the host. Other libraries take it without a copy, by DLPack
    (`torch.from_dlpack(x)`, `jax.dlpack.from_dlpack(x)`) or by `__cuda_array_interface__`
    (`cupy.asarray(x)`). It is complete when a program returns it, and must not change while a
    program uses it.

    Attributes:
        shape: the dimensions.
        dtype: numpy's type of the elements, of `ml_dtypes` for bf16 and the like.
        strides: in bytes, by dimension.
        address: of the first element, in the device's memory.
    """

    __slots__ = ("_owner", "address", "device", "dtype", "shape", "strides")

    def __init__(
        self, device: Device, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: object,
        strides: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """owner: keeps the memory. strides: by default those of row-major order."""
        self.device, self.address, self.shape, self.dtype = device, address, shape, dtype
        self.strides = row_major(shape, dtype) if strides is None else strides
        self._owner = owner

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"<DeviceArray {self.dtype}[{dims}] at {self.address:#x}>"

    def is_in_order(self, order: Sequence[int]) -> bool:
        """Return whether the elements lie without gaps, dimensions in an order from major to
        minor."""
        dense = row_major(tuple(self.shape[d] for d in order), self.dtype)
        return not self.size or all(
            self.shape[d] == 1 or self.strides[d] == stride
            for d, stride in zip(order, dense, strict=True)
        )

    # --- for other libraries --------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a device is copied to the host")
        order = sorted(range(self.ndim), key=lambda d: (-self.strides[d], d))
        if not self.is_in_order(order):
            found = self._spread()
        else:
            found = np.empty(tuple(self.shape[d] for d in order), self.dtype)
            self.device.read(self.address, found.reshape(-1).view(np.uint8))
            found = found.transpose(np.argsort(order)) if order else found
        return found if dtype is None else found.astype(dtype, copy=False)

    def _spread(self) -> np.ndarray:
        """Return a copy of elements that have gaps between them, or steps back."""
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = sum(min(0, end) for end in ends)
        high = sum(max(0, end) for end in ends) + self.dtype.itemsize
        memory = np.empty(high - low, np.uint8)
        self.device.read(self.address + low, memory)
        # Of elements of other packages numpy knows the size only, in arrays over bytes.
        view = np.ndarray(self.shape, f"V{self.dtype.itemsize}", memory, -low, self.strides)
        return np.ascontiguousarray(view).view(self.dtype).reshape(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.dlpack_device is None or self.dtype.isbuiltin != 1:
            raise AttributeError(f"{self!r} has no CUDA array interface; DLPack has all types")
        self._show()
        return {
            "version": 3, "shape": self.shape, "typestr": self.dtype.str,
            "data": (self.address, False), "stream": None,
            "strides": None if self.strides == row_major(self.shape, self.dtype) else self.strides,
        }  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.dlpack_device or (CPU, 0)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> object:  # fmt: skip
        # What is in it is complete, so that no stream has to wait.
        here = self.device.dlpack_device
        is_versioned = max_version is not None and max_version[0] >= 1
        size = self.dtype.itemsize
        if here is None or copy or (dl_device is not None and tuple(dl_device) != here):
            if dl_device is not None and tuple(dl_device) != (CPU, 0):
                raise BufferError(f"{self!r} is copied to the host only")
            if copy is False:
                raise BufferError(f"{self!r} is not in memory of the host")
            host = np.array(self)
            steps = tuple(s // size for s in host.strides)
            return make_capsule(
                host.ctypes.data, self.dtype, self.shape, steps, (CPU, 0), host,
                is_versioned=is_versioned,
            )  # fmt: skip
        self._show()
        steps = tuple(s // size for s in self.strides)
        return make_capsule(
            self.address, self.dtype, self.shape, steps, here, self._owner,
            is_versioned=is_versioned,
        )  # fmt: skip

    def _show(self) -> None:
        if isinstance(self._owner, DeviceMemory):
            self._owner.is_seen.append(True)


class DeviceMemory:
    """Memory that is given back with the object."""

    def __init__(self, device: Device, size: int, name: str) -> None:
        self.address = device.allocate(max(1, size), name)
        # Not empty if others may use it still when the object ends.
        self.is_seen: list[bool] = []
        weakref.finalize(self, _give_back, device, self.address, self.is_seen)


def _give_back(device: Device, address: int, is_seen: list[bool]) -> None:
    with suppress(HloError):
        (device.free_from_others if is_seen else device.free)(address)


def new_array(
    device: Device, shape: tuple[int, ...], dtype: np.dtype, name: str = "",
    order: Sequence[int] | None = None,
) -> DeviceArray:  # fmt: skip
    """Return an array in new memory, whose content is not defined.

    order: of the dimensions in memory, from major to minor; by default that of the shape.
    """
    strides = None
    if order is not None:
        dense = row_major(tuple(shape[d] for d in order), dtype)
        strides = tuple(dense[list(order).index(d)] for d in range(len(shape)))
    memory = DeviceMemory(device, math.prod(shape) * dtype.itemsize, name)
    return DeviceArray(device, memory.address, shape, dtype, memory, strides)


def array_on(device: Device, array: np.ndarray, name: str = "") -> DeviceArray:
    """Return a copy of an array on a device."""
    found = new_array(device, array.shape, array.dtype, name)
    device.write(found.address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return found


def row_major(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """Return the strides in bytes of a row-major array."""
    return tuple(math.prod(shape[d + 1 :]) * dtype.itemsize for d in range(len(shape)))
