"""The matching of two graphs: pairs of instructions, the surest first.

What is equal in its whole surroundings is matched first, then what computes the same, then what is
used the same way. Each pair is fixed: the surroundings of the others are compared up to it, so that
a difference in one place does not make others look different. What remains is compared by less and
less: without layouts, by opcode alone, and finally by its place between matched instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from hlo.analysis.matching.colours import downward, upward
from hlo.analysis.matching.graphs import CONTROL, Graph
from hlo.analysis.matching.labels import Numbers
from hlo.ir import Instruction

# A surrounding is compared again after what it led to is fixed; programs need a handful of rounds.
_MOST_ROUNDS = 40
# How much of two places has to agree, of 1, for the instructions in them to be matched.
SOME, ALL = 0.25, 1.0

# Without a partner; with one that is not in the graph.
FREE, ELSEWHERE = -1, -2

Colours = tuple[list[int], list[int]]


class Matcher:
    """Matches the instructions of two graphs one to one.

    Attributes:
        to_right, to_left: the number of an instruction's partner; `FREE` without one, `ELSEWHERE`
            if the partner is in another graph.
    """

    def __init__(self, left: Graph, right: Graph) -> None:
        self.left, self.right = left, right
        self.to_right = [FREE] * len(left.nodes)
        self.to_left = [FREE] * len(right.nodes)
        # The colours of what has a partner, which both partners share; 0 for what is free.
        self._fixed: Colours = [0] * len(left.nodes), [0] * len(right.nodes)
        self._number = {inst: i for i, inst in enumerate(left.nodes)}
        self._other_number = {inst: j for j, inst in enumerate(right.nodes)}
        self._last = 0

    def pairs(self) -> Iterator[tuple[Instruction, Instruction]]:
        """Yield the pairs of instructions of these graphs, in the order of the left one."""
        for i, j in enumerate(self.to_right):
            if j >= 0:
                yield self.left.nodes[i], self.right.nodes[j]

    def pair(self, i: int, j: int) -> None:
        """Match two free instructions."""
        assert self.free(i, j)
        self.to_right[i], self.to_left[j] = j, i
        self._last -= 1
        self._fixed[0][i] = self._fixed[1][j] = self._last

    def know(self, known: Iterable[tuple[Instruction, Instruction]]) -> None:
        """Take over pairs that were found elsewhere."""
        for a, b in known:
            i, j = self._number.get(a, -1), self._other_number.get(b, -1)
            if i >= 0 and j >= 0:
                if self.free(i, j):
                    self.pair(i, j)
                continue
            self._last -= 1
            if i >= 0 and self.to_right[i] == FREE:
                self.to_right[i], self._fixed[0][i] = ELSEWHERE, self._last
            if j >= 0 and self.to_left[j] == FREE:
                self.to_left[j], self._fixed[1][j] = ELSEWHERE, self._last

    def free(self, i: int, j: int) -> bool:
        """True if neither of two instructions has a partner."""
        return self.to_right[i] == FREE and self.to_left[j] == FREE

    @property
    def is_done(self) -> bool:
        """True if one side has nothing more to match."""
        return FREE not in self.to_right or FREE not in self.to_left

    def by_name(self, label: Callable[[Instruction], int]) -> None:
        """Match what has the same name, unique in its graph, and the same label."""
        ours, theirs = _named(self.left.nodes), _named(self.right.nodes)
        for name, i in ours.items():
            j = theirs.get(name, -1)
            if i >= 0 and j >= 0 and self.free(i, j):
                if label(self.left.nodes[i]) == label(self.right.nodes[j]):
                    self.pair(i, j)

    # --- by surroundings ------------------------------------------------------------------------

    def by_surroundings(self, label: Callable[[Instruction], int]) -> int:
        """Match what `label` and the surroundings distinguish. Returns the number of pairs."""
        labels = self._labels(label)
        total = 0
        for _ in range(_MOST_ROUNDS):
            found = 0 if self.is_done else self._round(labels)
            if not found:
                break
            total += found
        return total

    def _labels(self, label: Callable[[Instruction], int]) -> Colours:
        return [label(n) for n in self.left.nodes], [label(n) for n in self.right.nodes]

    def _colours(self, labels: Colours) -> tuple[Colours, Colours]:
        numbers = Numbers()
        up = (
            upward(self.left, labels[0], self._fixed[0], numbers),
            upward(self.right, labels[1], self._fixed[1], numbers),
        )
        down = (
            downward(self.left, labels[0], self._fixed[0], numbers),
            downward(self.right, labels[1], self._fixed[1], numbers),
        )
        return up, down

    def _round(self, labels: Colours) -> int:
        """Match by surroundings once. Returns the number of new pairs."""
        up, down = self._colours(labels)
        whole = (list(zip(up[0], down[0], strict=True)), list(zip(up[1], down[1], strict=True)))
        found = self._unique(*whole)
        # What computes the same may be needed for what comes next, so only one kind a round.
        return found or self._unique(*up) or self._unique(*down)

    def _unique(self, left: Sequence[object], right: Sequence[object]) -> int:
        """Match what has a colour that occurs once among the free ones of each side."""
        found = 0
        groups = self._groups(left, right)
        for ours, theirs in groups:
            if len(ours) == 1 and len(theirs) == 1:
                self.pair(ours[0], theirs[0])
                found += 1
        return found

    def _groups(
        self, left: Sequence[object], right: Sequence[object]
    ) -> list[tuple[list[int], list[int]]]:
        """Return the free instructions of each colour that both sides have."""
        ours: dict[object, list[int]] = defaultdict(list)
        theirs: dict[object, list[int]] = defaultdict(list)
        for i, j in enumerate(self.to_right):
            if j == FREE:
                ours[left[i]].append(i)
        for j, i in enumerate(self.to_left):
            if i == FREE:
                theirs[right[j]].append(j)
        return [(ours[c], theirs[c]) for c in ours if c in theirs]

    def ties(self, label: Callable[[Instruction], int], *, whole: bool) -> None:
        """Match what has equal surroundings in order: any choice is right if neighbours follow it.

        whole: what is equal in what it computes and in what becomes of it; else what is in either.
        """
        if self.is_done:
            return
        up, down = self._colours(self._labels(label))
        both = (list(zip(up[0], down[0], strict=True)), list(zip(up[1], down[1], strict=True)))
        for colours in [both] if whole else [up, down]:
            for ours, theirs in self._groups(*colours):
                if len(ours) == len(theirs):
                    self._in_order(ours, theirs, colours)

    def _in_order(
        self, ours: list[int], theirs: list[int], colours: tuple[Sequence[object], Sequence[object]]
    ) -> None:
        """Match equals, the same name first, then in their order; each with its neighbours."""
        nodes = self.right.nodes
        named = {nodes[j].name: j for j in theirs}
        for i in ours:
            j = named.get(self.left.nodes[i].name, -1)
            if j >= 0 and self.free(i, j):
                self._with_neighbours(i, j, colours)
        rest = iter([j for j in theirs if self.to_left[j] == FREE])
        for i in ours:
            if self.to_right[i] != FREE:
                continue
            j = next((j for j in rest if self.to_left[j] == FREE), -1)
            if j < 0:
                return
            self._with_neighbours(i, j, colours)

    def _with_neighbours(
        self, i: int, j: int, colours: tuple[Sequence[object], Sequence[object]]
    ) -> None:
        """Match two instructions, and those of equal colour that are in the same place to them."""
        self.pair(i, j)
        todo = [(i, j)]

        def meet(a: int, b: int) -> bool:
            if not self.free(a, b) or colours[0][a] != colours[1][b]:
                return False
            self.pair(a, b)
            todo.append((a, b))
            return True

        while todo:
            i, j = todo.pop()
            for a, b in zip(self.left.operands[i], self.right.operands[j], strict=False):
                meet(a, b)
            for a, position in self.left.uses[i]:
                for b, other in self.right.uses[j]:
                    if position == other and meet(a, b):
                        break

    def by_neighbours(self, label: Callable[[Instruction], int]) -> None:
        """Match what is the only one with such operands, or such users, wherever they are."""
        labels = self._labels(label)
        graphs = self.left, self.right
        below: list[list[object]] = [[], []]
        above: list[list[object]] = [[], []]
        for side, graph in enumerate(graphs):
            for n, own in enumerate(labels[side]):
                # What has no neighbours there is as good as alone.
                operands = tuple([labels[side][o] for o in graph.operands[n]])
                below[side].append((own, operands) if operands else (side, n))
                users = sorted([(labels[side][u], p) for u, p in graph.uses[n]])
                above[side].append((own, tuple(users)) if users else (side, n))
        self._unique(below[0], below[1])
        self._unique(above[0], above[1])

    # --- by place -------------------------------------------------------------------------------

    def by_place(
        self, label: Callable[[Instruction], int], least: float, *, conflicts: bool
    ) -> int:
        """Match what is in the same place between matched instructions, most agreement first.

        label: what must be equal as well. least: the share of operands and users that has to agree.
        conflicts: whether others of them may have partners elsewhere, and others may fit as well.
        Returns the number of pairs.
        """
        labels = self._labels(label)
        found = 0
        look = [i for i, j in enumerate(self.to_right) if j == FREE]
        while look and not self.is_done:
            candidates = []
            for i in look:
                for k in self._candidates(i):
                    if labels[0][i] == labels[1][k]:
                        score = self.agreement(i, k)
                        if score >= least and (conflicts or not self._disagree(i, k)):
                            candidates.append((-score, i, k))
            if not conflicts:
                candidates = _unequalled(candidates)
            near: set[int] = set()
            for _, i, k in sorted(candidates):
                if self.free(i, k) and (conflicts or not self._disagree(i, k)):
                    self.pair(i, k)
                    found += 1
                    near.update(self.left.operands[i])
                    near.update(u for u, _ in self.left.uses[i])
            look = [i for i in near if self.to_right[i] == FREE]
        return found

    def _disagree(self, i: int, j: int) -> bool:
        """True if an operand or user of one has its partner in another place of the other."""
        for a, b in zip(self.left.operands[i], self.right.operands[j], strict=False):
            if self.to_right[a] >= 0 and self.to_left[b] >= 0 and self.to_right[a] != b:
                return True
        others = set(self.right.uses[j])
        return any(
            self.to_right[u] >= 0 and (self.to_right[u], p) not in others
            for u, p in self.left.uses[i]
        )

    def _candidates(self, i: int) -> set[int]:
        """Return the free instructions that have a matched neighbour in common with this one."""
        found: set[int] = set()
        for user, position in self.left.uses[i]:
            other = self.to_right[user]
            if other < 0:
                continue
            if position == CONTROL:
                found.update(self.right.before[other])
            elif position < len(self.right.operands[other]):
                found.add(self.right.operands[other][position])
        for position, operand in enumerate(self.left.operands[i]):
            other = self.to_right[operand]
            if other >= 0:
                found.update(u for u, p in self.right.uses[other] if p == position)
        return {j for j in found if self.to_left[j] == FREE}

    def agreement(self, i: int, j: int) -> float:
        """Return the share of operands and users that are matched with each other, 0 to 1."""
        ours, theirs = self.left.operands[i], self.right.operands[j]
        same = sum(1 for a, b in zip(ours, theirs, strict=False) if self.to_right[a] == b)
        users = {(self.to_right[u], p, u) for u, p in self.left.uses[i]}
        others = set(self.right.uses[j])
        same += sum((user, p) in others for user, p, _ in users)
        both_roots = i in self.left.roots and j in self.right.roots
        same += both_roots
        whole = max(len(ours), len(theirs)) + max(len(users), len(others)) + both_roots
        return same / whole if whole else 0.0


def _named(nodes: Sequence[Instruction]) -> dict[str, int]:
    """Return the number of each name; -1 for names that occur more than once."""
    found: dict[str, int] = {}
    for n, inst in enumerate(nodes):
        found[inst.name] = -1 if inst.name in found else n
    return found


def _unequalled(candidates: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """Return the candidates that neither of both instructions has another as good as."""
    best: dict[tuple[str, int], float] = {}
    count: dict[tuple[str, int, float], int] = defaultdict(int)
    for score, i, k in candidates:
        for end in (("left", i), ("right", k)):
            best[end] = min(score, best.get(end, 0.0))
            count[(*end, score)] += 1
    return [
        (score, i, k)
        for score, i, k in candidates
        if all(
            best[end] == score and count[(*end, score)] == 1 for end in (("left", i), ("right", k))
        )
    ]
