"""Collectives in one order on all devices."""

from __future__ import annotations

from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused


@module_pass
def collectives_schedule_linearizer(module: Module, rewrites: Rewrites) -> None:
    """Order independent collectives by control dependences, one after the other.

    Devices that come to them in different orders wait for each other without end.
    """
    for comp in unfused(module):
        _linearize(comp, rewrites)


def _linearize(comp: Computation, rewrites: Rewrites) -> None:
    # Collectives have numbers from 1. Which one, the latest, has surely ended before an instruction
    # runs; those before it have then, too.
    ended: dict[Instruction, int] = {}
    number: dict[Instruction, int] = {}
    last: Instruction | None = None
    for inst in _starts_late(comp):
        before = max((ended[p] for p in inst.predecessors()), default=0)
        if _meets(inst):
            # Only later instructions in this order may depend on `inst`.
            if last in ended and before < len(number):
                if rewrites.allow("collectives_schedule_linearizer", inst):
                    inst.add_control_predecessor(last)
                    before = len(number)
            last = _done(inst)
            number[last] = len(number) + 1
        ended[inst] = max(before, number.get(inst, 0))


def _starts_late(comp: Computation) -> list[Instruction]:
    """Return a topological order of the instructions, with starts right before their users."""
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    for root in comp:
        if root in seen or (_is_start(root) and root.num_users):
            continue
        seen.add(root)
        stack = [(root, root.predecessors())]
        while stack:
            before = next((p for p in stack[-1][1] if p not in seen), None)
            if before is None:
                order.append(stack.pop()[0])
            else:
                seen.add(before)
                stack.append((before, before.predecessors()))
    return order


def _is_start(inst: Instruction) -> bool:
    return inst.opcode.endswith("-start")


def _meets(inst: Instruction) -> bool:
    """True for a collective, or the start of one."""
    if inst.opcode == "async-start":
        return any(_meets(i) for i in inst.calls)
    return inst.spec.has(Trait.COLLECTIVE) and not inst.opcode.endswith("-done")


def _done(inst: Instruction) -> Instruction:
    """Return what waits for the end of a collective: itself, unless it only starts."""
    while _is_start(inst) or inst.opcode == "async-update":
        if inst.num_users != 1:
            break
        inst = inst.users[0]
    return inst
