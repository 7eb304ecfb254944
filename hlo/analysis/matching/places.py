"""The places of two graphs in which instructions may be the same one: between matched ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hlo.analysis.matching.graphs import CONTROL, Graph

# Without a partner; with one that is not in the graph.
FREE, ELSEWHERE = -1, -2

Colours = tuple[list[int], list[int]]

# More instructions than so many that use the same value in the same way are no candidates for each
# other because of that: else a zero with thousands of users would be a quadratic search.
_TELLING = 16


@dataclass
class Places:
    """Which free instructions of the right graph are where one of the left would be.

    to_right, to_left: the partners so far, which may become more. labels: those of the instructions
    that were free at first.
    """

    left: Graph
    right: Graph
    to_right: Sequence[int]
    to_left: Sequence[int]
    labels: Colours
    # Keyed by a value of the right graph: its free users by position and label.
    _users: dict[int, dict[tuple[int, int], list[int]]] = field(default_factory=dict)
    _uses: dict[int, set[tuple[int, int]]] = field(default_factory=dict)

    def candidates(self, i: int) -> set[int]:
        """Return the free instructions of equal label with a matched neighbour in common.

        Of many that have just one such neighbour in common, the first ones.
        """
        own, labels, to_left = self.labels[0][i], self.labels[1], self.to_left
        found: set[int] = set()
        for user, position in self.left.uses[i]:
            other = self.to_right[user]
            if other < 0:
                continue
            if position == CONTROL:
                found.update(self.right.before[other])
            elif position < len(self.right.operands[other]):
                found.add(self.right.operands[other][position])
        found = {j for j in found if to_left[j] == FREE and labels[j] == own}
        many: list[int] = []
        for position, operand in enumerate(self.left.operands[i]):
            other = self.to_right[operand]
            if other < 0:
                continue
            users = self._free_users(other, position, own)
            if len(users) <= _TELLING:
                found.update(users)
            elif not many or len(users) < len(many):
                many = users
        return found or set(many[:_TELLING])

    def _free_users(self, value: int, position: int, label: int) -> list[int]:
        """Return what uses a value of the right graph, the first ones if there are many."""
        groups = self._users.get(value)
        if groups is None:
            groups = self._users[value] = defaultdict(list)
            for user, at in reversed(self.right.uses[value]):
                if self.to_left[user] == FREE:
                    groups[at, self.labels[1][user]].append(user)
        users = groups.get((position, label), [])
        # The first ones come last; most find their partners in order.
        while users and self.to_left[users[-1]] != FREE:
            users.pop()
        first = [j for j in users[: -4 * _TELLING - 1 : -1] if self.to_left[j] == FREE]
        if len(first) <= _TELLING < len(users):
            users[:] = [j for j in users if self.to_left[j] == FREE]
            first = users[: -_TELLING - 2 : -1]
        return first

    def disagree(self, i: int, j: int) -> bool:
        """True if an operand or user of one has its partner in another place of the other."""
        to_right, to_left = self.to_right, self.to_left
        for a, b in zip(self.left.operands[i], self.right.operands[j], strict=False):
            if to_right[a] >= 0 and to_left[b] >= 0 and to_right[a] != b:
                return True
        others = self._uses_of(j)
        return any(
            to_right[u] >= 0 and (to_right[u], p) not in others for u, p in self.left.uses[i]
        )

    def agreement(self, i: int, j: int) -> float:
        """Return the share of operands and users that are matched with each other, 0 to 1."""
        to_right = self.to_right
        ours, theirs = self.left.operands[i], self.right.operands[j]
        same = sum([to_right[a] == b for a, b in zip(ours, theirs, strict=False)])
        users, others = self.left.uses[i], self._uses_of(j)
        same += sum([(to_right[u], p) in others for u, p in users])
        both_roots = i in self.left.roots and j in self.right.roots
        same += both_roots
        whole = max(len(ours), len(theirs)) + max(len(users), len(others)) + both_roots
        return same / whole if whole else 0.0

    def _uses_of(self, j: int) -> set[tuple[int, int]]:
        """Return the uses of an instruction of the right graph."""
        found = self._uses.get(j)
        if found is None:
            found = self._uses[j] = set(self.right.uses[j])
        return found
