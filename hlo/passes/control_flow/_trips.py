"""Trip counts of loops that start from constants, by simulating their conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.analysis.trips import counted
from hlo.errors import InferError
from hlo.eval import Interpreter
from hlo.ir import Computation, Instruction
from hlo.passes.control_flow._loops import is_tuple_loop
from hlo.values.types import ArrayShape

# XLA's bound on iterations; the others keep a loop's share of the time below milliseconds.
_MAX_TRIPS = 128
_MAX_INSTRUCTIONS = 16
_MAX_ELEMENTS = 64


def known_trips(loop: Instruction, effects: Effects, most: int = _MAX_TRIPS) -> int | None:
    """Return the trip count of a loop, or None if unknown.

    most: do not look further in loops that do more than count.
    """
    counter = counted(loop)
    if counter is not None:
        return counter.count
    return _Trial(loop, effects).count(most) if is_tuple_loop(loop) else None


class _Trial:
    """The elements of a loop's state that its condition needs, and what makes the next ones."""

    def __init__(self, loop: Instruction, effects: Effects) -> None:
        condition, self._body = loop.condition, loop.body
        self._test, self._init, self._effects = condition.root, loop.operands[0], effects
        self._condition_steps = _cone(condition, [condition.root])
        self._steps: list[Instruction] = []
        # Elements may need others.
        self._elements, found = _elements(self._condition_steps), set[int]()
        while found != self._elements and len(self._steps) <= _MAX_INSTRUCTIONS:
            found = self._elements
            results = [self._body.root.operands[i] for i in sorted(found)]
            self._steps = _cone(self._body, results)
            self._elements = found | _elements(self._steps)

    def count(self, most: int) -> int | None:
        steps = [*self._condition_steps, *self._steps]
        if len(steps) > _MAX_INSTRUCTIONS or not all(map(self._may_run, steps)):
            return None
        if self._init.opcode != "tuple":
            return None
        starts = {i: self._init.operands[i] for i in self._elements}
        if any(x.opcode != "constant" or x.literal.elided for x in starts.values()):
            return None
        state = {i: x.literal.value for i, x in starts.items()}
        try:
            for count in range(most + 1):
                if not _run(self._condition_steps, state)[self._test]:
                    return count
                made = _run(self._steps, state)
                state = {i: made[self._body.root.operands[i]] for i in self._elements}
        except InferError:
            pass  # it will say so itself when it runs
        return None

    def _may_run(self, inst: Instruction) -> bool:
        shape = inst.shape
        if inst.opcode == "parameter":
            return True
        if not isinstance(shape, ArrayShape) or shape.is_dynamic or has_control_edges(inst):
            return False
        if inst.called_computations or shape.num_elements > _MAX_ELEMENTS:
            return False
        elided = inst.opcode == "constant" and inst.literal.elided
        return self._effects.is_foldable(inst) and not elided


def _cone(comp: Computation, roots: Sequence[Instruction]) -> list[Instruction]:
    """Return the backward slice of some instructions, in order."""
    needed: set[Instruction] = set()
    stack = list(roots)
    while stack:
        inst = stack.pop()
        if inst not in needed:
            needed.add(inst)
            stack.extend(inst.operands)
    return [i for i in comp.in_order() if i in needed]


def _is_of_state(inst: Instruction) -> bool:
    return inst.opcode == "get-tuple-element" and inst.operands[0].opcode == "parameter"


def _elements(steps: Sequence[Instruction]) -> set[int]:
    return {i.tuple_index for i in steps if _is_of_state(i)}


def _run(steps: Sequence[Instruction], state: Mapping[int, Any]) -> dict[Instruction, Any]:
    interpreter, made = Interpreter(), dict[Instruction, Any]()
    for inst in steps:
        if _is_of_state(inst):
            made[inst] = np.asarray(state[inst.tuple_index])
        elif inst.opcode != "parameter":
            made[inst] = inst.spec.evaluate(inst, [made[o] for o in inst.operands], interpreter)
    return made
