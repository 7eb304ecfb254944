"""Pattern matching on scalar computations.

The interpreter uses it to evaluate reductions and sorts by numpy functions that give equal results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.types import ArrayShape


def single_binary_op(comp: Computation) -> str | None:
    """Return the opcode of a body that is `op(p0, p1)` on scalars of one type, else None."""
    if len(comp) != 3 or len(comp.parameters) != 2:
        return None
    root, (first, second) = comp.root, comp.parameters
    spec, operands = root.spec, root.operands
    if len(operands) != 2 or not spec.has(Trait.ELEMENTWISE) or spec.computation_attrs:
        return None
    if operands[0] is not first or operands[1] is not second:
        is_swapped = operands[0] is second and operands[1] is first
        if not is_swapped or not spec.has(Trait.COMMUTATIVE):
            return None
    shapes = [root.shape, first.shape, second.shape]
    if not all(isinstance(s, ArrayShape) and not s.dims for s in shapes):
        return None
    kind = root.array_shape.element_type
    is_uniform = all(p.array_shape.element_type is kind for p in (first, second))
    return root.opcode if is_uniform else None


def applies(comp: Computation, trait: Trait) -> bool:
    """True for a body that is `op(p0, p1)` of an operation with a trait (see single_binary_op)."""
    return comp.root.spec.has(trait) and single_binary_op(comp) is not None


def picks_an_argument(comp: Computation) -> bool:
    """True for a function of 2n scalars whose result i is always argument i or argument n + i.

    That is what the reducers of argmin and argmax do: they compare, but compute nothing new.
    """
    root, n = comp.root, len(comp.parameters) // 2
    results = root.operands if root.opcode == "tuple" else [root]
    if len(results) != n:
        return False
    for i, result in enumerate(results):
        todo, seen = [result], set()
        while todo:
            inst = todo.pop()
            if inst in seen:
                continue
            seen.add(inst)
            if inst.opcode == "select":
                todo.extend(inst.operands[1:])
            elif inst.spec.has(Trait.EXTREMUM):
                todo.extend(inst.operands)
            elif inst.opcode != "parameter" or inst.parameter_number not in (i, n + i):
                return False
    return True


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One key of a comparator: smaller (or, `descending`, larger) values of `key` come first.

    key: the instruction that computes it from the even parameters. total_order: compare by the
    total order of floats and not by value.
    """

    key: Instruction
    descending: bool
    total_order: bool


def order_terms(comp: Computation) -> list[OrderTerm] | None:
    """Return the keys of a comparator that is a lexicographic order of keys, else None.

    A key is the same expression of the first elements (even parameters) as of the second elements
    (odd parameters). Several keys are joined as frontends do: `a < b or (a == b and rest)`, or a
    select on `a == b` or `a != b`.
    """
    return _Comparator().terms(comp.root)


class _Comparator:
    def __init__(self) -> None:
        self._sides: dict[Instruction, frozenset[int]] = {}

    def terms(self, root: Instruction) -> list[OrderTerm] | None:
        found: list[OrderTerm] = []
        inst = root
        while True:
            if inst.opcode == "compare":
                last = self._term(inst)
                return None if last is None else [*found, last]
            split = self._split(inst)
            if split is None:
                return None
            term, inst = split
            found.append(term)

    def _term(self, inst: Instruction) -> OrderTerm | None:
        """Return the key of `compare(f(even), f(odd)), direction=LT|GT`, sides in either order."""
        direction = inst.direction
        if direction not in ("LT", "GT") or inst.comparison_type == "WEAKORDER":
            return None
        key = self._key(inst)
        if key is None:
            return None
        straight = self._side(inst.operands[0]) == {0}
        total = inst.comparison_type == "TOTALORDER"
        return OrderTerm(key, (direction == "GT") == straight, total)

    def _key(self, inst: Instruction) -> Instruction | None:
        """Return f(even parameters) of a comparison of it with f(odd parameters)."""
        left, right = inst.operands
        if self._side(left) == {1} and self._side(right) == {0}:
            left, right = right, left
        if self._side(left) != {0} or self._side(right) != {1}:
            return None
        shape = left.shape
        if not isinstance(shape, ArrayShape) or shape.element_type.is_complex:
            return None
        return left if _mirrored(left, right) else None

    def _split(self, inst: Instruction) -> tuple[OrderTerm, Instruction] | None:
        """Return the first key and the rest of a comparison by several keys."""
        candidates: list[tuple[Instruction, Instruction, Instruction, str]] = []
        if inst.opcode == "or":
            for less, both in (inst.operands, inst.operands[::-1]):
                if both.opcode == "and":
                    for equal, rest in (both.operands, both.operands[::-1]):
                        candidates.append((less, equal, rest, "EQ"))
        elif inst.opcode == "select":
            test, yes, no = inst.operands
            candidates += [(no, test, yes, "EQ"), (yes, test, no, "NE")]
        for less, equal, rest, direction in candidates:
            if less.opcode != "compare" or equal.opcode != "compare":
                continue
            if equal.direction != direction or equal.comparison_type != less.comparison_type:
                continue
            term, key = self._term(less), self._key(equal)
            if term is not None and key is not None and _mirrored(term.key, key, 0):
                return term, rest
        return None

    def _side(self, inst: Instruction) -> frozenset[int]:
        """Return which sides (0: even parameters, 1: odd ones) a value depends on."""
        todo = [inst]
        while todo:
            at = todo[-1]
            missing = [o for o in at.operands if o not in self._sides]
            if at in self._sides:
                todo.pop()
            elif missing:
                todo.extend(missing)
            elif at.opcode == "parameter":
                self._sides[at] = frozenset({at.parameter_number % 2})
            else:
                self._sides[at] = frozenset().union(*(self._sides[o] for o in at.operands))
        return self._sides[inst]


def _mirrored(left: Instruction, right: Instruction, step: int = 1) -> bool:
    """True when `right` is `left` with parameter numbers raised by `step`."""
    todo, seen = [(left, right)], set()
    while todo:
        pair = todo.pop()
        if pair in seen:
            continue
        seen.add(pair)
        a, b = pair
        if a.opcode != b.opcode or a.shape != b.shape or len(a.operands) != len(b.operands):
            return False
        if a.opcode == "parameter":
            if b.parameter_number != a.parameter_number + step:
                return False
        elif not all(_same_value(a.attrs[k], b.attrs[k]) for k in a.attrs):
            return False
        todo.extend(zip(a.operands, b.operands, strict=True))
    return True


def _same_value(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return bool(a == b)
