"""Loops that carry less, and loops that are none."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Instruction, Module
from hlo.ir.calls import Calls, inline
from hlo.passes.control_flow._flat import has_nested_state, with_flat_state
from hlo.passes.control_flow._loops import (
    State,
    element_has_one_layout,
    invariant_elements,
    is_tuple_loop,
    live_elements,
    size_of_state,
    until_unchanged,
    with_state,
)
from hlo.passes.control_flow._trips import known_trips
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction


@module_pass
def simplify_while_loops(module: Module, rewrites: Rewrites) -> None:
    """Remove invariant and unused loop state, and loops that run once or never.

    Elements of the state that a body hands on as they are have their initial value: a constant
    stands for itself inside, and any is used directly after the loop. Elements that are equal are
    carried once. What only its own next value needs goes. Tuples in the state become its elements.
    """
    calls, effects = Calls(module), Effects()

    def visit(loop: Instruction) -> bool:
        steps = (_remove, _carry_less, _flatten)
        return any(step(loop, calls, effects, rewrites) for step in steps)

    until_unchanged(module, visit)


def _remove(loop: Instruction, calls: Calls, effects: Effects, rewrites: Rewrites) -> bool:
    """Replace a loop that never runs by its initial state, one that runs once by its body."""
    condition = loop.condition
    if any(effects.has_side_effect(i) for i in condition):
        return False
    count = _count(loop, effects)
    if count == 0 and not loop.control_predecessors and not loop.control_successors:
        if not rewrites.allow("simplify_while_loops.never", loop):
            return False
        replace_instruction(loop, loop.operands[0])
    elif count == 1:
        if not rewrites.allow("simplify_while_loops.once", loop):
            return False
        root, built = inline(loop.body, loop.operands, loop)
        calls.added(built)
        replace_instruction(loop, root, built)
    else:
        return False
    calls.remove(loop)
    return True


def _count(loop: Instruction, effects: Effects) -> int | None:
    test = loop.condition.root
    if test.opcode == "constant" and not test.literal.value:
        return 0
    return known_trips(loop, effects, most=1)


def _carry_less(loop: Instruction, calls: Calls, effects: Effects, rewrites: Rewrites) -> bool:
    if not is_tuple_loop(loop):
        return False
    init, unchanged = loop.operands[0], invariant_elements(loop)
    fixed, same = _constants(loop, init), _equals(loop, init)
    same = {i: j for i, j in same.items() if i not in fixed}
    live = live_elements(loop, fixed, same, effects)
    keep = live or [0]
    used_after = {u.tuple_index for u in loop.users if u.opcode == "get-tuple-element"}
    if len(keep) == size_of_state(loop) and not used_after & unchanged:
        return False
    if not rewrites.allow("simplify_while_loops.state", loop):
        return False
    with_state(loop, State(keep, {i: c for i, c in fixed.items() if i not in keep}, same),
               calls, effects)  # fmt: skip
    return True


def _constants(loop: Instruction, init: Instruction) -> dict[int, Instruction]:
    """Return the elements that are constants all the time."""
    if init.opcode != "tuple":
        return {}
    return {
        i: init.operands[i]
        for i in invariant_elements(loop)
        if init.operands[i].opcode == "constant" and element_has_one_layout(loop, i)
    }


def _equals(loop: Instruction, init: Instruction) -> dict[int, int]:
    """Return for elements that begin and go on as an earlier one, that one."""
    if init.opcode != "tuple":
        return {}
    unchanged = invariant_elements(loop)
    first: dict[tuple[Instruction, Instruction | None], int] = {}
    same = {}
    for i, (start, after) in enumerate(zip(init.operands, loop.body.root.operands, strict=True)):
        if element_has_one_layout(loop, i):
            key = start, None if i in unchanged else after
            if first.setdefault(key, i) != i:
                same[i] = first[key]
    return same


def _flatten(loop: Instruction, calls: Calls, effects: Effects, rewrites: Rewrites) -> bool:
    if not has_nested_state(loop) or not rewrites.allow("simplify_while_loops.flat", loop):
        return False
    with_flat_state(loop, calls, effects)
    return True
