"""Loops whose state is a tuple: analysis of its elements, and replacing the state."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone
from hlo.ops import Trait
from hlo.passes.rules import has_opcode, unfused
from hlo.values.types import Shape, TupleShape

_LOOP = ("while",)


def loops_of(module: Module) -> list[Instruction]:
    """Return the loops, inner before outer."""
    computations = [c for c in unfused(module) if c.has_opcode(_LOOP)]
    return [i for comp in computations for i in comp if i.opcode == "while"]


def until_unchanged(module: Module, visit: Callable[[Instruction], bool]) -> None:
    """Visit loops again and again until no visit changes anything.

    A change inside a loop can make another one around it possible, and the other way round: every
    other time those around others come first, so that neither goes one loop further a time.
    """
    while has_opcode(module, _LOOP) and _from_outside(module, visit):
        if not _from_inside(module, visit):
            break


def _from_inside(module: Module, visit: Callable[[Instruction], bool]) -> bool:
    return any(
        [
            visit(loop)
            for loop in loops_of(module)
            if loop.parent is not None and loop.parent.module is module
        ]
    )


def _from_outside(module: Module, visit: Callable[[Instruction], bool]) -> bool:
    """Visit the loops around others first.

    A visit may give a loop a new body, or replace the loop by its body, including inner loops.
    """
    changed, callees = False, Calls(module).counts
    todo = [c for c in module.computations if not callees[c]]
    seen = set(todo)
    while todo:
        comp = todo.pop()
        visited: set[Instruction] = set()
        while loops := [i for i in comp if i.opcode == "while" and i not in visited]:
            visited.update(loops)
            changed |= any([visit(loop) for loop in loops if loop.parent is comp])
        for inst in comp:
            if inst.spec.has(Trait.CONTROL_FLOW):
                inner = [c for c in inst.called_computations if c not in seen]
                seen.update(inner)
                todo += inner
    return changed


def is_tuple_loop(loop: Instruction) -> bool:
    """True for a loop that accesses its state only by element and rebuilds it as a tuple."""
    body, condition = loop.body, loop.condition
    return (
        isinstance(loop.shape, TupleShape)
        and loop.parent is not None
        and not has_control_edges(loop)
        and body.root.opcode == "tuple"
        and not has_control_edges(body.root)
        and _is_taken_apart(body)
        and _is_taken_apart(condition)
    )


def _is_taken_apart(comp: Computation) -> bool:
    state = comp.parameters[0]
    return not state.is_root and all(
        u.opcode == "get-tuple-element" and not has_control_edges(u) for u in state.users
    )


def size_of_state(loop: Instruction) -> int:
    """Return how many elements the state of a loop has."""
    assert isinstance(loop.shape, TupleShape)
    return len(loop.shape.elements)


def is_element(inst: Instruction, index: int) -> bool:
    """True for an element of the state, in the body or the condition."""
    return (
        inst.opcode == "get-tuple-element"
        and inst.operands[0].opcode == "parameter"
        and inst.tuple_index == index
    )


def invariant_elements(loop: Instruction) -> set[int]:
    """Return the loop-invariant elements of the state."""
    return {i for i, o in enumerate(loop.body.root.operands) if is_element(o, i)}


def element_uses(comp: Computation, *, root: bool) -> set[int]:
    """Return the elements of its argument that a computation uses.

    root: whether a use by the root alone counts.
    """
    return {
        u.tuple_index
        for u in comp.parameters[0].users
        if u.is_root or any(root or not user.is_root for user in u.users)
    }


def element_has_one_layout(loop: Instruction, index: int) -> bool:
    """True when an element has the same layout in all of the loop."""
    shapes = [
        loop.shape,
        loop.operands[0].shape,
        *(c.parameters[0].shape for c in loop.called_computations),
        loop.body.root.shape,
    ]
    found = {s.elements[index] for s in shapes if isinstance(s, TupleShape)}
    return len(found) == 1


@dataclass
class State:
    """A loop's state to be. Elements are numbered as before.

    keep: the elements to keep, in order. fixed: elements that are constants inside the loop.
    same: elements that equal another one. more: values inside the body that become elements, and
    their values outside.
    """

    keep: Sequence[int]
    fixed: Mapping[int, Instruction] = field(default_factory=dict)
    same: Mapping[int, int] = field(default_factory=dict)
    more: Sequence[tuple[Instruction, Instruction]] = ()

    @property
    def places(self) -> dict[int, int]:
        return {i: place for place, i in enumerate(self.keep)}


def with_state(loop: Instruction, state: State, calls: Calls, effects: Effects) -> Instruction:
    """Replace a loop by one with a different state, with new computations; returns it.

    What uses an element that is no longer there, or never changes, uses the initial value.
    """
    comp, init = loop.parent, loop.operands[0]
    assert comp is not None and isinstance(loop.shape, TupleShape)
    b = Builder(comp, loop)
    old = [b.element(init, i) for i in range(size_of_state(loop))]
    more = [outside for _, outside in state.more]
    new = b.op(
        "while",
        b.tuple(*(old[i] for i in state.keep), *more),
        shape=TupleShape((*(loop.shape.elements[i] for i in state.keep), *(m.shape for m in more))),
        body=_body(loop, state, effects),
        condition=_condition(loop, state, effects),
    )
    places = {i: state.places.get(state.same.get(i, i)) for i in range(len(old))}
    new.annotations.update(annotations_for(loop, places))
    new.annotations.pop("sharding", None)
    _replace(loop, new, old, state, b)
    exchange(loop, new, calls, effects)
    return new


def exchange(loop: Instruction, new: Instruction, calls: Calls, effects: Effects) -> None:
    """Remove a loop without users, and record one with new computations.

    The old computations go first, so that the new ones have their names. What both call stays.
    """
    inner = [c for comp in new.called_computations for i in comp for c in i.called_computations]
    calls.counts.update(inner)
    calls.remove(loop)
    calls.added([new])
    calls.forget(inner)


def annotations_for(loop: Instruction, places: Mapping[int, int | None]) -> dict[str, Any]:
    """Return a loop's annotations for a state whose elements have other indices or were removed.

    XLA's `WhileLoopBackendConfig` contains the index of the induction variable.
    """
    notes = dict(loop.annotations)
    try:
        config = json.loads(str(notes.get("backend_config")))
        place = places.get(int(config["known_induction_variable"]["tuple_index"]))
    except (ValueError, KeyError, TypeError):  # it says no such thing
        return notes
    if place is None:
        del config["known_induction_variable"]
    else:
        config["known_induction_variable"]["tuple_index"] = str(place)
    notes["backend_config"] = json.dumps(config, separators=(",", ":"))
    return notes


def _replace(
    loop: Instruction, new: Instruction, old: Sequence[Instruction], state: State, b: Builder
) -> None:
    places, unchanged = state.places, invariant_elements(loop)
    values: dict[int, Instruction] = {}
    at: dict[int, Instruction] = {}

    def value(index: int) -> Instruction:
        if index not in values:
            place = places.get(state.same.get(index, index))
            if index in unchanged or place is None:
                assert isinstance(loop.shape, TupleShape)
                values[index] = b.relaid(old[index], loop.shape.elements[index])
            else:
                # Equal elements are one value for whatever looks for equals next.
                at[place] = at.get(place) or b.op("get-tuple-element", new, index=place)
                values[index] = at[place]
        return values[index]

    for user in loop.users:
        if user.opcode == "get-tuple-element" and not has_control_edges(user):
            user.replace_all_uses_with(value(user.tuple_index))
            assert user.parent is not None
            user.parent.remove(user)
    if loop.num_users or loop.is_root:
        loop.replace_all_uses_with(b.tuple(*map(value, range(len(old)))))


def _condition(loop: Instruction, state: State, effects: Effects) -> Computation:
    condition = loop.condition
    acting = [i for i in condition if effects.has_side_effect(i)]
    copy, made = _computation(condition, state, {}, [condition.root, *acting])
    copy.set_root(made[condition.root])
    return copy


def _body(loop: Instruction, state: State, effects: Effects) -> Computation:
    body = loop.body
    unchanged = invariant_elements(loop)
    results = [body.root.operands[i] for i in state.keep if i not in unchanged]
    acting = [i for i in body if effects.has_side_effect(i)]
    inside = {inst: len(state.keep) + n for n, (inst, _) in enumerate(state.more)}
    copy, made = _computation(body, state, inside, [*results, *acting])
    b, argument = Builder(copy, body.root), copy.parameters[0]
    roots = [
        b.element(argument, place) if i in unchanged else made[body.root.operands[i]]
        for place, i in enumerate(state.keep)
    ]
    roots += [b.element(argument, place) for place in inside.values()]
    root = b.tuple(*roots)
    copy.set_root(root)
    return copy


def _computation(
    comp: Computation,
    state: State,
    inside: Mapping[Instruction, int],
    needed: Sequence[Instruction],
) -> tuple[Computation, dict[Instruction, Instruction]]:
    """Return a copy for a different state, and a map from instructions to their copies.

    inside: the values that are elements of the new state, with their indices. needed: the
    instructions to copy, with their operands.
    """
    copy, old = Computation(comp.name, execution_thread=comp.execution_thread), comp.parameters[0]
    assert isinstance(old.shape, TupleShape)
    shapes: list[Shape] = [old.shape.elements[i] for i in state.keep]
    shapes += [outside.shape for _, outside in state.more]
    b = Builder(copy, old)
    argument = b.parameter(0, TupleShape(tuple(shapes)), old.name)
    made: dict[Instruction, Instruction] = {}
    places = state.places
    at: dict[int, Instruction] = {}
    for user in old.users:
        index = user.tuple_index
        index = state.same.get(index, index)
        if index in state.fixed:
            _copy_constant(state.fixed[index], copy, made)
            made[user] = made[state.fixed[index]]
        elif index in places:
            at[index] = at.get(index) or b.element(argument, places[index])
            made[user] = at[index]
    for inst, place in inside.items():
        made[inst] = b.element(argument, place)
    copy_cone(comp, copy, made, needed)
    return copy, made


def _copy_constant(
    value: Instruction, target: Computation, made: dict[Instruction, Instruction]
) -> None:
    """Append a copy of a constant, or of the broadcast of one, if there is none yet."""
    if value not in made:
        for operand in value.operands:
            _copy_constant(operand, target, made)
        made[value] = target.add(value.clone([made[o] for o in value.operands]))


def live_elements(
    loop: Instruction, gone: Collection[int], same: Mapping[int, int], effects: Effects
) -> list[int]:
    """Return the elements that a result, the condition or a side effect needs, in order.

    gone: elements that need not be carried. same: elements that equal others.
    """
    body, condition = loop.body, loop.condition
    unchanged = invariant_elements(loop)
    needed: set[int] = set()
    for user in loop.users:
        if user.opcode == "get-tuple-element" and not has_control_edges(user):
            needed.add(user.tuple_index)
        else:
            needed.update(range(size_of_state(loop)))
    if loop.is_root:
        needed.update(range(size_of_state(loop)))
    needed -= unchanged
    needed |= element_uses(condition, root=True)
    live: set[int] = set()
    seen: set[Instruction] = set()
    stack = [i for i in body if effects.has_side_effect(i)]
    while stack or needed:
        if needed:
            index = needed.pop()
            index = same.get(index, index)
            if index not in live and index not in gone:
                live.add(index)
                stack.append(body.root.operands[index])
            continue
        inst = stack.pop()
        if inst in seen:
            continue
        seen.add(inst)
        if inst.opcode == "get-tuple-element" and inst.operands[0] is body.parameters[0]:
            needed.add(inst.tuple_index)
        else:
            stack.extend(inst.predecessors())
    return sorted(live)
