"""What an instruction is by itself: numbers that equal ones share, at several levels of detail."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from hlo.ir import Computation, Instruction
from hlo.values.literal import Literal
from hlo.values.types import without_layout

# Annotations that say where an instruction comes from and nothing about what it does.
_NOTES = frozenset({"metadata", "statistics", "original_value", "origin"})


def is_note(annotation: str) -> bool:
    """True for an annotation that says nothing about what an instruction does."""
    return annotation in _NOTES


class Numbers:
    """Numbers for descriptions: equal ones get equal numbers, from 0 on."""

    def __init__(self) -> None:
        self._of: dict[Hashable, int] = {}

    def __getitem__(self, key: Hashable) -> int:
        return self._of.setdefault(key, len(self._of))


def comparable(value: Any, computation: Hashable = "computation") -> Hashable:
    """Return an attribute's value such that equal values are equal, whatever they are called.

    computation: what stands for a computation. Literals are compared by their bits; of elided ones
    (`{...}`) only the shape is known.
    """
    if isinstance(value, Mapping):
        return frozenset((k, comparable(v, computation)) for k, v in value.items())
    if isinstance(value, tuple | list):
        return tuple(comparable(v, computation) for v in value)
    if isinstance(value, Computation):
        return computation
    if isinstance(value, Literal) and value.elided:
        return "elided", value.shape
    hash(value)
    return value


class Labels:
    """Labels of the instructions of two modules.

    own: opcode, shape with layout, attributes and annotations, but not which computations are
        called. What the graph says is not part of it: operands, users, control dependences.
    shaped: opcode, and shape without layouts.
    kind: opcode, and the index of a tuple's element.
    """

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._own: dict[Instruction, int] = {}

    def own(self, inst: Instruction) -> int:
        """Return the label of everything that an instruction says itself."""
        found = self._own.get(inst)
        if found is None:
            found = self._own[inst] = self._describe(inst)
        return found

    def _describe(self, inst: Instruction) -> int:
        attrs: Hashable = ()
        if inst.attrs:
            attrs = tuple(comparable(v) for v in inst.attrs.values())
        notes: Hashable = ()
        if inst.annotations:
            notes = frozenset(
                (k, comparable(v)) for k, v in inst.annotations.items() if k not in _NOTES
            )
        return self._numbers["own", inst.opcode, inst.shape, attrs, notes]

    def shaped(self, inst: Instruction) -> int:
        """Return the label of opcode and shape."""
        return self._numbers["shaped", *_place(inst), without_layout(inst.shape)]

    def kind(self, inst: Instruction) -> int:
        """Return the label of the opcode."""
        return self._numbers["kind", *_place(inst)]

    def of_type(self, inst: Instruction) -> int:
        """Return the label of the shape without layouts."""
        return self._numbers["type", without_layout(inst.shape)]


def _place(inst: Instruction) -> tuple[Hashable, ...]:
    if inst.opcode == "get-tuple-element":
        return inst.opcode, inst.tuple_index
    return (inst.opcode,)
