"""DLPack's records, by which libraries hand arrays to each other: capsules are read and made.

Source: `dlpack.h`, version 1.1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from hlo.errors import HloError

CPU, CUDA, CUDA_HOST, ROCM_HOST = 1, 2, 3, 11
HOST_DEVICES = (CPU, CUDA_HOST, ROCM_HOST)
VERSION = (1, 1)
IS_PADDED = 1 << 2  # sub-byte elements take a byte each

# By type code and bits.
DTYPES: dict[tuple[int, int], np.dtype] = {
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
KINDS = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "bool"}


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    )  # fmt: skip


class Managed(ctypes.Structure):
    """The first version of what a capsule points to."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


def read_capsule(capsule: object) -> tuple[Tensor, int]:
    """Return the tensor descriptor in a capsule, and its flags. Raises HloError."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (
        ctypes.py_object, ctypes.c_char_p,
    )  # fmt: skip
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    if api.PyCapsule_IsValid(capsule, b"dltensor"):
        return Tensor.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")), 0
    if not api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        raise HloError.at("type-mismatch", "it returns something other than a DLPack capsule")
    found = Versioned.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
    if found.major > VERSION[0]:
        raise HloError.at("type-mismatch", f"its DLPack has version {found.major}.{found.minor}")
    return found.tensor, found.flags


# --- making capsules ----------------------------------------------------------------------------

_CODES = {dtype: key for key, dtype in DTYPES.items()}
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
# What the records that capsules point to need, by the address of the record, until it is deleted.
_alive: dict[int, tuple[Any, ...]] = {}

# With types of its own: a capsule that is destroyed is no Python object any more.
_api = ctypes.PyDLL(None)
_api.PyCapsule_IsValid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_api.PyCapsule_GetPointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_New.restype = ctypes.py_object


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(record: int) -> None:
    """What who takes a capsule calls when done."""
    _alive.pop(record, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    """Delete what nobody took: who does renames the capsule."""
    for name in (_NAME, _VERSIONED_NAME):
        if _api.PyCapsule_IsValid(capsule, name):
            _alive.pop(_api.PyCapsule_GetPointer(capsule, name), None)


def is_known(dtype: np.dtype) -> bool:
    """Return whether DLPack has an element type."""
    return dtype in _CODES


def make_capsule(
    address: int, dtype: np.dtype, dims: Sequence[int], strides: Sequence[int],
    device: tuple[int, int], owner: object, *, is_versioned: bool,
) -> object:  # fmt: skip
    """Return a capsule with an array.

    address: of its memory, which `owner` keeps. strides: in elements. Raises BufferError for a type
    that DLPack, or its first version, has not.
    """
    code, bits = _CODES.get(dtype, (None, 0))
    if code is None or (bits < 8 and not is_versioned):
        raise BufferError(f"DLPack has no {dtype}")
    rank = len(dims)
    sizes = (ctypes.c_int64 * max(1, rank))(*dims)
    steps = (ctypes.c_int64 * max(1, rank))(*strides)
    tensor = Tensor(
        address, *device, rank, code, bits, 1,
        ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)), 0,
    )  # fmt: skip
    deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    record: Managed | Versioned
    if is_versioned:
        flags = IS_PADDED if bits < 8 else 0
        record = Versioned(*VERSION, None, deleter, flags, tensor)
    else:
        record = Managed(tensor, None, deleter)
    at = ctypes.addressof(record)
    _alive[at] = (record, sizes, steps, owner)
    name = _VERSIONED_NAME if is_versioned else _NAME
    made: object = _api.PyCapsule_New(at, name, ctypes.cast(_destroy, ctypes.c_void_p))
    return made
