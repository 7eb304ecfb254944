"""Arrays on a device, and other libraries: DLPack and the CUDA array interface, in and out."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo.compiler.backends import machine_of
from hlo.gpu.arrays import DeviceArray, array_on, new_array
from hlo.gpu.cuda.adopt import adopt
from hlo.gpu.cuda.context import Context
from hlo.gpu.cuda.device import CudaDevice
from hlo.gpu.cuda.driver import Driver
from hlo.support.dlpack import Managed, make_capsule, read_capsule
from tests.gpu.fake_driver import FakeDriver

TYPES = [
    np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, np.complex64,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4,
    ml_dtypes.float4_e2m1fn,
]  # fmt: skip


@pytest.fixture
def device() -> CudaDevice:
    return CudaDevice(Context(Driver(FakeDriver())))


def driver_of(device: CudaDevice) -> FakeDriver:
    return device.context.driver.cu  # type: ignore[no-any-return]


def values(dtype: Any, *dims: int) -> np.ndarray:
    bits = np.random.default_rng(0).integers(0, 2, dims)
    return bits.astype(np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dims", [(), (0,), (3,), (2, 3, 4)])
def test_arrays_come_back_as_they_were(
    device: CudaDevice, dtype: Any, dims: tuple[int, ...]
) -> None:
    array = values(dtype, *dims)
    there = array_on(device, array)
    assert (there.shape, there.dtype, there.ndim, there.nbytes) == (
        array.shape, array.dtype, array.ndim, array.nbytes,
    )  # fmt: skip
    back = np.asarray(there)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("versioned", [False, True])
def test_capsules_are_read_by_the_library_that_makes_them(
    device: CudaDevice, dtype: Any, versioned: bool
) -> None:
    there = array_on(device, values(dtype, 2, 3))
    options: dict[str, Any] = {"max_version": (1, 0)} if versioned else {}
    if dtype in (ml_dtypes.int4, ml_dtypes.float4_e2m1fn) and not versioned:
        # The first version has no elements of less than a byte that take one.
        with pytest.raises(BufferError):
            there.__dlpack__(**options)
        return
    capsule = there.__dlpack__(stream=1, **options)
    tensor, _ = read_capsule(capsule)
    assert tensor.data == there.address
    assert (tensor.device, tensor.device_id) == there.__dlpack_device__() == (2, 0)
    assert tensor.shape[:2] == [2, 3]
    assert tensor.strides[:2] == [3, 1]


def test_a_capsule_keeps_the_memory_until_its_taker_is_done(device: CudaDevice) -> None:
    driver = driver_of(device)
    there = array_on(device, values(np.float32, 4))
    capsule = there.__dlpack__()
    api = ctypes.PyDLL(None)
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    at = api.PyCapsule_GetPointer(capsule, b"dltensor")
    # As a library does that takes the array.
    api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
    name = b"used_dltensor"
    api.PyCapsule_SetName(capsule, name)
    del capsule, there
    gc.collect()
    assert len(driver.blocks) == 1
    record = Managed.from_address(at)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(record.deleter)(at)
    gc.collect()
    assert not driver.blocks
    # Another library may have work under way.
    assert driver.calls["cuCtxSynchronize"] == 1


def test_a_capsule_that_nobody_takes_gives_its_memory_back(device: CudaDevice) -> None:
    there = array_on(device, values(np.float32, 4))
    capsule = there.__dlpack__(max_version=(1, 1))
    del there
    assert driver_of(device).blocks
    del capsule
    assert not driver_of(device).blocks


def test_memory_that_nobody_saw_is_given_back_at_once(device: CudaDevice) -> None:
    there = array_on(device, values(np.float32, 4))
    del there
    assert not driver_of(device).blocks
    assert "cuCtxSynchronize" not in driver_of(device).calls


def test_copies_to_the_host_go_through_dlpack_too(device: CudaDevice) -> None:
    array = values(np.float32, 2, 3)
    there = array_on(device, array)
    assert np.array_equal(np.from_dlpack(there, device="cpu"), array)
    with pytest.raises(BufferError):
        there.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        there.__dlpack__(dl_device=(2, 1))
    with pytest.raises(ValueError):
        np.asarray(there, copy=False)


def test_the_array_interface_has_the_types_that_it_knows(device: CudaDevice) -> None:
    there = array_on(device, values(np.complex64, 2, 3))
    assert there.__cuda_array_interface__ == {
        "version": 3, "shape": (2, 3), "typestr": "<c8", "strides": None, "stream": None,
        "data": (there.address, False),
    }  # fmt: skip
    assert not hasattr(array_on(device, values(ml_dtypes.bfloat16, 2)), "__cuda_array_interface__")


def test_arrays_in_another_order_have_strides(device: CudaDevice) -> None:
    there = new_array(device, (2, 3, 4), np.dtype(np.float32), order=(2, 0, 1))
    assert there.strides == (12, 4, 24)
    assert there.__cuda_array_interface__["strides"] == (12, 4, 24)
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    device.write(there.address, np.ascontiguousarray(array.transpose(2, 0, 1)).ravel().view("u1"))
    assert np.array_equal(np.asarray(there), array)


# --- taken from others --------------------------------------------------------------------------


class Foreign:
    """An array of another library, by one protocol or the other."""

    def __init__(self, array: DeviceArray, stream: Any = None) -> None:
        self.array, self.stream, self.asked = array, stream, []  # type: ignore


class ByDlpack(Foreign):
    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: int) -> object:
        self.asked.append(stream)
        return self.array.__dlpack__()


class ByInterface(Foreign):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__cuda_array_interface__ | {"stream": self.stream}


@pytest.mark.parametrize("kind", [ByDlpack, ByInterface])
def test_arrays_of_others_are_taken_in_place(device: CudaDevice, kind: type[Foreign]) -> None:
    array = values(np.float32, 3, 4)
    there = array_on(device, array)
    taken = adopt(device, kind(there))
    assert taken is not None
    assert taken.address == there.address
    assert taken.is_in_order((0, 1))
    del there
    assert np.array_equal(np.asarray(taken), array)
    del taken
    assert not driver_of(device).blocks


def test_streams_of_others_are_waited_for(device: CudaDevice) -> None:
    there = array_on(device, values(np.float32, 3))
    first, second = ByDlpack(there), ByInterface(there, stream=77)
    adopt(device, first)
    assert first.asked == [int(device.stream)]
    driver_of(device).streams[77] = None
    before = driver_of(device).calls.get("cuStreamSynchronize", 0)
    adopt(device, second)
    assert driver_of(device).calls["cuStreamSynchronize"] == before + 1


def test_parts_of_arrays_with_gaps_are_read(device: CudaDevice) -> None:
    whole = np.arange(24, dtype=np.int16).reshape(4, 6)
    there = array_on(device, whole)
    capsule = make_capsule(
        there.address + 2 * 19, there.dtype, (2, 3), (-12, 2), (2, 0), there, is_versioned=False
    )

    class Part(ByDlpack):
        def __dlpack__(self, stream: int) -> object:
            return capsule

    taken = adopt(device, Part(there))
    assert taken is not None
    assert not taken.is_in_order((0, 1))
    assert np.array_equal(np.asarray(taken), whole[3::-2, 1::2])


def test_what_is_elsewhere_is_left(device: CudaDevice) -> None:
    class Elsewhere(ByDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 1)

    there = array_on(device, values(np.float32, 3))
    assert adopt(device, Elsewhere(there)) is None
    assert adopt(device, np.zeros(3)) is None
    assert adopt(device, [1, 2]) is None


def test_other_libraries_take_copies_of_arrays_that_no_gpu_has() -> None:
    """By DLPack in memory of the host, which they give back."""
    jax = pytest.importorskip("jax")
    machine = machine_of("gpu-emulated")
    assert machine is not None
    for dtype in (np.float32, np.int8, ml_dtypes.bfloat16):
        array = values(dtype, 5, 3)
        there = machine.put(array)
        assert there.__dlpack_device__() == (1, 0)
        taken = jax.dlpack.from_dlpack(there)
        del there
        gc.collect()
        assert np.array_equal(np.asarray(taken), array)
