"""Trip counts of loops that can be determined statically."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.values.types import ArrayShape, ElementType

# Instructions that forward their operand's value.
_SAME = frozenset({"copy", "opt-barrier"})
_MAX_TRIPS = 2**62
_OF_HOST = frozenset({"infeed", "outfeed", "custom-call"})
_VARYING = Trait.SIDE_EFFECT | Trait.NO_FOLD | Trait.COLLECTIVE


@dataclass(frozen=True)
class Counter:
    """An induction variable: an integer of a loop's state with value `start + k * step` in
    iteration k.

    index: its index in the state. count: the exact trip count.
    """

    index: int
    start: int
    step: int
    count: int


def trip_count(loop: Instruction) -> int | None:
    """Return the trip count of a `while`, or None if it is unknown.

    It is known for counting loops, and from `backend_config`.
    """
    counter = counted(loop)
    return _stated(loop) if counter is None else counter.count


def never_ends(loop: Instruction) -> bool:
    """True for a loop that never ends once its body has been entered.

    Its condition reads only loop-invariant values, and its body has no side effect that could end
    the run: only the host can, in sends, receives and custom calls.
    """
    condition, body = loop.condition, loop.body
    (state,) = condition.parameters
    if body.root is not body.parameters[0]:
        if state.is_root or any(u.opcode != "get-tuple-element" for u in state.users):
            return False
        if body.root.opcode != "tuple":
            return not state.num_users and not _asks_the_host(loop)
        for user in state.users:
            index = user.tuple_index
            if _element(body.root.operands[index]) != index:
                return False
    return not _asks_the_host(loop)


def _asks_the_host(loop: Instruction) -> bool:
    """True for a loop whose condition is not deterministic, or whose body may fail."""
    stack, seen = [*loop.called_computations], set(loop.called_computations)
    while stack:
        for inst in stack.pop():
            if inst.opcode in _OF_HOST or inst.is_host_transfer:
                return True
            new = [c for c in inst.called_computations if c not in seen]
            seen.update(new)
            stack.extend(new)
    condition = loop.condition
    return any(i.spec.has(_VARYING) or i.called_computations for i in condition)


def _stated(loop: Instruction) -> int | None:
    text = loop.annotations.get("backend_config")
    try:
        count = json.loads(str(text))["known_trip_count"]["n"]
        return int(count)
    except (ValueError, KeyError, TypeError):  # other backends write other things here
        return None


def counted(loop: Instruction) -> Counter | None:
    """Return the induction variable of a counting loop, or None.

    An integer of the state starts from a constant, the body adds a constant to it, and the
    condition compares it with a constant. None when it would overflow before the loop ends.
    """
    test, body = loop.condition.root, loop.body
    if test.opcode != "compare":
        return None
    index, bound = _element(test.operands[0]), _constant(test.operands[1])
    direction = test.direction
    if index is None:
        index, bound = _element(test.operands[1]), _constant(test.operands[0])
        direction = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction)
    if index is None or bound is None or body.root.opcode != "tuple":
        return None
    shape = body.root.operands[index].shape
    start = _start(loop.operands[0], index)
    step = _step(body.root.operands[index], index)
    if start is None or not step or not isinstance(shape, ArrayShape):
        return None
    count = max(0, _count(start, bound, step, direction))
    low, high = _range(shape.element_type)
    if count > _MAX_TRIPS or not low <= start + count * step <= high:
        return None
    return Counter(index, start, step, count)


def _count(start: int, bound: int, step: int, direction: str) -> int:
    """Return the trip count of a counting loop; an impossibly large number if it never ends."""
    distance, size = (bound - start) * (1 if step > 0 else -1), abs(step)
    if direction == ("LT" if step > 0 else "GT"):
        return -(-distance // size)
    if direction == ("LE" if step > 0 else "GE"):
        return distance // size + 1
    if direction == "NE" and distance >= 0 and distance % size == 0:
        return distance // size
    if direction == "EQ":
        return int(start == bound)
    holds = {"LT": start < bound, "GT": start > bound, "LE": start <= bound, "GE": start >= bound}
    return _MAX_TRIPS + 1 if holds.get(direction, True) else 0


def _range(et: ElementType) -> tuple[int, int]:
    """Return the least and the largest value of an integer type."""
    if et.is_signed:
        return -(1 << et.bits - 1), (1 << et.bits - 1) - 1
    return 0, (1 << et.bits) - 1


def _through(inst: Instruction) -> Instruction:
    while inst.opcode in _SAME:
        inst = inst.operands[0]
    return inst


def _element(inst: Instruction) -> int | None:
    """Return the number of the state element that an instruction is, in a body or condition."""
    inst = _through(inst)
    if inst.opcode != "get-tuple-element" or inst.operands[0].opcode != "parameter":
        return None
    return int(inst.tuple_index)


def _constant(inst: Instruction) -> int | None:
    inst = _through(inst)
    shape = inst.shape
    if inst.opcode != "constant" or not isinstance(shape, ArrayShape) or shape.dims:
        return None
    if not shape.element_type.is_integer:
        return None
    value: Any = inst.literal.value
    return int(value)


def _start(init: Instruction, index: int) -> int | None:
    init = _through(init)
    return _constant(init.operands[index]) if init.opcode == "tuple" else None


def _step(inst: Instruction, index: int) -> int | None:
    """Return the constant that an instruction adds to the state element `index`, else None."""
    inst = _through(inst)
    if inst.opcode == "add":
        a, b = inst.operands
        if _element(a) == index:
            return _constant(b)
        return _constant(a) if _element(b) == index else None
    if inst.opcode == "subtract" and _element(inst.operands[0]) == index:
        step = _constant(inst.operands[1])
        return None if step is None else -step
    return None
