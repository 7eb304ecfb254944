"""PJRT's extension for layouts: how the elements of arguments, results and buffers are arranged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.pjrt.client import CLIENTS
from hlo.pjrt.entries import entry
from hlo.pjrt.executables import EXECUTABLES, Executable
from hlo.pjrt.layout_handles import default_handle, layout_handle
from hlo.pjrt.topology import TOPOLOGIES
from hlo.values.types import ArrayShape, Shape


def _of_shapes(e: Executable, side: str, shapes: Sequence[Shape]) -> int:
    """Return the address of an array of the handles of shapes' layouts, made once."""
    key = f"{side} layouts"
    if key not in e.kept:
        e.kept[key] = e.held.addresses(
            layout_handle(s.layout) if isinstance(s, ArrayShape) and s.layout else default_handle(0)
            for s in shapes
        )
    found: int = e.kept[key]
    return found


@entry("Layouts_PJRT_Client_GetDefaultLayout")
def _client_default(args: Any) -> None:
    CLIENTS[args.client]
    args.layout = default_handle(args.num_dims)


@entry("Layouts_PJRT_Topology_GetDefaultLayout")
def _topology_default(args: Any) -> None:
    TOPOLOGIES[args.topology_description]
    args.layout = default_handle(args.num_dims)


@entry("Layouts_PJRT_Executable_GetOutputLayouts")
def _output_layouts(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.num_outputs = len(e.program.shape.results)
    args.layouts = _of_shapes(e, "output", e.program.shape.results)


@entry("Layouts_PJRT_Executable_GetParameterLayouts")
def _parameter_layouts(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.num_parameters = len(e.program.shape.arguments)
    args.layouts = _of_shapes(e, "parameter", e.program.shape.arguments)
