"""Changes that belong together: what was removed and what came in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo.analysis.matching import Matching
from hlo.debug.difference.changes import ADDED, REMOVED, Change
from hlo.debug.difference.sites import Sites
from hlo.ir import Instruction

# More than so many removed and added instructions are no rewrite that a person reads at once.
_MOST = 12
# What runs the computations that it calls as a whole.
RUNS = frozenset({"fusion", "call", "while", "conditional", "async-start"})


def clusters(matching: Matching, sites: Sites, changes: Sequence[Change]) -> list[list[Change]]:
    """Return the changes in groups, in the order of their first ones.

    Removed and added instructions belong together if one is an operand of the other, or if both are
    the same operand of one user, or the same result. A value with several users belongs to all of
    them if these are few together, else to none: a constant does not make one of many rewrites. A
    changed instruction belongs to a removed
    operand that it reads past. What is inside of a new fusion, or was inside of one that is gone,
    belongs to it, and so with all that runs computations; these do not belong to each other.
    """
    number = {i: n for n, c in enumerate(changes) for i in c.instructions}
    new = {number[i] for i in number if i.opcode in RUNS and matching.of(i) is None}
    sets = _Sets(len(changes), new)
    for find in _inside, _neighbours:
        for a, b in find(matching, sites, changes):
            if a in number and b in number:
                sets.join(number[a], number[b])
    for shared in _shared(matching, changes):
        sets.join_small([number[i] for i in shared if i in number])
    found: dict[int, list[Change]] = {}
    for n, change in enumerate(changes):
        found.setdefault(sets.first(n), []).append(change)
    return [part for group in found.values() for part in _readable(group)]


def _readable(group: list[Change]) -> Iterator[list[Change]]:
    if len(group) <= _MOST or any(i.spec.computation_attrs for c in group for i in c.instructions):
        yield group
    else:
        yield from ([change] for change in group)


def _inside(
    matching: Matching, sites: Sites, changes: Sequence[Change]
) -> Iterator[tuple[Instruction, Instruction]]:
    """Yield what is inside of something that only one side has, with that."""
    for change in changes:
        for inst in change.instructions:
            for site in sites.of(inst.parent):
                if site.opcode in RUNS and matching.of(site) is None:
                    yield inst, site


def _neighbours(
    matching: Matching, sites: Sites, changes: Sequence[Change]
) -> Iterator[tuple[Instruction, Instruction]]:
    """Yield what only one side has, with what is beside it or in its place."""
    for change in changes:
        if change.kind not in (ADDED, REMOVED):
            continue
        [inst] = change.instructions
        if inst.opcode in RUNS:
            continue
        for operand in inst.operands:
            if operand.num_users == 1 and _is_alone(matching, operand):
                yield inst, operand
        if change.kind == REMOVED:
            for other in _in_place_of(matching, inst):
                if other.opcode not in RUNS:
                    yield inst, other
            for user in _reads_through(matching, inst):
                yield inst, user


def _shared(matching: Matching, changes: Sequence[Change]) -> Iterator[list[Instruction]]:
    """Yield values that only one side has, with their several users of which that is true too."""
    for change in changes:
        for inst in change.instructions:
            if inst.num_users > 1 and _is_alone(matching, inst):
                yield [inst, *(u for u in inst.users if _is_alone(matching, u))]


def _is_alone(matching: Matching, inst: Instruction) -> bool:
    return matching.of(inst) is None and inst.opcode not in RUNS


def _reads_through(matching: Matching, removed: Instruction) -> Iterator[Instruction]:
    """Yield the users that read an operand of a removed instruction now, and differ themselves."""
    sources = {matching.of(o) for o in removed.operands}
    for user in removed.users:
        partner = matching.of(user)
        if partner is None or len(partner.operands) != len(user.operands):
            continue
        if partner.opcode != user.opcode or partner.attrs == user.attrs:
            continue
        for mine, other in zip(user.operands, partner.operands, strict=True):
            if mine is removed and (other in sources or None in sources):
                yield user


def _in_place_of(matching: Matching, removed: Instruction) -> Iterator[Instruction]:
    """Yield the new instructions that are used where a removed one was."""
    for user in removed.users:
        partner = matching.of(user)
        if partner is None or len(partner.operands) != len(user.operands):
            continue
        for mine, other in zip(user.operands, partner.operands, strict=True):
            if mine is removed and matching.of(other) is None:
                yield other
    if removed.is_root:
        for f, g in matching.computations:
            if f is removed.parent and matching.of(g.root) is None:
                yield g.root


class _Sets:
    """Disjoint sets of numbers, each known by its least one. Those of `alone` stay apart."""

    def __init__(self, count: int, alone: set[int]) -> None:
        self._up = list(range(count))
        self._alone = [n in alone for n in range(count)]
        self._size = [1] * count

    def first(self, n: int) -> int:
        while self._up[n] != n:
            self._up[n] = self._up[self._up[n]]
            n = self._up[n]
        return n

    def join(self, a: int, b: int) -> None:
        a, b = sorted((self.first(a), self.first(b)))
        if a != b and not (self._alone[a] and self._alone[b]):
            self._up[b] = a
            self._size[a] += self._size[b]
            self._alone[a] = self._alone[a] or self._alone[b]

    def join_small(self, members: Sequence[int]) -> None:
        """Join all of these, unless that makes a set that is too large to be one rewrite."""
        firsts = {self.first(n) for n in members}
        if sum(self._size[n] for n in firsts) <= _MOST:
            for n in members[1:]:
                self.join(members[0], n)
