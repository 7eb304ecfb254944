"""Calls of PJRT's table as a C program makes them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hlo.pjrt.interface import interface
from hlo.pjrt.native.code import addresses
from hlo.pjrt.records import DEVICE_TAG, Device, Error, Memory
from hlo.pjrt.table import api

TYPES = interface().enums["Buffer_Type"]


class Failed(Exception):
    """An error that a function of the table has returned."""


def call(name: str, size: int | None = None, **fields: Any) -> Any:
    """Call a function of the table; returns its arguments. size: instead of the struct's own."""
    api()
    kind = interface().arguments[name]
    args: Any = kind(**fields)
    if "struct_size" in kind.types:
        args.struct_size = ctypes.sizeof(kind) if size is None else size
    check(function(name)(ctypes.addressof(args)))
    return args


def function(name: str) -> Any:
    """Return a function of the table, which takes the address of its arguments."""
    kind = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t)
    return kind(addresses()[f"PJRT_{name}"])


def check(error: int) -> None:
    """Raise the error at an address, unless it is null; destroys it."""
    if error:
        record: Any = Error.from_address(error)
        message = ctypes.string_at(record.message, record.size).decode()
        code = interface().enums["Error_Code"](record.code).name
        args: Any = interface().arguments["Error_Destroy"](error=error)
        function("Error_Destroy")(ctypes.addressof(args))
        raise Failed(f"{code}: {message}")


class TestDevice:
    """A device of no client."""

    __test__ = False

    def __init__(self) -> None:
        self.memory: Any = Memory(tag=DEVICE_TAG)
        self.device: Any = Device(tag=DEVICE_TAG, memory=ctypes.addressof(self.memory))
        self.memory.device = self.at = ctypes.addressof(self.device)

    def put(self, array: np.ndarray, semantics: str = "kImmutableOnlyDuringCall") -> Any:
        """Return the result of Client_BufferFromHostBuffer."""
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*array.strides)
        return call(
            "Client_BufferFromHostBuffer", data=array.ctypes.data, type=TYPES[_type(array)],
            dims=ctypes.addressof(dims), num_dims=array.ndim, num_byte_strides=array.ndim,
            byte_strides=ctypes.addressof(strides), device=self.at,
            host_buffer_semantics=interface().enums["HostBufferSemantics"][semantics],
        )  # fmt: skip


def _type(array: np.ndarray) -> str:
    kinds = {"f": "F", "i": "S", "u": "U", "c": "C", "b": "PRED"}
    kind = kinds[array.dtype.kind]
    return kind if kind == "PRED" else f"{kind}{8 * array.dtype.itemsize}"


def get(buffer: int, like: np.ndarray) -> np.ndarray:
    """Return the content of a buffer, as an array like another."""
    result = np.empty_like(like)
    args = call("Buffer_ToHostBuffer", src=buffer, dst=result.ctypes.data, dst_size=result.nbytes)
    call("Event_Await", event=args.event)
    call("Event_Destroy", event=args.event)
    return result
