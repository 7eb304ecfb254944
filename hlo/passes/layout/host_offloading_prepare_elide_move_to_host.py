"""Moves to the host before computations that run there."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.passes.layout._host_memory import TO_HOST, is_mark
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused


@module_pass
def host_offloading_prepare_elide_move_to_host(module: Module, rewrites: Rewrites) -> None:
    """Remove MoveToHost before computations that run on the host anyway."""
    for comp in unfused(module):
        for start in comp:
            if not _runs_on_host(start):
                continue
            for number, operand in enumerate(start.operands):
                if not is_mark(operand, TO_HOST) or has_control_edges(operand):
                    continue
                if rewrites.allow("host_offloading_prepare_elide_move_to_host", operand):
                    start.replace_operand(number, operand.operands[0])
                    if not operand.num_users and not operand.is_root:
                        comp.remove(operand)


def _runs_on_host(start: Instruction) -> bool:
    if start.opcode != "async-start" or start.async_execution_thread != "host":
        return False
    return bool(start.calls.root.opcode == "call")
