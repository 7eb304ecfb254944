"""What a loop computes again and again, computed before it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.effects import Effects
from hlo.analysis.trips import trip_count
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone
from hlo.ops import Trait
from hlo.passes.control_flow._loops import (
    State,
    invariant_elements,
    is_tuple_loop,
    loops_of,
    size_of_state,
    with_state,
)
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Shape

# As cheap inside as it would be to read the value; moved only with something that they are for.
_CHEAP = frozenset({
    "bitcast", "broadcast", "constant", "get-tuple-element", "iota", "reshape", "tuple",
})  # fmt: skip
_NEVER = frozenset({"parameter", "after-all", "opt-barrier", "domain"})


@module_pass
def while_loop_invariant_code_motion(
    module: Module,
    rewrites: Rewrites,
    *,
    hoist_size_inflation_ratio: float = 2.0,
    hoist_collectives: bool = True,
) -> None:
    """Hoist loop-invariant instructions out of loops.

    Only functions of what the body does not change are moved. Those that may not end, or may fail,
    such as functions in Python, stay unless the loop surely runs. hoist_size_inflation_ratio: the
    size of a value that is moved over that of its operands, at the most; what is moved lives as
    long as the loop.
    hoist_collectives: also collectives, of any size, such as all-gathers of weights. All devices
    run the loop, and to them the operands are the same in every iteration, too.
    """
    calls, effects, known = Calls(module), Effects(), _Known(module)

    def is_movable(loop: Instruction, inst: Instruction) -> bool:
        return (
            inst.opcode not in _NEVER
            and not has_control_edges(inst)
            and (effects.is_function(inst) or (hoist_collectives and _is_collective(inst)))
            and (effects.is_speculatable(inst) or bool(trip_count(loop)))
        )

    for loop in loops_of(module):
        if loop.parent is None or loop.parent.module is not module or not is_tuple_loop(loop):
            continue
        moved = _moved(loop, partial(is_movable, loop), hoist_size_inflation_ratio)
        if moved and rewrites.allow("while_loop_invariant_code_motion", loop):
            _move(loop, moved, calls, effects, known)


class _Known:
    """What computations compute, so that nothing is moved to where it is already computed."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._values: dict[Computation, dict[Hashable, Instruction]] = {}

    @cached_property
    def _congruence(self) -> Congruence:
        return Congruence()

    def same(self, inst: Instruction) -> Instruction:
        """Return the value that an instruction has in its computation: its own, or an earlier one.

        inst: one that has just been appended.
        """
        comp = inst.parent
        assert comp is not None
        if comp not in self._values:
            values: dict[Hashable, Instruction] = {}
            self._values[comp] = values
            for old in comp:
                if old is not inst and self._is_plain(old):
                    values.setdefault(self._key(old), old)
        if not self._is_plain(inst):
            return inst
        found = self._values[comp].setdefault(self._key(inst), inst)
        if found.parent is not comp:  # gone since
            found = self._values[comp][self._key(inst)] = inst
        return found

    def _key(self, inst: Instruction) -> Hashable:
        return self._congruence.value(inst), tuple(inst.operands)

    def _is_plain(self, inst: Instruction) -> bool:
        return not inst.called_computations and not has_control_edges(inst)


def _moved(
    loop: Instruction, is_movable: Callable[[Instruction], bool], ratio: float
) -> list[Instruction]:
    """Return the values that are computed before the loop from now on.

    What is too large to be moved may go with something small that is computed from it.
    """
    body, unchanged = loop.body, invariant_elements(loop)
    # By what stays the same: the values, moved or there before, that it is computed from.
    sources = {u: {u} for u in body.parameters[0].users if u.tuple_index in unchanged}
    worth: dict[Instruction, None] = {}
    order = body.in_order()
    for inst in order:
        if inst in sources or inst.is_root or not all(o in sources for o in inst.operands):
            continue
        if not is_movable(inst):
            continue
        needed = {s for o in inst.operands for s in sources[o]}
        if _is_cheap(inst):
            sources[inst] = {inst}
        elif not _is_data(inst.shape):
            continue
        elif not _is_collective(inst) and _bytes(inst.shape) > ratio * sum(
            _bytes(s.shape) for s in needed
        ):
            sources[inst] = needed
        else:
            sources[inst] = {inst}
            worth[inst] = None
    # What only others need that are moved is not needed in the loop.
    left: set[Instruction] = set()
    for inst in reversed(order):
        if inst not in sources or (inst not in worth and not left.isdisjoint(inst.users)):
            left.add(inst)
    return [i for i in worth if not left.isdisjoint(i.users)]


def _is_collective(inst: Instruction) -> bool:
    return inst.spec.has(Trait.COLLECTIVE) and not inst.spec.has(
        Trait.SIDE_EFFECT | Trait.DEVICE_ID
    )


def _is_cheap(inst: Instruction) -> bool:
    if inst.opcode == "fusion":
        return all(i.opcode == "parameter" or _is_cheap(i) for i in inst.calls)
    return inst.opcode in _CHEAP


def _move(
    loop: Instruction, moved: list[Instruction], calls: Calls, effects: Effects, known: _Known
) -> None:
    comp, body, init = loop.parent, loop.body, loop.operands[0]
    assert comp is not None
    unchanged, b = invariant_elements(loop), Builder(comp, loop)
    made = {
        user: b.relaid(b.element(init, user.tuple_index), user.shape)
        for user in body.parameters[0].users
        if user.tuple_index in unchanged
    }
    copies = copy_cone(body, comp, made, moved)
    calls.added(copies)
    standing: dict[Instruction, Instruction] = {}
    for copy in copies:
        standing[copy] = same = known.same(copy)
        if same is not copy:
            copy.replace_all_uses_with(same)
            comp.remove(copy)
    more = [(inst, standing.get(made[inst], made[inst])) for inst in moved]
    with_state(loop, State(range(size_of_state(loop)), more=more), calls, effects)


def _is_data(shape: Shape) -> bool:
    return all(isinstance(s, ArrayShape) for _, s in shape.leaves())


def _bytes(shape: Shape) -> int:
    return sum(s.byte_size for _, s in shape.leaves() if isinstance(s, ArrayShape))
