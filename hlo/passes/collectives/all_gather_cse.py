"""Parameters that are gathered several times."""

from __future__ import annotations

from collections.abc import Hashable

from hlo.analysis.congruence import Congruence
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable, meeting
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import ElementType


@module_pass
def all_gather_cse(module: Module, rewrites: Rewrites) -> None:
    """Gather a parameter once, looking through barriers, tuples and equal conversions."""
    congruence = Congruence()
    for comp in unfused(module):
        first: dict[Hashable, Instruction] = {}
        for inst in comp.in_order():
            if inst.opcode != "all-gather" or not is_movable(inst):
                continue
            source = _source(inst.operands[0])
            if source is None:
                continue
            key = source, inst.array_shape.dims, meeting(inst, congruence)
            same = first.setdefault(key, inst)
            if same is not inst and rewrites.allow("all_gather_cse", inst):
                inst.replace_all_uses_with(Builder(comp, inst).relaid(same, inst.shape))
                comp.remove(inst)


def _source(inst: Instruction) -> Hashable | None:
    """Return the parameter that a value forwards, the index in it, and the types it was converted
    to."""
    path: list[int] = []
    types: list[ElementType] = []
    while inst.opcode != "parameter":
        if inst.opcode == "convert":
            types.append(inst.array_shape.element_type)
        elif inst.opcode == "get-tuple-element":
            path.append(inst.tuple_index)
        elif inst.opcode == "tuple" and path:
            inst = inst.operands[path.pop()]
            continue
        elif inst.opcode != "opt-barrier":
            return None
        inst = inst.operands[0]
    return inst, tuple(path), tuple(types)
