"""Copies between the host and buffers where the elements are arranged differently on either side.

Native code copies what is dense and in default order; it calls these for anything else, which call
it again for a copy in order.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from hlo.pjrt import records
from hlo.pjrt.entries import PjrtError, entry
from hlo.pjrt.interface import Struct, interface
from hlo.pjrt.layout_handles import layout_handle
from hlo.pjrt.native.code import addresses
from hlo.values.types import Layout

_TILED = interface().enums["Buffer_MemoryLayout_Type"]["Tiled"]
_MemoryLayout = interface().structs["Buffer_MemoryLayout"]
_ONLY_DURING_CALL = interface().enums["HostBufferSemantics"]["kImmutableOnlyDuringCall"]
_ErrorRecord = records.Error


def _call(name: str, args: Struct) -> None:
    """Call a native entry. Raises PjrtError."""
    function: Any = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(addresses()[f"PJRT_{name}"])
    args.struct_size = ctypes.sizeof(args)
    error = function(ctypes.addressof(args))
    if error:
        found = _ErrorRecord.from_address(error)
        message = ctypes.string_at(found.message, found.size).decode(errors="replace")
        code = interface().enums["Error_Code"](found.code).name
        _call("Error_Destroy", interface().arguments["Error_Destroy"](error=error))
        raise PjrtError(code, message)


def _order(at: int, rank: int) -> tuple[int, ...]:
    """Return the dimensions of a layout at an address, from major to minor. Raises PjrtError."""
    tiled = _MemoryLayout.from_address(at).tiled
    order = tuple((ctypes.c_int64 * rank).from_address(tiled.minor_to_major)) if rank else ()
    if tiled.num_tiles or tiled.minor_to_major_size != rank or sorted(order) != list(range(rank)):
        raise PjrtError("UNIMPLEMENTED", "buffers of this plug-in have no tiles")
    return order[::-1]


def _elements(address: int, dims: tuple[int, ...], size: int, order: tuple[int, ...]) -> np.ndarray:
    """Return the array, in logical order, whose elements of a size are arranged in an order."""
    inside = tuple(dims[d] for d in order)
    count = math.prod(dims)
    memory = memoryview((ctypes.c_char * (count * size)).from_address(address))
    array = np.frombuffer(memory, f"V{size}", count).reshape(inside)
    return array.transpose(np.argsort(order)) if dims else array


def _strided(
    address: int, dims: tuple[int, ...], size: int, strides: tuple[int, ...]
) -> np.ndarray:
    """Return the array with elements of a size at an address and strides, which may be negative."""
    # The bytes from the first element in memory to the last.
    ends = [(n - 1) * s for n, s in zip(dims, strides, strict=True)]
    low, high = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)
    memory = memoryview((ctypes.c_char * (high - low + size)).from_address(address + low))
    return np.ndarray(dims, f"V{size}", memory, -low, strides)


@entry("Client_BufferFromHostBuffer")
def _from_host(args: Any) -> None:
    dims = tuple((ctypes.c_int64 * args.num_dims).from_address(args.dims)) if args.num_dims else ()
    size, rank = _width(args.type), len(dims)
    order = _order(args.device_layout, rank) if args.device_layout else tuple(range(rank))
    if math.prod(dims) == 0:
        source = np.empty(dims, f"V{size}")
    elif args.byte_strides and args.num_byte_strides:
        strides = tuple((ctypes.c_int64 * rank).from_address(args.byte_strides))
        source = _strided(args.data, dims, size, strides)
    else:
        source = _elements(args.data, dims, size, tuple(range(rank)))
    dense = np.ascontiguousarray(source.transpose(order) if dims else source)
    inner = type(args)()
    ctypes.pointer(inner)[0] = args
    inner.data, inner.byte_strides, inner.num_byte_strides = dense.ctypes.data, 0, 0
    inner.device_layout, inner.host_buffer_semantics = 0, int(_ONLY_DURING_CALL)
    _call("Client_BufferFromHostBuffer", inner)
    _arrange(inner.buffer, order)
    args.buffer, args.done_with_host_buffer = inner.buffer, inner.done_with_host_buffer


@entry("Client_CreateViewOfDeviceBuffer")
def _view(args: Any) -> None:
    if _MemoryLayout.from_address(args.layout).type != _TILED:
        raise PjrtError("UNIMPLEMENTED", "views of memory have no strides but those of a layout")
    order = _order(args.layout, args.num_dims)
    inner = type(args)()
    ctypes.pointer(inner)[0] = args
    inner.layout = 0
    _call("Client_CreateViewOfDeviceBuffer", inner)
    _arrange(inner.buffer, order)
    args.buffer = inner.buffer


def _arrange(buffer: int, order: tuple[int, ...]) -> None:
    """Have a buffer's elements be in an order of the dimensions, from major to minor."""
    if order != tuple(range(len(order))):
        records.Buffer.from_address(buffer).layout = layout_handle(Layout(order[::-1]))


def _width(number: int) -> int:
    """Return the bytes of an element by PJRT's number of its type."""
    from hlo.values.types import element_type

    types = interface().enums["Buffer_Type"]
    return element_type(types(number).name.lower()).byte_width


@entry("Buffer_ToHostBuffer")
def _to_host(args: Any) -> None:
    buffer = records.Buffer.from_address(args.src)
    if args.dst_size < buffer.bytes:
        raise PjrtError("INVALID_ARGUMENT", "the destination is smaller than the buffer")
    dims = tuple((ctypes.c_int64 * buffer.rank).from_address(buffer.dims)) if buffer.rank else ()
    dense = ctypes.create_string_buffer(max(1, buffer.bytes))
    inner = type(args)()
    ctypes.pointer(inner)[0] = args
    inner.host_layout, inner.dst, inner.dst_size = 0, ctypes.addressof(dense), buffer.bytes
    _call("Buffer_ToHostBuffer", inner)
    _call("Event_Await", interface().arguments["Event_Await"](event=inner.event))
    args.event = inner.event
    if not math.prod(dims):
        return
    size, plain = buffer.bytes // math.prod(dims), tuple(range(buffer.rank))
    own = plain
    if buffer.layout:
        order = records.Layout.from_address(buffer.layout).order
        own = tuple((ctypes.c_int64 * buffer.rank).from_address(order))[::-1]
    layout = _MemoryLayout.from_address(args.host_layout)
    if layout.type == _TILED:
        target = _elements(args.dst, dims, size, _order(args.host_layout, buffer.rank))
    else:
        strides = (ctypes.c_int64 * buffer.rank).from_address(
            interface().structs["Buffer_MemoryLayout_Strides"].from_buffer(layout, _STRIDES_AT)
            .byte_strides
        )  # fmt: skip
        target = _strided(args.dst, dims, size, tuple(strides))
    target[...] = _elements(ctypes.addressof(dense), dims, size, own)


# Where the union in a layout begins.
_STRIDES_AT = _MemoryLayout.tiled.offset
