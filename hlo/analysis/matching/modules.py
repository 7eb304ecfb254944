"""Two modules matched: their entries, then what matched instructions call, then what is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cached_property, partial

from hlo.analysis.matching.contents import Contents
from hlo.analysis.matching.graphs import Graph, inlined
from hlo.analysis.matching.labels import Labels
from hlo.analysis.matching.matcher import ALL, SOME, Matcher
from hlo.analysis.matching.matching import Matching
from hlo.ir import Computation, Instruction, Module

# What passes make names of their own for, which therefore say nothing about what is inside.
_NAMED_BY_PASSES = frozenset({"fusion", "call", "while", "conditional", "tuple"})


def match_modules(left: Module, right: Module, *, by_name: bool = False) -> Matching:
    """Return which instructions of two modules are the same one.

    Instructions are compared by what they do, and by what surrounds them; names and the order of
    the text do not count. Parameters are matched by number, if both sides have as many.
    Instructions may have partners in other computations: outside of a fusion, for example.

    by_name: names count, as for modules of which one was made of the other by passes.
    """
    return _Modules(left, right, by_name).match()


class _Modules:
    def __init__(self, left: Module, right: Module, by_name: bool) -> None:
        self._left, self._right, self._by_name = left, right, by_name
        self._labels = Labels()
        self._contents = Contents(self._labels)
        self._contents.add(left)
        if right is not left:
            self._contents.add(right)
        self._to_right: dict[Instruction, Instruction] = {}
        self._to_left: dict[Instruction, Instruction] = {}
        # The matched computations, in the order in which they were found.
        self._computations: dict[tuple[Computation, Computation], None] = {}
        self._matched_left: set[Computation] = set()
        self._matched_right: set[Computation] = set()

    def match(self) -> Matching:
        self._follow(self._left.entry, self._right.entry, None)
        self._across(self._labels.own)
        while self._refine():
            pass
        self._leftover_computations()
        for label in self._labels.shaped, self._labels.kind:
            self._across(label, far=True)
        pairs = list(self._to_right.items())
        return Matching(self._left, self._right, pairs, list(self._computations), self._contents)

    # --- computations ---------------------------------------------------------------------------

    def _follow(
        self, left: Computation, right: Computation, site: tuple[Instruction, Instruction] | None
    ) -> None:
        """Match two computations, and what their matched instructions call."""
        todo = [(left, right, site)]
        while todo:
            left, right, site = todo.pop()
            if not self._add(left, right):
                continue
            matcher = self._matcher(left, right)
            self._parameters(matcher, left, right, site)
            if self._by_name:
                matcher.by_name(self._named)
            for label in self._contents.whole, self._labels.own:
                matcher.by_surroundings(label)
            matcher.ties(self._labels.own, whole=True)
            for a, b in reversed(self._take(matcher)):
                todo.extend(
                    (f, g, (a, b))
                    for f, g in zip(a.called_computations, b.called_computations, strict=False)
                )

    def _add(self, left: Computation, right: Computation) -> bool:
        """Note that two computations are matched. Returns whether there is anything to match."""
        if (left, right) in self._computations:
            return False
        known = left in self._matched_left, right in self._matched_right
        if all(known):
            return False
        if any(known) and self._contents.number(left) != self._contents.number(right):
            # Shared there and not here, and not even a copy: its instructions have no partners.
            return False
        self._computations[left, right] = None
        self._matched_left.add(left)
        self._matched_right.add(right)
        return not any(known)

    def _matcher(self, left: Computation, right: Computation) -> Matcher:
        matcher = Matcher(self._contents.graph(left), self._contents.graph(right))
        matcher.know(
            [(a, b) for a in left if (b := self._to_right.get(a))]
            + [(a, b) for b in right if (a := self._to_left.get(b))]
        )
        return matcher

    def _take(self, matcher: Matcher) -> list[tuple[Instruction, Instruction]]:
        """Take over what a matcher found; returns the new pairs."""
        new = [(a, b) for a, b in matcher.pairs() if a not in self._to_right]
        for a, b in new:
            self._to_right[a], self._to_left[b] = b, a
        return new

    def _parameters(
        self,
        matcher: Matcher,
        left: Computation,
        right: Computation,
        site: tuple[Instruction, Instruction] | None,
    ) -> None:
        """Match the parameters: by number, or where numbers were shifted by what is passed."""
        ours, theirs = left.parameters, right.parameters
        if len(ours) == len(theirs):
            matcher.know(zip(ours, theirs, strict=True))
            return
        if site is not None and site[0].opcode in ("fusion", "call"):
            number = {operand: n for n, operand in enumerate(site[1].operands)}
            for n, operand in enumerate(site[0].operands):
                partner = self._to_right.get(operand)
                if partner in number:
                    matcher.know([(ours[n], theirs[number[partner]])])
        types = [self._labels.of_type(p) for p in ours], [self._labels.of_type(p) for p in theirs]
        for block in SequenceMatcher(None, *types, autojunk=False).get_matching_blocks():
            for n in range(block.size):
                matcher.know([(ours[block.a + n], theirs[block.b + n])])

    def _named(self, inst: Instruction) -> int:
        """Return a label for matching by name; what does not count has one of its own."""
        if inst.opcode in _NAMED_BY_PASSES:
            return -1 - id(inst)
        return self._labels.shaped(inst)

    # --- what is left ---------------------------------------------------------------------------

    def _across(self, label: Callable[[Instruction], int], *, far: bool = False) -> None:
        """Match across computations, as if fusions and calls were inlined.

        far: also what has no matched neighbours.
        """
        if not self._is_elsewhere(label, far):
            return
        matcher = Matcher(*self._inlined)
        matcher.know(self._to_right.items())
        if self._by_name:
            matcher.by_name(self._named)
        matcher.by_surroundings(label)
        matcher.by_place(label, SOME, conflicts=far)
        if far:
            matcher.by_neighbours(label)
        self._take(matcher)

    def _is_elsewhere(self, label: Callable[[Instruction], int], far: bool) -> bool:
        """True if what is left may have partners in computations that are not matched.

        far: also in those that are.
        """
        waiting = set() if far else self._waiting()
        ours: dict[int, set[Computation]] = defaultdict(set)
        theirs: dict[int, set[Computation]] = defaultdict(set)
        for module, partners, places in (
            (self._left, self._to_right, ours),
            (self._right, self._to_left, theirs),
        ):
            for comp in module.computations:
                if comp not in waiting:
                    for inst in comp:
                        if inst not in partners:
                            places[label(inst)].add(comp)
        both = [(ours[n], theirs[n]) for n in ours if n in theirs]
        return any(
            far or (f, g) not in self._computations
            for left, right in both
            for f in left
            for g in right
        )

    def _waiting(self) -> set[Computation]:
        """Return the computations of equal contents that may still be matched as a whole."""
        left = [c for c in self._left.computations if c not in self._matched_left]
        right = [c for c in self._right.computations if c not in self._matched_right]
        number = self._contents.number
        both = {number(c) for c in left} & {number(c) for c in right}
        return {c for c in (*left, *right) if number(c) in both}

    @cached_property
    def _inlined(self) -> tuple[Graph, Graph]:
        return inlined(self._left), inlined(self._right)

    def _refine(self) -> bool:
        """Match what has changed in matched computations. Returns whether that led to others."""
        before = len(self._computations)
        for left, right in list(self._computations):
            if all(i in self._to_right for i in left) or all(i in self._to_left for i in right):
                continue
            matcher = self._matcher(left, right)
            if matcher.is_done:
                continue
            self._by_less_and_less(matcher)
            self._take(matcher)
        for a, b in list(self._to_right.items()):
            if not a.spec.computation_attrs:
                continue
            for f, g in zip(a.called_computations, b.called_computations, strict=False):
                self._follow(f, g, (a, b))
        return len(self._computations) > before

    def _by_less_and_less(self, matcher: Matcher) -> None:
        """Match what changed: the surest first, and after each success by surroundings again."""
        labels = self._labels
        steps: list[Callable[[], int]] = [lambda: matcher.by_surroundings(labels.own)]
        steps += [
            partial(matcher.by_place, label, SOME, conflicts=False)
            for label in (labels.own, labels.shaped, labels.kind)
        ]
        steps += [partial(matcher.by_surroundings, label) for label in (labels.shaped, labels.kind)]
        steps.append(lambda: matcher.by_depth(labels.own))
        steps += [
            partial(matcher.by_place, label, SOME, conflicts=True)
            for label in (labels.own, labels.shaped, labels.kind)
        ]
        steps.append(lambda: matcher.by_place(lambda _: 0, ALL, conflicts=True))
        at = 0
        while at < len(steps) and not matcher.is_done:
            at = 0 if steps[at]() and at else at + 1
        matcher.ties(labels.own, whole=False)

    def _leftover_computations(self) -> None:
        """Match computations of equal contents that no matched instructions call."""
        others: dict[int, list[Computation]] = {}
        for comp in self._right.computations:
            if comp not in self._matched_right:
                others.setdefault(self._contents.number(comp), []).append(comp)
        for comp in self._left.computations:
            found = others.get(self._contents.number(comp))
            if found and comp not in self._matched_left:
                self._follow(comp, found.pop(0), None)
