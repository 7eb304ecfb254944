"""Unpacks sub-byte elements."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._element_size import set_element_sizes


@module_pass
def int4_size_removal(module: Module, rewrites: Rewrites) -> None:
    """Unpack sub-byte elements to whole bytes, including the program's arguments and results."""
    set_element_sizes(module, rewrites, "int4_size_removal", lambda et: 0)
