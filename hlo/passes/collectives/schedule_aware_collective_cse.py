"""Collectives that are done again soon."""

from __future__ import annotations

from collections.abc import Hashable

from hlo.analysis.congruence import Congruence
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable, meeting
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode, unfused

_OPCODES = frozenset(
    {"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}
)


@module_pass
def schedule_aware_collective_cse(
    module: Module, rewrites: Rewrites, *, distance_threshold: int = 100
) -> None:
    """Eliminate repeated collectives on the same value over the same devices.

    distance_threshold: the maximum number of instructions between both; a longer live range would
    cost more than the communication saved.
    """
    if not has_opcode(module, _OPCODES):
        return
    congruence = Congruence()
    for comp in unfused(module):
        last: dict[Hashable, tuple[int, Instruction]] = {}
        for place, inst in enumerate(comp.in_order()):
            if inst.opcode not in _OPCODES or not is_movable(inst):
                continue
            key = inst.operands[0], inst.array_shape.dims, meeting(inst, congruence)
            before, same = last.get(key, (place, inst))
            is_near = place - before <= distance_threshold
            if same is inst or not is_near:
                last[key] = place, inst
            elif rewrites.allow("schedule_aware_collective_cse", inst):
                inst.replace_all_uses_with(Builder(comp, inst).relaid(same, inst.shape))
                comp.remove(inst)
