"""Removal of sharding annotations."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused
from hlo.values.types import without_layout

_TARGETS = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding"}
)


@module_pass
def sharding_remover(module: Module, rewrites: Rewrites) -> None:
    """Remove custom calls that annotate shardings, for modules of one device.

    Those that change a shape are more than marks, and stay.
    """
    for inst in [i for comp in unfused(module) for i in comp]:
        if _is_mark(inst) and rewrites.allow("sharding_remover", inst):
            replace_instruction(inst, inst.operands[0])
            assert inst.parent is not None
            inst.parent.remove(inst)


def _is_mark(inst: Instruction) -> bool:
    return (
        inst.opcode == "custom-call"
        and inst.custom_call_target in _TARGETS
        and not inst.custom_call_has_side_effect
        and not has_control_edges(inst)
        and len(inst.operands) == 1
        and without_layout(inst.shape) == without_layout(inst.operands[0].shape)
    )
