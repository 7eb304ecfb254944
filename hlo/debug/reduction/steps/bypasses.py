"""Instructions are replaced by one of their operands of the same shape."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import at
from hlo.ir import Instruction, Module


def targets(module: Module) -> list[str]:
    return [
        f"{comp.name} {inst.name} {number}"
        for comp in module
        for inst in comp.in_order()
        for number in _alike(inst)
    ]


def _alike(inst: Instruction) -> list[int]:
    """Return the numbers of the operands that have an instruction's shape, each operand once."""
    operands = list(dict.fromkeys(inst.operands))
    return [inst.operands.index(o) for o in operands if o.shape == inst.shape]


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for target in targets:
        comp, name, number = target.split()
        inst = at(module, (comp, name))
        if inst is not None and int(number) in _alike(inst):
            if inst.num_users or inst.is_root:
                inst.replace_all_uses_with(inst.operands[int(number)])
                done = True
    return done
