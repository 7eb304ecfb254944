"""Which instructions and computations compute the same for the same operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction
from hlo.ir.computation import callees_first
from hlo.ops import Trait
from hlo.values.types import without_layout

# Attributes and annotations that do not affect the value.
_NOTES = frozenset({"metadata", "statistics", "original_value", "origin"})


def has_control_edges(inst: Instruction) -> bool:
    """True for an instruction with control dependences."""
    return bool(inst.control_predecessors or inst.control_successors)


class Congruence:
    """Value numbering: equivalent computations and instructions get equal numbers and descriptions.

    Constants are compared by their bits. Metadata never counts; every other annotation does.
    Computations are looked at when they are first asked about, and must not change what they
    compute.
    """

    def __init__(self) -> None:
        self._numbers: dict[Computation, int] = {}
        self._classes: dict[Hashable, int] = {}
        self._effects = Effects()

    def number(self, comp: Computation) -> int:
        """Return a number that equal computations share."""
        if comp not in self._numbers:
            new = callees_first([comp], self._numbers)
            # What has a number ends a call cycle, which an invalid module may have.
            self._numbers.update(dict.fromkeys(new, -1))
            for callee in new:
                key = self._computation(callee, self._effects)
                self._numbers[callee] = self._classes.setdefault(key, len(self._classes))
        return self._numbers[comp]

    def value(self, inst: Instruction, *, layouts: bool = True) -> Hashable:
        """Return what an instruction does to its operands.

        layouts: whether results in different layouts are different.
        """
        # The value of a bitcast depends on its layout, and the layout is the purpose of a copy.
        layouts = layouts or inst.opcode in ("bitcast", "copy")
        shape = inst.shape if layouts else without_layout(inst.shape)
        notes: Hashable = ()
        for key in inst.annotations:
            if key not in _NOTES:
                found = {k: v for k, v in inst.annotations.items() if k not in _NOTES}
                notes = self.hashable(found)
                break
        return inst.opcode, shape, self._attributes(inst) if inst.attrs else (), notes

    def _attributes(self, inst: Instruction) -> Hashable:
        """Return the attributes of an instruction in the op table's order."""
        attrs, names = inst.attrs, inst.spec.defaults
        if len(attrs) != len(names):
            return self.hashable(attrs)
        if not inst.spec.computation_attrs:
            values = tuple(map(attrs.get, names))
            try:
                hash(values)
            except TypeError:  # lists, and mappings
                pass
            else:
                return values
        return tuple([self.hashable(attrs.get(name)) for name in names])

    def operands(self, inst: Instruction, numbers: Mapping[Instruction, int]) -> tuple[int, ...]:
        """Return the numbers of the operands, in an order that does not matter if theirs does not.

        numbers: one that equal values share.
        """
        found = tuple(numbers[o] for o in inst.operands)
        return tuple(sorted(found)) if inst.spec.has(Trait.COMMUTATIVE) else found

    def values(self, *, layouts: bool = True) -> Values:
        """Return a table of values of one computation. layouts: as for `value`."""
        return Values(lambda inst: self.value(inst, layouts=layouts))

    def _computation(self, comp: Computation, effects: Effects) -> Hashable:
        """Return a description of a computation: values in the order in which they are needed."""
        numbers: dict[Instruction, int] = {p: n for n, p in enumerate(comp.parameters)}
        # A value's number is its index in this list.
        values: list[Hashable] = [p.shape for p in comp.parameters]
        known: dict[Hashable, int] = {}
        for start in [comp.root, *(i for i in comp.in_order() if effects.has_side_effect(i))]:
            stack = [(start, iter(start.predecessors()))]
            while stack:
                inst, rest = stack[-1]
                missing = next((o for o in rest if o not in numbers), None)
                if missing is not None:
                    stack.append((missing, iter(missing.predecessors())))
                    continue
                stack.pop()
                if inst in numbers:
                    continue
                key: Hashable = (self.value(inst), self.operands(inst, numbers))
                if not effects.is_function(inst) or has_control_edges(inst):
                    key = key, len(values), tuple(numbers[p] for p in inst.control_predecessors)
                elif key in known:
                    numbers[inst] = known[key]
                    continue
                known[key] = numbers[inst] = len(values)
                values.append(key)
        return comp.execution_thread, tuple(values), numbers[comp.root]

    def hashable(self, value: Any) -> Hashable:
        """Return an attribute's value with computations replaced by their numbers."""
        kind = type(value)
        if kind is int or kind is str or value is None:
            return value  # as most are
        if isinstance(value, Mapping):
            return frozenset((k, self.hashable(v)) for k, v in value.items())
        if isinstance(value, tuple | list):
            return tuple(map(self.hashable, value))
        if isinstance(value, Computation):
            return "computation", self.number(value)
        hash(value)
        return value


class Values:
    """The numbers of values, which equal ones share.

    Most instructions are the only ones of their opcode on their operands: these are not described.
    """

    def __init__(self, describe: Callable[[Instruction], Hashable]) -> None:
        self._describe = describe
        # By opcode and operands: the only instruction with its number, or numbers by description.
        self._known: dict[Hashable, tuple[Instruction, int] | dict[Hashable, int]] = {}

    def number(self, inst: Instruction, operands: Hashable, new: int) -> int:
        """Return the number of a value that is known; else it has the number `new` from now on.

        operands: equal for equal operands.
        """
        key = inst.opcode, operands
        known = self._known.get(key)
        if known is None:
            self._known[key] = inst, new
            return new
        if isinstance(known, tuple):
            first, number = known
            known = self._known[key] = {self._describe(first): number}
        return known.setdefault(self._describe(inst), new)
