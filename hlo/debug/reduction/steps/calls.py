"""Calls and fusions are replaced by what they call; conditionals by each of their branches."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.debug.reduction.editing import at
from hlo.ir import Instruction, Module
from hlo.ir.calls import inline
from hlo.ops import Trait


def targets(module: Module) -> list[str]:
    found = []
    for inst in module.instructions():
        assert inst.parent is not None
        for number, _ in enumerate(inst.called_computations):
            if inst.spec.has(Trait.CALL) or inst.opcode in ("conditional", "while"):
                found.append(f"{inst.parent.name} {inst.name} {number}")
    return found


def apply(module: Module, targets: Sequence[str]) -> bool:
    done = False
    for target in targets:
        comp, name, number = target.split()
        inst = at(module, (comp, name))
        if inst is not None and int(number) < len(inst.called_computations):
            done |= _inlined(inst, int(number))
    return done


def _inlined(inst: Instruction, number: int) -> bool:
    """Compute the value of an instruction by one of its computations, in place; once, of a loop."""
    callee = inst.called_computations[number]
    if inst.opcode == "conditional":
        args = [inst.operands[1 + number]]
    else:
        args = inst.operands
    if callee.result_shape != inst.shape or len(args) != len(callee.parameters):
        return False
    assert inst.parent is not None
    value, _ = inline(callee, args, inst)
    name = inst.name
    inst.replace_all_uses_with(value)
    if value.opcode != "parameter":
        inst.parent.rename(inst, f"{name}.replaced")
        inst.parent.rename(value, name)
    return True
