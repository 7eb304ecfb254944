"""What an instruction is by itself: numbers that equal ones share, at several levels of detail."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from hlo.analysis.matching.values import comparable, comparable_annotation
from hlo.ir import Instruction
from hlo.values.types import Shape, without_layout

# Annotations that say where an instruction comes from and nothing about what it does.
_NOTES = frozenset({"metadata", "statistics", "original_value", "origin"})


def is_note(annotation: str) -> bool:
    """True for an annotation that says nothing about what an instruction does."""
    return annotation in _NOTES


class Numbers(dict[Hashable, int]):
    """Numbers for descriptions: equal ones get equal numbers, from 0 on."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class Labels:
    """Labels of the instructions of two modules.

    own: opcode, shape with layout, attributes and annotations, but not which computations are
        called. What the graph says is not part of it: operands, users, control dependences.
    shaped: opcode, and shape without layouts.
    kind: opcode, and the index of a tuple's element.

    Modules may not change as long as labels of them are asked for.
    """

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._own: dict[Instruction, int] = {}
        # Keyed by identity, as the parser shares what is written alike: the number, and the object,
        # which has to live as long as its identity counts.
        self._values: dict[int, tuple[int, Any]] = {}
        self._said_by: dict[tuple[str, int], tuple[int, Any]] = {}
        self._types: dict[int, tuple[int, Shape]] = {}

    def own(self, inst: Instruction) -> int:
        """Return the label of everything that an instruction says itself."""
        found = self._own.get(inst)
        if found is None:
            found = self._own[inst] = self._describe(inst)
        return found

    def _describe(self, inst: Instruction) -> int:
        value = self._value
        attrs = tuple([value(v) for v in inst.attrs.values()])
        notes: Hashable = ()
        if inst.annotations:
            notes = frozenset(
                [(k, said) for k, v in inst.annotations.items() if (said := self._said(k, v))]
            )
        return self._numbers["own", inst.opcode, value(inst.shape), attrs, notes]

    def _said(self, key: str, value: Any) -> int:
        """Return the number of an annotation's value; 0 for one that says nothing."""
        if key in _NOTES:
            return 0
        found = self._said_by.get((key, id(value)))
        if found is None:
            said = comparable_annotation(key, value)
            found = 0 if said is None else 1 + self._numbers["annotation", said], value
            self._said_by[key, id(value)] = found
        return found[0]

    def _value(self, value: Any) -> int:
        """Return the number of a shape, or of the value of an attribute."""
        found = self._values.get(id(value))
        if found is None:
            found = self._numbers["value", comparable(value)], value
            self._values[id(value)] = found
        return found[0]

    def shaped(self, inst: Instruction) -> int:
        """Return the label of opcode and shape."""
        return self._numbers["shaped", _place(inst), self.of_type(inst)]

    def kind(self, inst: Instruction) -> int:
        """Return the label of the opcode."""
        return self._numbers["kind", _place(inst)]

    def of_type(self, inst: Instruction) -> int:
        """Return the label of the shape without layouts."""
        shape = inst.shape
        found = self._types.get(id(shape))
        if found is None:
            found = self._types[id(shape)] = self._numbers["type", without_layout(shape)], shape
        return found[0]


def _place(inst: Instruction) -> tuple[str, int]:
    """Return the opcode, and the index of a tuple's element."""
    return inst.opcode, inst.tuple_index if inst.opcode == "get-tuple-element" else -1
