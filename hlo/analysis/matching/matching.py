"""The result of matching two modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.matching.contents import Contents
from hlo.ir import Computation, Instruction, Module


@dataclass
class Matching:
    """Which instructions of two modules are the same one, perhaps changed.

    Attributes:
        left, right: the modules.
        pairs: the matched instructions, of the left and of the right module, each at most once.
        computations: the matched computations. One that has several equal copies on the other side
            is in several pairs; the instructions of the first one have partners.

    >>> from hlo.analysis.matching import match_modules
    >>> a = hlo.parse("HloModule a ENTRY e { x = f32[] parameter(0) ROOT y = f32[] tanh(x) }")
    >>> b = hlo.parse("HloModule b ENTRY f { p = f32[] parameter(0) ROOT q = f32[] tanh(p) }")
    >>> match_modules(a, b).of(a["y"])
    <Instruction q = f32[] tanh(p)>
    """

    left: Module
    right: Module
    pairs: Sequence[tuple[Instruction, Instruction]]
    computations: Sequence[tuple[Computation, Computation]]
    _contents: Contents

    @cached_property
    def _partners(self) -> Mapping[Instruction, Instruction]:
        found = dict(self.pairs)
        found.update((b, a) for a, b in self.pairs)
        return found

    def of(self, inst: Instruction) -> Instruction | None:
        """Return the partner of an instruction of either module, or None."""
        return self._partners.get(inst)

    @cached_property
    def only_left(self) -> list[Instruction]:
        """The instructions of the left module that have no partner."""
        return self._alone(self.left)

    @cached_property
    def only_right(self) -> list[Instruction]:
        """The instructions of the right module that have no partner."""
        return self._alone(self.right)

    def _alone(self, module: Module) -> list[Instruction]:
        """Return what has no partner, but for further copies of a matched computation."""
        return [
            i
            for c in module.computations
            if (alone := [i for i in c.in_order() if i not in self._partners])
            if len(alone) < len(c) or c not in self._copies
            for i in alone
        ]

    @cached_property
    def _copies(self) -> set[Computation]:
        """The computations of pairs of equal ones of which one is matched elsewhere already."""
        number = self._contents.number
        return {
            c
            for pair in self.computations
            if any(not any(i in self._partners for i in c) for c in pair)
            if number(pair[0]) == number(pair[1])
            for c in pair
        }

    def same_computation(self, left: Computation, right: Computation) -> bool:
        """True if two computations are matched, or differ in names and order only."""
        if (left, right) in self._computation_pairs:
            return True
        if left is self.left.entry or right is self.right.entry:
            return False  # what is fused as a whole is the same, and elsewhere
        return self._contents.number(left) == self._contents.number(right)

    @cached_property
    def _computation_pairs(self) -> set[tuple[Computation, Computation]]:
        return set(self.computations)

    def same_by_itself(self, a: Instruction, b: Instruction) -> bool:
        """True if what two instructions say is equal: all but operands, callees and metadata."""
        return self._contents.own(a) == self._contents.own(b)

    @cached_property
    def exact(self) -> set[tuple[Instruction, Instruction]]:
        """The pairs that differ in nothing but names, order and metadata.

        Their operands and control predecessors are partners too, and the computations that they
        call have equal contents.
        """
        return {(a, b) for a, b in self.pairs if self._is_exact(a, b)}

    def _is_exact(self, a: Instruction, b: Instruction) -> bool:
        if self._contents.whole(a) != self._contents.whole(b):
            return False
        if [self.of(o) for o in a.operands] != b.operands:
            return False
        return {self.of(p) for p in a.control_predecessors} == set(b.control_predecessors)
