"""The mark of a module whose order of instructions is the order of execution."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.rewrites import Rewrites


def mark_scheduled(module: Module, rewrites: Rewrites, rule: str) -> None:
    """Mark a module as scheduled in its current order, unless it is already."""
    if not module.is_scheduled and rewrites.allow(rule, module.entry.root):
        for comp in module.computations:
            comp.sort()
        module.attrs["is_scheduled"] = True
