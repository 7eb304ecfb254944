"""Parameters and constants at the beginning of schedules."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused


@module_pass
def instruction_hoister(
    module: Module,
    rewrites: Rewrites,
    *,
    hoist_parameters: bool = True,
    hoist_constants: bool = True,
) -> None:
    """Move parameters and constants to the front of schedules."""
    if not module.is_scheduled:
        return

    def comes_first(inst: Instruction) -> bool:
        if inst.control_predecessors:
            return False
        return (inst.opcode == "parameter" and hoist_parameters) or (
            inst.opcode == "constant" and hoist_constants
        )

    for comp in unfused(module):
        order = comp.in_order()
        wanted = sorted(order, key=lambda inst: not comes_first(inst))
        if wanted != order and rewrites.allow("instruction_hoister", comp.root):
            comp.reorder(wanted)
