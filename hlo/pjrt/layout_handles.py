"""Handles of layouts, which native code knows: those in default order are its own."""

from __future__ import annotations

import ctypes

from hlo.pjrt import records
from hlo.pjrt.entries import PjrtError
from hlo.pjrt.memory import Held
from hlo.pjrt.native.code import addresses
from hlo.values.types import Layout

_handles: dict[Layout, int] = {}
_held = Held()
# JAX's runtime uses layouts after Python has cleared its modules.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_held))


def layout_handle(layout: Layout) -> int:
    """Return the handle of a layout, which stays."""
    if layout.is_default:
        return default_handle(len(layout.minor_to_major))
    if layout not in _handles:
        text, size = _held.string(str(layout))
        order = layout.minor_to_major
        record = records.Layout(
            tag=records.LAYOUT_TAG, text=text, size=size,
            order=_held.array(ctypes.c_int64, order), rank=len(order),
        )  # fmt: skip
        _handles[layout] = _held.record(record)
    return _handles[layout]


def default_handle(rank: int) -> int:
    """Return the handle of the layout of arrays in default order. Raises PjrtError."""
    if rank > records.MOST_DIMENSIONS:
        raise PjrtError("UNIMPLEMENTED", f"there are no arrays of {rank} dimensions")
    return addresses()["default_layouts"] + rank * ctypes.sizeof(records.Layout)
