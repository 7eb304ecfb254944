"""Conversion of other libraries' arrays: JAX, PyTorch, and any with DLPack or numpy's protocol.

No library is imported: its arrays exist only if it already is. Host memory is shared where numpy
can, and read-only; that of other devices is copied to the host. numpy itself supports no bf16, f8
or f4 in DLPack, so capsules are read here. Source: `dlpack.h`, version 1.1.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np

from hlo.errors import HloError


def array_of(value: Any, what: str) -> np.ndarray | None:
    """Return an array of any library as numpy's; None for non-arrays, such as numbers and lists.

    A typed PRNG key of JAX becomes its u32 words, in a last dimension. `what` names the value in
    errors. Raises HloError (`type-mismatch`) for an array without data, or of a type that HLO does
    not have.
    """
    if isinstance(value, np.ndarray):
        return value
    kind = type(value)
    if not (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")):
        return None
    try:
        if _is_a(value, "torch", "Tensor"):
            # Detach from autograd, and resolve lazy conjugation and negation.
            value = value.detach().cpu().resolve_conj().resolve_neg()
        elif _is_a(value, "jax", "Array"):
            return _of_jax(value)
        return _from_dlpack(value) if hasattr(kind, "__dlpack__") else np.asarray(value)
    except HloError as e:
        raise HloError.at("type-mismatch", f"{what}: {e.diagnostics[0].message}") from None
    # Whatever a library raises when its data is accessed.
    except Exception as e:
        said = (str(e) or type(e).__name__).strip().splitlines()[0]
        name = f"{kind.__module__.partition('.')[0]}'s {kind.__name__}"
        raise HloError.at("type-mismatch", f"{what}: {name} gives no array: {said}") from e


def _is_a(value: Any, library: str, name: str) -> bool:
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(value, kind)


def _of_jax(value: Any) -> np.ndarray:
    import jax

    if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


# --- DLPack -------------------------------------------------------------------------------------

_CPU, _CUDA_HOST, _ROCM_HOST = 1, 3, 11
_HOST_DEVICES = (_CPU, _CUDA_HOST, _ROCM_HOST)
_VERSION = (1, 1)
_IS_PADDED = 1 << 2  # sub-byte elements take a byte each

# By type code and bits.
_DTYPES: dict[tuple[int, int], np.dtype] = {
    (code, bits): np.dtype(name)
    for code, bits, name in (
        (0, 1, ml_dtypes.int1), (0, 2, ml_dtypes.int2), (0, 4, ml_dtypes.int4),
        (0, 8, np.int8), (0, 16, np.int16), (0, 32, np.int32), (0, 64, np.int64),
        (1, 1, ml_dtypes.uint1), (1, 2, ml_dtypes.uint2), (1, 4, ml_dtypes.uint4),
        (1, 8, np.uint8), (1, 16, np.uint16), (1, 32, np.uint32), (1, 64, np.uint64),
        (2, 16, np.float16), (2, 32, np.float32), (2, 64, np.float64),
        (4, 16, ml_dtypes.bfloat16),
        (5, 64, np.complex64), (5, 128, np.complex128),
        (6, 8, np.bool_),
        (7, 8, ml_dtypes.float8_e3m4), (8, 8, ml_dtypes.float8_e4m3),
        (9, 8, ml_dtypes.float8_e4m3b11fnuz), (10, 8, ml_dtypes.float8_e4m3fn),
        (11, 8, ml_dtypes.float8_e4m3fnuz), (12, 8, ml_dtypes.float8_e5m2),
        (13, 8, ml_dtypes.float8_e5m2fnuz), (14, 8, ml_dtypes.float8_e8m0fnu),
        (15, 6, ml_dtypes.float6_e2m3fn), (16, 6, ml_dtypes.float6_e3m2fn),
        (17, 4, ml_dtypes.float4_e2m1fn),
    )
}  # fmt: skip
_KINDS = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "bool"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


class _Memory:
    """Bytes that a capsule owns, for numpy's array interface. The array keeps the capsule alive;
    that is never marked as used, so its own destructor frees the bytes."""

    def __init__(self, capsule: object, interface: dict[str, Any]) -> None:
        self._capsule = capsule
        self.__array_interface__ = interface


def _from_dlpack(value: Any) -> np.ndarray:
    """Return an array by DLPack. Raises HloError for types and devices that cannot be read."""
    device, _ = value.__dlpack_device__()
    options: dict[str, Any] = {"max_version": _VERSION}
    if device not in _HOST_DEVICES:
        options["dl_device"] = (_CPU, 0)
    try:
        capsule = value.__dlpack__(**options)
    except TypeError:
        # A library that implements only the first version of the protocol, without options.
        capsule = value.__dlpack__()
    tensor, flags = _read(capsule)
    if tensor.device not in _HOST_DEVICES:
        raise HloError.at("type-mismatch", f"its data is on a device of DLPack's type {device}")
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    packed = tensor.bits < 8 and not flags & _IS_PADDED
    if dtype is None or (tensor.lanes != 1 and not (packed and tensor.bits * tensor.lanes == 8)):
        kind = _KINDS.get(tensor.code, f"code {tensor.code} of ")
        lanes = f" in vectors of {tensor.lanes}" if tensor.lanes != 1 else ""
        raise HloError.at(
            "type-mismatch", f"no element type is DLPack's {kind}{tensor.bits}{lanes}"
        )
    dims = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if packed and tensor.lanes == 1:
        return _packed(capsule, tensor, dims, strides, dtype)
    elements = _elements(capsule, tensor, dims, strides, dtype.itemsize)
    if not packed:
        return elements.view(dtype)
    # Bytes of several elements, which are in the last dimension, the first in the low bits.
    shifts = np.arange(0, 8, tensor.bits, dtype=np.uint8)
    parts = (elements.view(np.uint8)[..., None] >> shifts) & ((1 << tensor.bits) - 1)
    return parts.reshape((*dims[:-1], -1) if dims else (-1,)).view(dtype)


def _read(capsule: object) -> tuple[_Tensor, int]:
    """Return the tensor descriptor in a capsule, and its flags. Raises HloError."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (
        ctypes.py_object, ctypes.c_char_p,
    )  # fmt: skip
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    if api.PyCapsule_IsValid(capsule, b"dltensor"):
        return _Tensor.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")), 0
    if not api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        raise HloError.at("type-mismatch", "it returns something other than a DLPack capsule")
    found = _Versioned.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
    if found.major > _VERSION[0]:
        raise HloError.at("type-mismatch", f"its DLPack has version {found.major}.{found.minor}")
    return found.tensor, found.flags


def _elements(
    capsule: object, tensor: _Tensor, dims: tuple[int, ...], strides: tuple[int, ...] | None,
    size: int,
) -> np.ndarray:  # fmt: skip
    """Return a tensor's memory as elements of so many bytes, without copying."""
    if 0 in dims:
        return np.empty(dims, f"V{size}")
    interface = {
        "version": 3, "shape": dims, "typestr": f"|V{size}",
        "data": (tensor.data + tensor.byte_offset, True),
        "strides": None if strides is None else tuple(s * size for s in strides),
    }  # fmt: skip
    return np.asarray(_Memory(capsule, interface))


def _packed(
    capsule: object, tensor: _Tensor, dims: tuple[int, ...], strides: tuple[int, ...] | None,
    dtype: np.dtype,
) -> np.ndarray:  # fmt: skip
    """Unpack sub-byte elements, of which the first is in the low bits."""
    count = int(np.prod(dims, dtype=np.int64))
    wanted = tuple(int(np.prod(dims[d + 1 :], dtype=np.int64)) for d in range(len(dims)))
    if strides not in (None, wanted) and count:
        raise HloError.at("type-mismatch", "its packed elements are not in row-major order")
    size = (count * tensor.bits + 7) // 8
    octets = _elements(capsule, tensor, (size,), None, 1).view(np.uint8)
    bits = np.unpackbits(octets, bitorder="little")[: count * tensor.bits]
    values = np.packbits(bits.reshape(count, tensor.bits), axis=1, bitorder="little")
    return values.reshape(dims).view(dtype)
