"""Conditionals in functions of elements."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Module
from hlo.ir.calls import Calls, applied_computations
from hlo.passes.control_flow._branches import is_quick, select_branch
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def conditional_to_select(module: Module, rewrites: Rewrites) -> None:
    """Replace conditionals by selects in computations that are applied to elements.

    Such functions run side by side for many elements, which cannot branch apart. All branches have
    to be functions of their argument that surely end.
    """
    calls, effects = Calls(module), Effects()
    for comp in applied_computations(module):
        for inst in comp.in_order():
            if inst.opcode != "conditional" or has_control_edges(inst):
                continue
            if all(is_quick(c, effects) for c in inst.called_computations) and rewrites.allow(
                "conditional_to_select", inst
            ):
                select_branch(inst, calls)
