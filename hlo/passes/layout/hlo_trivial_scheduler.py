"""The current order as the schedule."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def hlo_trivial_scheduler(module: Module, rewrites: Rewrites) -> None:
    """Mark the module as scheduled in its current order."""
    if not module.is_scheduled and rewrites.allow("hlo_trivial_scheduler.mark", module.entry.root):
        for comp in module.computations:
            comp.sort()
        module.attrs["is_scheduled"] = True
