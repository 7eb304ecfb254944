"""Removal of control dependences."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def control_dep_remover(module: Module, rewrites: Rewrites) -> None:
    """Remove control dependences; only operands, tokens included, order instructions."""
    for inst in module.instructions():
        for before in list(inst.control_predecessors):
            if rewrites.allow("control_dep_remover", inst):
                inst.remove_control_predecessor(before)
