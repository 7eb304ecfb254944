"""Changes that belong together: what was removed and what came in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo.analysis.matching import Matching
from hlo.debug.difference.changes import ADDED, MOVED, REMOVED, Change
from hlo.debug.difference.sites import Sites
from hlo.ir import Instruction

# More than so many removed and added instructions are no rewrite that a person reads at once.
_MOST = 12


def clusters(matching: Matching, sites: Sites, changes: Sequence[Change]) -> list[list[Change]]:
    """Return the changes in groups, in the order of their first ones.

    Removed and added instructions belong together if one is an operand of the other, or if both are
    the same operand of one user, or the same result. What moved into one computation belongs to the
    instruction that runs it, if that is new. A changed instruction belongs to a removed operand
    that it reads past.
    """
    number = {i: n for n, c in enumerate(changes) for i in c.instructions}
    sets = _Sets(len(changes))
    for a, b in _neighbours(matching, sites, changes, number):
        sets.join(number[a], number[b])
    found: dict[int, list[Change]] = {}
    for n, change in enumerate(changes):
        found.setdefault(sets.first(n), []).append(change)
    return [part for group in found.values() for part in _readable(group)]


def _joins(change: Change) -> bool:
    return change.kind in (ADDED, REMOVED, MOVED)


def _readable(group: list[Change]) -> Iterator[list[Change]]:
    if len(group) <= _MOST or all(c.kind == MOVED for c in group):
        yield group
    else:
        yield from ([change] for change in group)


def _neighbours(
    matching: Matching, sites: Sites, changes: Sequence[Change], number: dict[Instruction, int]
) -> Iterator[tuple[Instruction, Instruction]]:
    for change in changes:
        if not _joins(change):
            continue
        for inst in change.instructions:
            for site in sites.of(inst.parent):
                if site in number and matching.of(site) is None:
                    yield inst, site
        if change.kind == MOVED:
            continue
        for inst in change.instructions:
            for operand in inst.operands:
                if operand in number and matching.of(operand) is None:
                    yield inst, operand
        if change.kind == REMOVED and change.left is not None:
            for other in _in_place_of(matching, change.left):
                if other in number:
                    yield change.left, other
            for user in _reads_through(matching, change.left):
                if user in number:
                    yield change.left, user


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
    """Disjoint sets of numbers, each known by its least one."""

    def __init__(self, count: int) -> None:
        self._up = list(range(count))

    def first(self, n: int) -> int:
        while self._up[n] != n:
            self._up[n] = self._up[self._up[n]]
            n = self._up[n]
        return n

    def join(self, a: int, b: int) -> None:
        a, b = self.first(a), self.first(b)
        self._up[max(a, b)] = min(a, b)
