"""Scans by loops."""

from __future__ import annotations

from hlo.expansions import expand
from hlo.ir import Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def scan_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `scan` by a loop that calls its function on one slice of each operand at a time."""
    expand_instructions(module, rewrites, "scan_expander.expand", ["scan"], expand)
