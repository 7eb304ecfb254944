"""PJRT's extension for layouts: how the elements of arguments, results and buffers are arranged."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from hlo.pjrt import records
from hlo.pjrt.client import CLIENTS
from hlo.pjrt.entries import PjrtError, entry
from hlo.pjrt.executables import EXECUTABLES, Executable
from hlo.pjrt.handles import Handles
from hlo.pjrt.memory import FREE, Held, handed
from hlo.pjrt.topology import TOPOLOGIES
from hlo.values.types import ArrayShape, Layout, Shape

# A layout is known by its text, and its handle is kept: there are few of them.
LAYOUTS: Handles[str] = Handles("layout")
_addresses: dict[str, int] = {}
_held = Held()


def layout_handle(text: str) -> int:
    """Return the handle of a layout by its text, as HLO writes it."""
    if text not in _addresses:
        _addresses[text] = _held.record(ctypes.c_int64(0))
        LAYOUTS.add(_addresses[text], text)
    return _addresses[text]


def _default(rank: int) -> int:
    return layout_handle(str(Layout.default(rank)))


def _of_shapes(e: Executable, side: str, shapes: Sequence[Shape]) -> int:
    """Return the address of an array of the handles of shapes' layouts, made once."""
    key = f"{side} layouts"
    if key not in e.kept:
        e.kept[key] = e.held.addresses(
            layout_handle(str(s.layout)) if isinstance(s, ArrayShape) and s.layout else _default(0)
            for s in shapes
        )
    found: int = e.kept[key]
    return found


@entry("Layouts_MemoryLayout_Serialize")
def _serialize(args: Any) -> None:
    content = LAYOUTS[args.layout].encode()
    args.serialized_bytes = args.serialized_layout = handed(content)
    args.serialized_bytes_size, args.serialized_layout_deleter = len(content), FREE


@entry("Layouts_PJRT_Client_GetDefaultLayout")
def _client_default(args: Any) -> None:
    CLIENTS[args.client]
    args.layout = _default(args.num_dims)


@entry("Layouts_PJRT_Topology_GetDefaultLayout")
def _topology_default(args: Any) -> None:
    TOPOLOGIES[args.topology_description]
    args.layout = _default(args.num_dims)


@entry("Layouts_PJRT_Executable_GetOutputLayouts")
def _output_layouts(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.num_outputs = len(e.program.results)
    args.layouts = _of_shapes(e, "output", e.program.results)


@entry("Layouts_PJRT_Executable_GetParameterLayouts")
def _parameter_layouts(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.num_parameters = len(e.program.arguments)
    args.layouts = _of_shapes(e, "parameter", e.program.arguments)


@entry("Layouts_PJRT_Buffer_MemoryLayout")
def _buffer_layout(args: Any) -> None:
    buffer = records.Buffer.from_address(args.buffer) if args.buffer else None
    if buffer is None or buffer.tag != records.BUFFER_TAG:
        raise PjrtError("INVALID_ARGUMENT", "the buffer is none of this plug-in's")
    args.layout = _default(buffer.rank)
