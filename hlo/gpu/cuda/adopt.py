"""Arrays of other libraries in memory of a device, taken without copies."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hlo.gpu.arrays import DeviceArray
from hlo.gpu.cuda.device import CudaDevice
from hlo.support.dlpack import CUDA, DTYPES, VERSION, read_capsule


def adopt(device: CudaDevice, value: Any) -> DeviceArray | None:
    """Return an array of another library on the device as ours; None for what is none.

    What that library has the device do for it is done when this returns.
    """
    torch = getattr(sys.modules.get("torch"), "Tensor", None)
    if torch is not None and isinstance(value, torch):
        # Detach from autograd, and resolve lazy conjugation and negation.
        value = value.detach().resolve_conj().resolve_neg()
    kind = type(value)
    if hasattr(kind, "__dlpack_device__") and hasattr(kind, "__dlpack__"):
        if tuple(map(int, value.__dlpack_device__())) != device.dlpack_device:
            return None
        return _by_dlpack(device, value)
    if hasattr(value, "__cuda_array_interface__"):
        return _by_interface(device, value)
    return None


def _by_dlpack(device: CudaDevice, value: Any) -> DeviceArray | None:
    options = {"stream": int(device.stream)}
    try:
        capsule = value.__dlpack__(**options, max_version=VERSION)
    except TypeError:
        # A library that implements only the first version of the protocol.
        capsule = value.__dlpack__(**options)
    tensor, _ = read_capsule(capsule)
    dtype = DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.bits < 8 or tensor.lanes != 1 or tensor.device != CUDA:
        return None
    # It has made our stream wait for what it does.
    device.wait(lambda: None)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(n * dtype.itemsize for n in tensor.strides[: tensor.ndim])
    # The capsule, which is never marked as taken, frees the array in the end.
    address = (tensor.data or 0) + tensor.byte_offset
    return DeviceArray(device, address, shape, dtype, (value, capsule), strides)


def _by_interface(device: CudaDevice, value: Any) -> DeviceArray | None:
    said = value.__cuda_array_interface__
    if said.get("mask") is not None:
        return None
    address, _ = said["data"]
    if address and device.number_of(address) != device.properties.number:
        return None
    stream = said.get("stream")
    if stream is not None:
        device.wait_for_stream(int(stream))
    strides = said.get("strides")
    return DeviceArray(
        device, int(address or 0), tuple(said["shape"]), np.dtype(said["typestr"]), value,
        None if strides is None else tuple(strides),
    )  # fmt: skip
