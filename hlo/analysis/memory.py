"""How much memory values take while a module runs, as its text orders it.

Every array value counts from where it is computed until its last use; tuples are their elements,
each with uses of its own, and operations that only pass a value on (get-tuple-element, bitcast, a
reshape that moves nothing, a loop's state) share it. What code generation makes of it is less: it
fuses, and works in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hlo.analysis.bitcasts import is_bitcast
from hlo.ir import Computation, Instruction
from hlo.layout import physical_bytes
from hlo.types import UNBOUNDED, ArrayShape, BufferShape, Shape, TupleShape

_PASS_ON = frozenset(
    "get-tuple-element opt-barrier tuple while add-dependency domain copy-done async-done "
    "async-update send-done recv-done after-all".split()
)


def passes_on(inst: Instruction) -> bool:
    """True for a result in (part of) the memory of the first operand; a tuple's, of them all."""
    return inst.opcode in _PASS_ON or is_bitcast(inst)


@dataclass(frozen=True)
class LiveValue:
    """A value that is live where most memory is."""

    instruction: Instruction
    bytes: int


@dataclass(frozen=True)
class Peak:
    """The most memory that a computation holds at once, arguments and results included.

    at: the instruction during which that is. live: the values then, the largest first; what a
    called computation holds besides its arguments is in `callee`.
    """

    bytes: int
    at: Instruction | None
    live: tuple[LiveValue, ...]
    callee: int


def shape_bytes(shape: Shape) -> int:
    """Return the bytes of all arrays in a shape, in their layouts; 0 of one without a size."""
    total = 0
    for _, leaf in shape.leaves():
        if isinstance(leaf, BufferShape):
            leaf = leaf.element
        if isinstance(leaf, ArrayShape) and UNBOUNDED not in leaf.dims:
            total += physical_bytes(leaf)
    return total


def peak_memory(comp: Computation) -> Peak:
    """Return the peak of a computation run once, with those that it calls."""
    return Peaks().of(comp)


# An array that an instruction makes: the instruction, and which element of its tuple it is.
Value = tuple[Instruction, int]


class Values:
    """The values that instructions make, use and hold, by element of the outermost tuple.

    size: the bytes of each. order: the instructions, what they need first.
    """

    def __init__(self, order: Iterable[Instruction]) -> None:
        self.size: dict[Value, int] = {}
        self._held: dict[Instruction, tuple[frozenset[Value], ...]] = {}
        for inst in order:
            self.add(inst)

    def add(self, inst: Instruction) -> None:
        """Take note of an instruction whose operands are known."""
        elements = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
        if passes_on(inst):
            self._held[inst] = self._passed_on(inst, len(elements))
            return
        for n, shape in enumerate(elements):
            self.size[inst, n] = shape_bytes(shape)
        self._held[inst] = tuple(frozenset(((inst, n),)) for n in range(len(elements)))

    def _passed_on(self, inst: Instruction, count: int) -> tuple[frozenset[Value], ...]:
        if inst.opcode == "get-tuple-element":
            return (self._held[inst.operands[0]][inst.attrs["index"]],) * count
        if inst.opcode == "tuple":
            return tuple(_union(self._held[o]) for o in inst.operands)
        first = self._held[inst.operands[0]] if inst.operands else ()
        if len(first) == count:
            return first
        return (_union(h for o in inst.operands for h in self._held[o]),) * count

    def made(self, inst: Instruction) -> list[Value]:
        """Return the values that take memory from this instruction on."""
        if passes_on(inst):
            return []
        return [value for held in self._held[inst] for value in held]

    def held_by(self, inst: Instruction) -> frozenset[Value]:
        """Return the values that the result of an instruction consists of."""
        return _union(self._held[inst])

    def used(self, inst: Instruction) -> frozenset[Value]:
        """Return the values that have to be there when an instruction runs."""
        if inst.opcode == "get-tuple-element":
            return self.held_by(inst)
        return _union(held for o in inst.operands for held in self._held[o])


def _union(sets: Iterable[frozenset[Value]]) -> frozenset[Value]:
    parts = list(sets)
    return parts[0] if len(parts) == 1 else frozenset().union(*parts)


class Peaks:
    """The peaks of computations, each measured once with those that it calls."""

    def __init__(self) -> None:
        self._done: dict[Computation, Peak] = {}

    def of(self, comp: Computation) -> Peak:
        # Callees first, on a stack of our own: calls may nest deep.
        stack = [comp]
        while stack:
            top = stack[-1]
            todo = [c for c in _callees(top) if c not in self._done]
            if todo:
                stack.extend(todo)
            else:
                stack.pop()
                if top not in self._done:
                    self._done[top] = self._measure(top)
        return self._done[comp]

    def forget(self, comp: Computation) -> None:
        """Measure a computation anew when asked for it, but not those that call it."""
        self._done.pop(comp, None)

    def inside(self, inst: Instruction) -> int:
        """Return what the computations that an instruction calls hold besides their arguments."""
        for comp in _called(inst):
            self.of(comp)
        return self._inside(inst)

    def _measure(self, comp: Computation) -> Peak:
        order = comp.in_order()
        values = Values(order)
        last: dict[Value, int] = {}
        for at, inst in enumerate(order):
            last.update(dict.fromkeys(values.made(inst), at))
            last.update(dict.fromkeys(values.used(inst), at))
        # Arguments and results stay to the end.
        for inst in (comp.root, *comp.parameters):
            last.update(dict.fromkeys(values.held_by(inst), len(order)))
        return self._walk(order, values, last)

    def _walk(self, order: Sequence[Instruction], values: Values, last: dict[Value, int]) -> Peak:
        ends: dict[int, int] = {}
        for value, at in last.items():
            ends[at] = ends.get(at, 0) + values.size[value]
        arguments = [i for i in order if i.opcode == "parameter"]
        now = sum(values.size[v] for p in arguments for v in values.made(p))
        most, best = 0, -1
        for at, inst in enumerate(order):
            if inst.opcode != "parameter":
                now += sum(values.size[v] for v in values.made(inst))
            if now + self._inside(inst) > most or best < 0:
                most, best = now + self._inside(inst), at
            now -= ends.get(at, 0)
        live: dict[Instruction, int] = {}
        for at, inst in enumerate(order):
            for value in values.made(inst):
                if last[value] >= best and (at <= best or inst.opcode == "parameter"):
                    live[inst] = live.get(inst, 0) + values.size[value]
        largest = sorted((LiveValue(i, n) for i, n in live.items() if n), key=lambda v: -v.bytes)
        at_peak = order[best] if order else None
        return Peak(most, at_peak, tuple(largest), self._inside(at_peak) if at_peak else 0)

    def _inside(self, inst: Instruction) -> int:
        most = 0
        for comp in _called(inst):
            arguments = sum(shape_bytes(s) for s in comp.parameter_shapes)
            most = max(most, self._done[comp].bytes - arguments)
        return max(most, 0)


def _callees(comp: Computation) -> Iterator[Computation]:
    for inst in comp:
        yield from _called(inst)


def _called(inst: Instruction) -> list[Computation]:
    """Return the computations that need memory of their own when an instruction runs."""
    return [] if inst.opcode == "fusion" else inst.called_computations
