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
from hlo.analysis.matching.graphs import Graph
from hlo.analysis.matching.labels import Numbers
from hlo.analysis.matching.places import ELSEWHERE, FREE, Colours, Places
from hlo.ir import Instruction

# A surrounding is compared again after what it led to is fixed; programs need a handful of rounds.
_MOST_ROUNDS = 40
# How much of two places has to agree, of 1, for the instructions in them to be matched.
SOME, ALL = 0.25, 1.0


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
        # How many are free, and which were when that was last looked up, in order.
        self._count = [len(left.nodes), len(right.nodes)]
        self._free = list(range(len(left.nodes))), list(range(len(right.nodes)))

    def pairs(self) -> Iterator[tuple[Instruction, Instruction]]:
        """Yield the pairs of instructions of these graphs, in the order of the left one."""
        for i, j in enumerate(self.to_right):
            if j >= 0:
                yield self.left.nodes[i], self.right.nodes[j]

    def pair(self, i: int, j: int) -> None:
        """Match two free instructions."""
        assert self.free(i, j)
        self.to_right[i], self.to_left[j] = j, i
        self._count[0] -= 1
        self._count[1] -= 1
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
                self._count[0] -= 1
            if j >= 0 and self.to_left[j] == FREE:
                self.to_left[j], self._fixed[1][j] = ELSEWHERE, self._last
                self._count[1] -= 1

    def free(self, i: int, j: int) -> bool:
        """True if neither of two instructions has a partner."""
        return self.to_right[i] == FREE and self.to_left[j] == FREE

    @property
    def is_done(self) -> bool:
        """True if one side has nothing more to match."""
        return not self._count[0] or not self._count[1]

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

    def free_ones(self) -> tuple[list[int], list[int]]:
        """Return the numbers of what has no partner, of each side, in order."""
        self._free = (
            [i for i in self._free[0] if self.to_right[i] == FREE],
            [j for j in self._free[1] if self.to_left[j] == FREE],
        )
        return self._free

    def _labels(self, label: Callable[[Instruction], int]) -> Colours:
        """Return the labels of what is free; others have none."""
        found: Colours = [0] * len(self.left.nodes), [0] * len(self.right.nodes)
        for graph, labels, free in zip(
            (self.left, self.right), found, self.free_ones(), strict=True
        ):
            for n in free:
                labels[n] = label(graph.nodes[n])
        return found

    def _colours(self, labels: Colours) -> tuple[Colours, Colours, Colours]:
        """Return colours by what things depend on, by what depends on them, and by both."""
        numbers = Numbers()
        graphs = self.left, self.right
        up: list[list[int]] = []
        down: list[list[int]] = []
        both: list[list[int]] = []
        for graph, own, fixed, free in zip(
            graphs, labels, self._fixed, self.free_ones(), strict=True
        ):
            up.append(upward(graph, own, fixed, free, numbers))
            down.append(downward(graph, own, fixed, free, numbers))
            whole = list(fixed)
            for n in free:
                whole[n] = numbers["both", up[-1][n], down[-1][n]]
            both.append(whole)
        return (up[0], up[1]), (down[0], down[1]), (both[0], both[1])

    def _round(self, labels: Colours) -> int:
        """Match by surroundings once. Returns the number of new pairs."""
        up, down, both = self._colours(labels)
        # What computes the same may be needed for what comes next, so only one kind a round.
        return self._unique(both) or self._unique(up) or self._unique(down)

    def _unique(self, colours: Colours) -> int:
        """Match what has a colour that occurs once among the free ones of each side."""
        found = 0
        for ours, theirs in self._groups(colours):
            if len(ours) == 1 and len(theirs) == 1:
                self.pair(ours[0], theirs[0])
                found += 1
        return found

    def _groups(self, colours: Colours) -> list[tuple[list[int], list[int]]]:
        """Return the free instructions of each colour that both sides have."""
        sides: list[dict[int, list[int]]] = []
        for own, free in zip(colours, self.free_ones(), strict=True):
            groups: dict[int, list[int]] = defaultdict(list)
            for n in free:
                groups[own[n]].append(n)
            sides.append(groups)
        ours, theirs = sides
        return [(ours[c], theirs[c]) for c in ours if c in theirs]

    def ties(self, label: Callable[[Instruction], int], *, whole: bool) -> None:
        """Match what has equal surroundings in order: any choice is right if neighbours follow it.

        whole: what is equal in what it computes and in what becomes of it; else what is in either.
        """
        if self.is_done:
            return
        up, down, both = self._colours(self._labels(label))
        for colours in [both] if whole else [up, down]:
            for ours, theirs in self._groups(colours):
                if len(ours) == len(theirs):
                    self._in_order(ours, theirs, colours)

    def _in_order(self, ours: list[int], theirs: list[int], colours: Colours) -> None:
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

    def _with_neighbours(self, i: int, j: int, colours: Colours) -> None:
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
        numbers = Numbers()
        below: Colours = [0] * len(self.left.nodes), [0] * len(self.right.nodes)
        above: Colours = [0] * len(self.left.nodes), [0] * len(self.right.nodes)
        for side, (graph, free) in enumerate(
            zip((self.left, self.right), self.free_ones(), strict=True)
        ):
            nodes = graph.nodes
            for n in free:
                own = label(nodes[n])
                # What has no neighbours there is as good as alone.
                operands = tuple([label(nodes[o]) for o in graph.operands[n]])
                below[side][n] = numbers[(own, operands) if operands else (side, n, "below")]
                users = tuple(sorted([(label(nodes[u]), p) for u, p in graph.uses[n]]))
                above[side][n] = numbers[(own, users) if users else (side, n, "above")]
        self._unique(below)
        self._unique(above)

    def by_depth(self, label: Callable[[Instruction], int]) -> int:
        """Match what both sides have equally often, one behind the other: the first with the first.

        So the layers of a chain are the same ones, of which each has changed. Returns the number of
        pairs.
        """
        if self.is_done:
            return 0
        labels = self._labels(label)
        depths = _depths(self.left), _depths(self.right)
        found = 0
        for ours, theirs in self._groups(labels):
            if len(ours) != len(theirs):
                continue
            ours = sorted(ours, key=lambda n: depths[0][n])
            theirs = sorted(theirs, key=lambda n: depths[1][n])
            if all(
                len({depth[n] for n in members}) == len(members)
                for depth, members in zip(depths, (ours, theirs), strict=True)
            ):
                for i, j in zip(ours, theirs, strict=True):
                    self.pair(i, j)
                found += len(ours)
        return found

    # --- by place -------------------------------------------------------------------------------

    def by_place(
        self, label: Callable[[Instruction], int], least: float, *, conflicts: bool
    ) -> int:
        """Match what is in the same place between matched instructions, most agreement first.

        label: what must be equal as well. least: the share of operands and users that has to agree.
        conflicts: whether others of them may have partners elsewhere, and others may fit as well.
        Returns the number of pairs.
        """
        look = self.free_ones()[0]
        if not look or self.is_done:
            return 0
        places = Places(self.left, self.right, self.to_right, self.to_left, self._labels(label))
        found = 0
        while look and not self.is_done:
            candidates = []
            for i in look:
                for k in places.candidates(i):
                    score = places.agreement(i, k)
                    if score >= least and (conflicts or not places.disagree(i, k)):
                        candidates.append((-score, i, k))
            if not conflicts:
                candidates = _unequalled(candidates)
            near: set[int] = set()
            for _, i, k in sorted(candidates):
                if self.free(i, k) and (conflicts or not places.disagree(i, k)):
                    self.pair(i, k)
                    found += 1
                    near.update(self.left.operands[i])
                    near.update([u for u, _ in self.left.uses[i]])
            look = [i for i in near if self.to_right[i] == FREE]
        return found


def _depths(graph: Graph) -> list[int]:
    """Return how many instructions are in the longest chain that leads to each."""
    depths: list[int] = []
    for operands in graph.operands:
        depths.append(1 + max([depths[o] for o in operands], default=0))
    return depths


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
