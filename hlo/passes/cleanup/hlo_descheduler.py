"""Modules without a schedule."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def hlo_descheduler(module: Module, rewrites: Rewrites) -> None:
    """Drop the schedule of a module."""
    if module.is_scheduled and rewrites.allow("hlo_descheduler", module.entry.root):
        del module.attrs["is_scheduled"]
