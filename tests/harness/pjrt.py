"""Calls of PJRT's table as a C program makes them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from hlo.pjrt.interface import interface
from hlo.pjrt.native.code import addresses
from hlo.pjrt.records import DEVICE_TAG, Device, Error, Memory
from hlo.pjrt.table import api

TYPES = interface().enums["Buffer_Type"]


class Failed(Exception):
    """An error that a function of the table has returned."""


def call(name: str, size: int | None = None, /, **fields: Any) -> Any:
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


@cache
def client() -> int:
    """Return a client with two devices."""
    name, value = b"num_devices", 2
    option: Any = interface().structs["NamedValue"](name_size=len(name), type=1, value_size=1)
    text = ctypes.create_string_buffer(name)
    option.name, option.string_value = ctypes.addressof(text), value
    return int(call("Client_Create", create_options=ctypes.addressof(option), num_options=1).client)


def compiled(text: str, options: bytes = b"") -> int:
    """Return the loaded executable of a StableHLO module."""
    code, form = text.encode(), b"mlir"
    texts = [ctypes.create_string_buffer(t, len(t) + 1) for t in (code, form, options)]
    program: Any = interface().structs["Program"](code_size=len(code), format_size=len(form))
    program.code, program.format = map(ctypes.addressof, texts[:2])
    args = call(
        "Client_Compile", client=client(), program=ctypes.addressof(program),
        compile_options=ctypes.addressof(texts[2]), compile_options_size=len(options),
    )  # fmt: skip
    return int(args.executable)


def device(number: int = 0) -> int:
    """Return a device of the client."""
    found = call("Client_Devices", client=client())
    return int((ctypes.c_size_t * found.num_devices).from_address(found.devices)[number])
