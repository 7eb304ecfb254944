"""Constants whose values a printer left out, `{...}`, and whether anything depends on them."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.values.literal import Literal


def elided_constants(module: Module) -> list[Instruction]:
    """Return the elided constants that a result or an effect of a valid module depends on."""
    elided = [i for i in module.instructions() if is_elided(i)]
    if not elided:
        return []
    effects = Effects()
    live: set[Instruction] = set()
    entered: set[Computation] = set()
    todo: list[Instruction] = []

    def enter(comp: Computation) -> None:
        if comp not in entered:
            entered.add(comp)
            todo.append(comp.root)
            todo.extend(i for i in comp if effects.has_side_effect(i))

    enter(module.entry)
    while todo:
        inst = todo.pop()
        if inst not in live:
            live.add(inst)
            todo.extend(inst.operands)
            for callee in inst.called_computations:
                enter(callee)
    return [i for i in elided if i in live]


def is_elided(inst: Instruction) -> bool:
    """True for a constant of which a part is elided."""
    literal: Literal | None = inst.literal if inst.opcode == "constant" else None
    return literal is not None and literal.is_elided_in_part
