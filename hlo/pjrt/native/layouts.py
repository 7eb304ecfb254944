"""Layouts: records that are never freed, since there are few. Those of default order are here."""

from __future__ import annotations

import ctypes

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.interface import interface
from hlo.pjrt.native.writer import Code, Writer, need
from hlo.pjrt.records import BUFFER_TAG, LAYOUT_TAG, MOST_DIMENSIONS, Buffer, Layout

_TILED = interface().enums["Buffer_MemoryLayout_Type"]["Tiled"]
_Tiled = interface().structs["Buffer_MemoryLayout_Tiled"]
_DEFAULTS = Val("ptr", "@default_layouts")


def write(code: Code) -> None:
    """Write the entries, and `default_layouts`, the layouts of arrays by their rank."""
    _write_defaults(code)

    with code.entry("Layouts_PJRT_Buffer_MemoryLayout") as (b, args):
        args.layout = _layout(b, args.buffer)

    with code.entry("Buffer_GetMemoryLayout") as (b, args):
        found = b.record(Layout, _layout(b, args.buffer))
        layout = b.record(interface().structs["Buffer_MemoryLayout"], args.address("layout"))
        tiled = b.record(_Tiled, layout.address("tiled"))
        tiled.minor_to_major, tiled.minor_to_major_size = found.order, found.rank
        tiled.num_tiles = 0
        layout.type = _TILED

    with code.entry("Layouts_MemoryLayout_Serialize") as (b, args):
        layout = need(b, Layout, args.layout, LAYOUT_TAG, "layout")
        args.serialized_bytes, args.serialized_bytes_size = layout.text, layout.size
        # Nothing is to be freed; the deleter must not be null.
        args.serialized_layout, args.serialized_layout_deleter = 0, Val("ptr", "@free")

    with code.entry("Layouts_MemoryLayout_Destroy"):
        pass


def _layout(b: Writer, buffer_at: Val) -> Val:
    """Return the layout of a buffer, or have the entry return an error."""
    buffer = need(b, Buffer, buffer_at, BUFFER_TAG, "buffer")
    b.fail_if(
        b.icmp("ugt", buffer.rank, MOST_DIMENSIONS), "UNIMPLEMENTED",
        f"layouts of more than {MOST_DIMENSIONS} dimensions",
    )  # fmt: skip
    default = b.after(_DEFAULTS, b.product(buffer.rank, ctypes.sizeof(Layout)))
    return b.select(b.is_null(buffer.layout), default, buffer.layout)


def _write_defaults(code: Code) -> None:
    define = code.module.define
    most = MOST_DIMENSIONS
    orders = ", ".join(f"i64 {n}" for n in reversed(range(most)))
    define("descending", f"private constant [{most} x i64] [{orders}]")
    rows = []
    for rank in range(most + 1):
        text = "{" + ",".join(map(str, reversed(range(rank)))) + "}"
        define(f"layout_text.{rank}", f'private constant [{len(text)} x i8] c"{text}"')
        first = i64(most - rank)
        order = f"ptr getelementptr (i64, ptr @descending, {first})"
        rows.append(
            f"{{ i64, ptr, i64, ptr, i64 }} {{ i64 {LAYOUT_TAG}, ptr @layout_text.{rank}, "
            f"i64 {len(text)}, {order}, i64 {rank} }}"
        )
    table = f"[{len(rows)} x {{ i64, ptr, i64, ptr, i64 }}]"
    define("default_layouts", f"constant {table} [{', '.join(rows)}]")
