"""A machine beside the interpreter: the first instruction that it gets wrong.

The instructions of a computation are run a segment at a time: by the interpreter, and as a module
of their own by the machine, on the interpreter's values of what comes in. A segment that gives
something else is halved until one instruction is left. So rounding does not add up from segment to
segment, and no more is in memory than the interpreter needs anyway. Loops are run iteration by
iteration, each from the interpreter's state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hlo.debug.divergence.tolerance import Tolerance, moved
from hlo.eval.interpreter import Interpreter
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import module_of
from hlo.testing.compare import Comparison, nudged
from hlo.values.types import ArrayShape, TokenShape, TupleShape

# Runs a module on values for its parameters.
Execute = Callable[[Module, Sequence[Any]], Any]

_LEAST, _MOST_SEGMENTS = 24, 48
# What is no work of its own goes with what uses it.
_FREE = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
_CONTROL = frozenset({"while", "conditional", "call", "fusion"})

Frames = tuple[tuple[Instruction, int | None], ...]


@dataclass(frozen=True)
class Wrong:
    """What a machine gets wrong: instructions, from first to last, run as one module.

    insts: one, unless several are right one by one and wrong together. at: the one whose value is
    off. arguments: for the module's parameters.
    """

    at: Instruction
    insts: Sequence[Instruction]
    frames: Frames
    comparison: Comparison
    module: Module
    arguments: Sequence[Any]
    got: Any
    want: Any


class _Found(Exception):
    def __init__(self, wrong: Wrong) -> None:
        self.wrong = wrong


class Machine:
    """Looks for what a machine gets wrong in a module.

    execute: runs modules there. Raises whatever it raises.
    """

    def __init__(
        self, execute: Execute, interpreter: Interpreter, tolerance: Tolerance,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._tell = tell
        self._execute = execute
        self._interpreter = interpreter
        self._tolerance = tolerance
        # Computations as modules, made once: a machine keeps what it has compiled.
        self._alone: dict[Computation, Module] = {}

    def first_wrong(self, module: Module, arguments: Sequence[Any]) -> Wrong | None:
        """Return the first instruction that the machine gets wrong, None if none alone."""
        try:
            self._run(module.entry, arguments, ())
        except _Found as found:
            return found.wrong
        return None

    def _run(self, comp: Computation, arguments: Sequence[Any], frames: Frames) -> Any:
        """Run a computation and look at each of its segments; returns the interpreter's result."""
        order = comp.in_order()
        values: dict[Instruction, Any] = {}
        last: dict[Instruction, int] = {}
        for number, inst in enumerate(order):
            for operand in inst.operands:
                last[operand] = number
        last[comp.root] = len(order)
        done = 0
        for segment in _segments(order):
            for inst in segment:
                values[inst] = self._value(inst, values, arguments)
            self._look(segment, values, frames, comp.root)
            done += len(segment)
            if not frames:
                self._tell(f"looked at {done} of {len(order)} instructions")
            for gone in [i for i in values if last.get(i, 0) < done and i.opcode != "parameter"]:
                del values[gone]
        return values[comp.root]

    def _value(
        self, inst: Instruction, values: dict[Instruction, Any], arguments: Sequence[Any]
    ) -> Any:
        if inst.opcode == "parameter":
            return arguments[inst.parameter_number]
        operands = [values[o] for o in inst.operands]
        if inst.opcode == "tuple":
            return tuple(operands)
        if inst.opcode == "get-tuple-element":
            return operands[0][inst.tuple_index]
        return self._interpreter.evaluate(inst, operands)

    def _look(
        self, segment: Sequence[Instruction], values: dict[Instruction, Any], frames: Frames,
        root: Instruction,
    ) -> None:  # fmt: skip
        """Run a segment on the machine. Raises _Found if it gives something else."""
        wrong = self._wrong(segment, values, frames, root)
        if wrong is None:
            return
        work = [i for i in segment if i.opcode not in _FREE]
        if len(work) > 1:
            # From the middle of the work on: what is free goes along.
            middle = segment.index(work[len(work) // 2])
            self._look(segment[:middle], values, frames, root)
            self._look(segment[middle:], values, frames, root)
            wrong = self._smallest(segment, wrong, values, frames, root)
        elif work and work[0].opcode in _CONTROL:
            self._look_inside(work[0], values, frames)
        elif work:
            wrong = self._wrong(work, values, frames, root) or wrong
            constants = [o for o in work[0].operands if o.opcode == "constant"]
            if constants and self._wrong(work, values, frames, root, passed=constants) is None:
                # Right where it is given their values: of several it is any.
                wrong = replace(wrong, at=constants[0], insts=constants[:1])
        raise _Found(wrong)

    def _smallest(
        self, segment: Sequence[Instruction], wrong: Wrong, values: dict[Instruction, Any],
        frames: Frames, root: Instruction,
    ) -> Wrong:  # fmt: skip
        """Return what is left of a wrong segment without what it is wrong without, at its ends."""
        start, stop = 0, len(segment)
        for end in range(stop - 1, 0, -1):
            found = self._wrong(segment[start:end], values, frames, root)
            if found is None:
                break
            wrong, stop = found, end
        for begin in range(1, stop):
            found = self._wrong(segment[begin:stop], values, frames, root)
            if found is None:
                break
            wrong = found
        return wrong

    def _wrong(
        self, segment: Sequence[Instruction], values: dict[Instruction, Any], frames: Frames,
        root: Instruction, passed: Collection[Instruction] = (),
    ) -> Wrong | None:  # fmt: skip
        """Return what the machine gets wrong in a segment.

        passed: constants that the segment's module has as parameters.
        """
        made = _as_module(segment, root, passed)
        if made is None:
            return None
        module, incoming, outgoing = made
        arguments = [
            self._interpreter.evaluate(i, []) if i.opcode == "constant" else values[i]
            for i in incoming
        ]
        result = self._execute(module, arguments)

        @cache
        def nearby() -> list[Any]:
            near = self._interpreter.call(module.entry, [nudged(a) for a in arguments])
            return [a for value in near for a in _arrays(value)]

        insts = [i for i in outgoing for _ in _arrays(values[i])]
        wanted = [a for i in outgoing for a in _arrays(values[i])]
        for number, got in enumerate(_arrays(result)):
            want = wanted[number]

            def moves(number: int = number, want: Any = want) -> float:
                return moved(want, nearby()[number])

            comparison = self._tolerance.compare(got, want, moves)
            if not comparison.same:
                work = [i for i in segment if i.opcode not in _FREE]
                at = insts[number]
                return Wrong(at, work, frames, comparison, module, arguments, got, want)
        return None

    def _look_inside(
        self, inst: Instruction, values: dict[Instruction, Any], frames: Frames
    ) -> None:
        """Look into what a wrong instruction calls. Raises _Found."""
        operands = [values[o] for o in inst.operands]
        if inst.opcode in ("call", "fusion"):
            self._run(inst.called_computations[0], operands, (*frames, (inst, None)))
        elif inst.opcode == "conditional":
            branches = inst.called_computations
            selector = operands[0]
            at = int(selector)
            if selector.dtype.kind == "b":
                at = 1 - at
            at = at if 0 <= at < len(branches) else len(branches) - 1
            self._run(branches[at], [operands[1 + at]], (*frames, (inst, None)))
        else:
            state, iteration = operands[0], 0
            while True:
                inside = (*frames, (inst, iteration))
                if not self._checked(inst.condition, [state], inside):
                    return
                state = self._checked(inst.body, [state], inside)
                iteration += 1

    def _checked(self, comp: Computation, arguments: Sequence[Any], frames: Frames) -> Any:
        """Return a computation's result; if the machine has another one, look into it."""
        want = self._interpreter.call(comp, arguments)
        module = self._alone.get(comp)
        if module is None:
            module = self._alone[comp] = module_of(
                comp.clone(comp.name), comp.root.module_functions
            )
        got = self._execute(module, arguments)
        pairs = zip(_arrays(got), _arrays(want), strict=True)
        if not all(self._tolerance.compare(a, b).same for a, b in pairs):
            self._run(comp, arguments, frames)
        return want


def _segments(order: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    size = max(_LEAST, len(order) // _MOST_SEGMENTS)
    for start in range(0, len(order), size):
        yield list(order[start : start + size])


def _as_module(
    segment: Sequence[Instruction], root: Instruction, passed: Collection[Instruction]
) -> tuple[Module, list[Instruction], list[Instruction]] | None:
    """Return instructions as a module, what its parameters are, and what its results are.

    None where there is nothing to compute, or to compare.
    """
    inside = set(segment)
    comp = Computation("segment")
    made: dict[Instruction, Instruction] = {}
    incoming: list[Instruction] = []

    def known(inst: Instruction) -> Instruction:
        found = made.get(inst)
        if found is not None:
            return found
        if inst.opcode == "constant" and inst not in passed:
            made[inst] = comp.add(inst.clone())
        else:
            number = len(incoming)
            incoming.append(inst)
            made[inst] = comp.add(
                Instruction(inst.name, "parameter", inst.shape, (), {"number": number})
            )
        return made[inst]

    for inst in segment:
        if inst.opcode in ("parameter", "constant"):
            continue
        made[inst] = comp.add(inst.clone([known(o) for o in inst.operands]))
    outgoing = [
        i
        for i in segment
        if i in made
        and isinstance(i.shape, ArrayShape | TupleShape)
        and not any(isinstance(leaf, TokenShape) for _, leaf in i.shape.leaves())
        and i.opcode != "tuple"
        and (i is root or any(u not in inside or u.opcode == "tuple" for u in i.users))
    ]
    if not outgoing:
        return None
    results = [made[i] for i in outgoing]
    shape = TupleShape(tuple(r.shape for r in results))
    comp.add(Instruction("results", "tuple", shape, results), root=True)
    return module_of(comp, root.module_functions), incoming, outgoing


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)
    elif hasattr(value, "dtype"):
        yield value
