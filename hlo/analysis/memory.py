"""Peak memory of a module when its instructions run in the order of the text.

The live range of an array is from its definition to its last use; the elements of a tuple have
separate live ranges, and operations that forward a value (get-tuple-element, bitcast, a reshape
that is one, a loop's state) share it. Compiled code needs less: it fuses, and updates in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hlo.analysis.bitcasts import is_bitcast
from hlo.ir import Computation, Instruction
from hlo.ops import Category, Trait
from hlo.values.layout import physical_bytes
from hlo.values.types import UNBOUNDED, ArrayShape, BufferShape, Shape, TupleShape

_PASS_ON = frozenset(
    "get-tuple-element tuple while copy-done async-done async-update send-done recv-done "
    "all-reduce-done all-gather-done collective-permute-done after-all".split()
)
# Their starts return what they send, and then the result.
_SECOND = frozenset({"async-done", "all-gather-done", "collective-permute-done"})
_BESIDE_OPERANDS = frozenset({"async-start", "all-gather-start", "collective-permute-start"})


def passes_on(inst: Instruction) -> bool:
    """True for a result that aliases the first operand, or for a tuple all operands."""
    return inst.opcode in _PASS_ON or inst.spec.has(Trait.FORWARDS) or is_bitcast(inst)


def computes(inst: Instruction) -> bool:
    """True for an instruction that takes time: it forwards nothing, and is no constant."""
    return not passes_on(inst) and inst.spec.category is not Category.DATA


@dataclass(frozen=True)
class LiveValue:
    """A value that is live at the peak."""

    instruction: Instruction
    bytes: int


@dataclass(frozen=True)
class Peak:
    """The peak memory of a computation, arguments and results included.

    at: the instruction at the peak. live: the values live there, the largest first; `callee` has
    the memory of a called computation besides its arguments.
    """

    bytes: int
    at: Instruction | None
    live: tuple[LiveValue, ...]
    callee: int


def shape_bytes(shape: Shape) -> int:
    """Return the bytes of all arrays in a shape, in their layouts; 0 for one without a size."""
    if type(shape) is ArrayShape:  # as most are
        return 0 if UNBOUNDED in shape.dims else physical_bytes(shape)
    total = 0
    for _, leaf in shape.leaves():
        if isinstance(leaf, BufferShape):
            leaf = leaf.element
        if isinstance(leaf, ArrayShape) and UNBOUNDED not in leaf.dims:
            total += physical_bytes(leaf)
    return total


def peak_memory(comp: Computation) -> Peak:
    """Return the peak of one run of a computation, including its callees."""
    return Peaks().of(comp)


# An array that an instruction defines: the instruction, and the element of its tuple.
Value = tuple[Instruction, int]


class Values:
    """The values that instructions define, use and keep live, by element of the outermost tuple.

    size: the bytes of each. order: the instructions, operands before users.
    """

    def __init__(self, order: Iterable[Instruction]) -> None:
        self.size: dict[Value, int] = {}
        self._held: dict[Instruction, tuple[frozenset[Value], ...]] = {}
        for inst in order:
            self.add(inst)

    def add(self, inst: Instruction) -> None:
        """Add an instruction whose operands have been added."""
        elements = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
        if passes_on(inst):
            self._held[inst] = self._passed_on(inst, len(elements))
            return
        held = [frozenset(((inst, n),)) for n in range(len(elements))]
        if inst.opcode in _BESIDE_OPERANDS:
            held[0] = _union(self.held_by(o) for o in inst.operands)
        for n, shape in enumerate(elements):
            if (inst, n) in held[n]:
                self.size[inst, n] = shape_bytes(shape)
        self._held[inst] = tuple(held)

    def _passed_on(self, inst: Instruction, count: int) -> tuple[frozenset[Value], ...]:
        if inst.opcode == "get-tuple-element":
            return (self._held[inst.operands[0]][inst.tuple_index],) * count
        if inst.opcode == "tuple":
            return tuple(self.held_by(o) for o in inst.operands)
        first = self._held[inst.operands[0]] if inst.operands else ()
        if inst.opcode in _SECOND and len(first) > 1:
            return (first[1],) * count
        if len(first) == count:
            return first
        return (_union(h for o in inst.operands for h in self._held[o]),) * count

    def made(self, inst: Instruction) -> list[Value]:
        """Return the values whose live ranges begin at an instruction."""
        if passes_on(inst):
            return []
        return [value for held in self._held[inst] for value in held if value[0] is inst]

    def held_by(self, inst: Instruction) -> frozenset[Value]:
        """Return the values that the result of an instruction consists of."""
        return _union(self._held[inst])

    def used(self, inst: Instruction) -> frozenset[Value]:
        """Return the values that are live while an instruction runs."""
        if inst.opcode == "get-tuple-element":
            return self.held_by(inst)
        return _union(held for o in inst.operands for held in self._held[o])


def _union(sets: Iterable[frozenset[Value]]) -> frozenset[Value]:
    parts = list(sets)
    return parts[0] if len(parts) == 1 else frozenset().union(*parts)


class Peaks:
    """The peaks of computations, each computed once."""

    def __init__(self) -> None:
        self._done: dict[Computation, Peak] = {}

    def of(self, comp: Computation) -> Peak:
        # Callees first, with an explicit stack: calls may be nested deeply.
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
        """Invalidate the peak of a computation, but not those of its callers."""
        self._done.pop(comp, None)

    def inside(self, inst: Instruction) -> int:
        """Return the peak memory of an instruction's callees besides their arguments."""
        if not inst.spec.computation_attrs:
            return 0
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
        # Arguments and results are live to the end.
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
    for inst in comp.call_sites:
        yield from _called(inst)


def _called(inst: Instruction) -> list[Computation]:
    """Return the computations that need memory of their own when an instruction runs."""
    return [] if inst.opcode == "fusion" else inst.called_computations
