"""The cheapest sequence of steps from one distribution of an array to another one.

A search over specs (Dijkstra), whose edges are single steps: cut a dimension (free), all-gather,
all-to-all, collective-permute, all-reduce, reduce-scatter. Axes are prime, and of a dimension only
the minor ones can be added or removed; a collective-permute changes axes for others of the same
sizes. What is counted are the elements of the results of collectives. No step makes an array larger
than the larger one of the two shards, unless gathering everything moves less. Source: "Memory-
efficient array redistribution through portable collective communication", arXiv 2112.01075.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hlo.spmd.halo.messages import messages_of, rounds_of, sent
from hlo.spmd.mesh import Axes
from hlo.spmd.redistribution.steps import Kind, Move, State, Step

# A search that has looked at so many distributions settles for the best that it has found.
_MOST_STATES = 300


class Problem(NamedTuple):
    """Axes by number, with their sizes; the sizes of whole dimensions; the two distributions."""

    axes: tuple[int, ...]
    extents: tuple[int, ...]
    source: tuple[Axes, ...]
    target: tuple[Axes, ...]
    partial_source: Axes
    partial_target: Axes

    def count(self, axes: Axes) -> int:
        return math.prod(self.axes[a] for a in axes)

    def state(self, dims: tuple[Axes, ...], partial: Axes) -> State:
        sizes = (-(-d // self.count(axes)) for d, axes in zip(self.extents, dims, strict=True))
        return State(dims, tuple(sizes), partial)


@lru_cache(maxsize=8192)
def solve(problem: Problem) -> tuple[tuple[Step, ...], int]:
    """Return the cheapest steps that are found, and the elements in their collectives' results."""
    search = _Search(problem)
    plain = search.gather_all()
    for bound in (search.bound, None):
        quick = search.cheapest(bound, plain[1], hasty=True)
        found = search.cheapest(bound, (quick or plain)[1]) or quick
        if found is not None:
            return found
    return plain


class _Node(NamedTuple):
    """A state in the search, with what the last step was: like steps become one.

    Attributes:
        kind: of the last step; None at the beginning.
        grown: of an all-to-all, the dimensions that have lost axes.
        split: of an all-to-all, the dimensions that have got axes.
        result: of a collective, the elements of its result, before padding is cut off.
    """

    state: State
    kind: Kind | None = None
    grown: frozenset[int] = frozenset()
    split: frozenset[int] = frozenset()
    result: int = 0

    def then(self, step: Step, result: int = 0) -> _Node:
        """Return the node after a step."""
        if step.kind is not Kind.EXCHANGE:
            return _Node(step.after, step.kind, result=result)
        grown = frozenset(m.source for m in step.moves)
        split = frozenset(m.target for m in step.moves)
        if self.joins(step):
            grown, split = grown | self.grown, split | self.split
        return _Node(step.after, step.kind, grown, split, result)

    def start(self, step: Step) -> int:
        """Return the elements that a step starts from: of a collective that it joins, all."""
        return self.result if self.joins(step) else self.state.elements

    def joins(self, step: Step) -> bool:
        """True when a step and the one before it are one collective, or one slice."""
        if self.kind is not step.kind:
            return False
        if step.kind is Kind.EXCHANGE:
            return all(m.source not in self.split and m.target not in self.grown
                       for m in step.moves)  # fmt: skip
        return step.kind in (Kind.CUT, Kind.GATHER, Kind.PERMUTE, Kind.REDUCE)


class _Search:
    def __init__(self, problem: Problem) -> None:
        self.problem = p = problem
        self.source = p.state(p.source, p.partial_source)
        self.target = p.state(p.target, p.partial_target)
        self.bound = max(self.source.elements, self.target.elements)
        wanted = {a for axes in p.target for a in axes}
        self.wanted = tuple(a for a in range(len(p.axes)) if a in wanted)
        every = math.prod(p.axes)
        self.even = all(extent % every == 0 for extent in p.extents)
        # Dimensions whose shards are the same parts of one, whatever the padding.
        self.aligned = {
            dim for dim, extent in enumerate(p.extents)
            if extent % p.count(p.source[dim]) == 0 and extent % p.count(p.target[dim]) == 0
        }  # fmt: skip
        # The sizes that a dimension may be padded to.
        self.padded: list[tuple[int, ...]] = []
        for extent, old, new in zip(p.extents, p.source, p.target, strict=True):
            counts = {p.count(old), p.count(new), math.lcm(p.count(old), p.count(new))}
            self.padded.append(tuple(sorted({-(-extent // k) * k for k in counts})))

    # --- the search -------------------------------------------------------------------------------

    def cheapest(
        self, bound: int | None, most: int, hasty: bool = False
    ) -> tuple[tuple[Step, ...], int] | None:
        """Return the cheapest steps and their cost; None without any that cost at most `most`.

        bound: how many elements a shard may have.
        hasty: prefer what looks like the target to what is cheap.
        """
        start = _Node(self.source)
        best: dict[_Node, tuple[int, int]] = {start: (0, 0)}
        back: dict[_Node, tuple[_Node, Step]] = {}
        done: set[_Node] = set()
        serial = itertools.count()
        queue = [(0, 0, 0, next(serial), start)]
        visited = 0
        while queue:
            *_, node = heapq.heappop(queue)
            cost, count = best[node]
            if node.state == self.target:
                return self._path(node, back), cost
            if node in done:
                continue
            done.add(node)
            visited += 1
            if visited > _MOST_STATES:
                return None
            for result, step in self._steps(node):
                if bound is not None and step.after.elements > bound:
                    continue
                joined = node.joins(step)
                more = result - node.result if joined else result
                total = cost + more, count + (not joined and step.kind is not Kind.CUT)
                then = node.then(step, result)
                least = total[0] + self._least(then)
                if least > most:
                    continue
                if then not in best or total < best[then]:
                    best[then] = total
                    back[then] = node, step
                    done.discard(then)
                    if hasty:
                        least = total[0] + self._misplaced(step.after) * self.target.elements
                    # Of equals, the one that has come further.
                    entry = least, total[1], -total[0], next(serial), then
                    heapq.heappush(queue, entry)
        return None

    def _least(self, node: _Node) -> int:
        """Return what the steps after a state cost at least: after the last collective, whose
        result is what counts, come slices only."""
        state = node.state
        if self.target.partial or (
            not state.partial
            and all(new[: len(old)] == old
                    for old, new in zip(state.dims, self.target.dims, strict=True))
        ):  # fmt: skip
            return 0
        if node.kind is Kind.GATHER:
            return max(0, self.target.elements - state.elements)
        if node.kind in (Kind.PERMUTE, Kind.EXCHANGE, Kind.REDUCE):
            # What follows may belong to the same collective; it makes shards no larger.
            padded = node.kind is Kind.EXCHANGE and not self.even
            return 0 if padded or self.target.elements <= state.elements else self.target.elements
        return self.target.elements

    def _misplaced(self, state: State) -> int:
        """Return a guess at the number of collectives that are still to come."""
        count = sum(a not in self.target.partial for a in state.partial)
        for old, new in zip(state.dims, self.target.dims, strict=True):
            same = 0
            while same < min(len(old), len(new)) and old[same] == new[same]:
                same += 1
            count += len(old) - same
        return count

    def _path(self, node: _Node, back: dict[_Node, tuple[_Node, Step]]) -> tuple[Step, ...]:
        steps: list[Step] = []
        while node in back:
            previous, step = back[node]
            if steps and previous.then(step).joins(steps[-1]):
                last = steps.pop()
                step = Step(step.kind, step.before, last.after, (*step.moves, *last.moves))
            steps.append(step)
            node = previous
        return tuple(reversed(steps))

    def gather_all(self) -> tuple[tuple[Step, ...], int]:
        """Return the plainest steps: everything that is cut is gathered, then sliced."""
        p, state = self.problem, self.source
        steps: list[Step] = []
        cost = 0
        if any(a not in p.partial_target for a in state.partial):
            kept = tuple(a for a in state.partial if a in p.partial_target)
            gone = tuple(a for a in state.partial if a not in kept)
            steps.append(Step(Kind.REDUCE, state, state._replace(partial=kept),
                              (Move(-1, gone, -1),)))  # fmt: skip
            cost += state.elements
            state = steps[-1].after
        whole = State(((),) * len(p.extents), p.extents, state.partial)
        if any(state.dims):
            moves = tuple(Move(d, axes, -1) for d, axes in enumerate(state.dims) if axes)
            steps.append(Step(Kind.GATHER, state, whole, moves))
            cost += state.elements * p.count(tuple(a for axes in state.dims for a in axes))
        added = tuple(a for a in p.partial_target if a not in whole.partial)
        if added:
            after = whole._replace(partial=self.target.partial)
            steps.append(Step(Kind.MASK, whole, after, (Move(-1, added, -1),)))
            whole = after
        if any(p.target):
            moves = tuple(Move(-1, axes, d) for d, axes in enumerate(p.target) if axes)
            steps.append(Step(Kind.CUT, whole, self.target, moves))
        return tuple(steps), cost

    # --- steps ------------------------------------------------------------------------------------

    def _steps(self, node: _Node) -> Iterator[tuple[int, Step]]:
        """Yield the steps from a state, each with the elements of its collective's result."""
        state = node.state
        used = {a for axes in state.dims for a in axes} | set(state.partial)
        free = [a for a in self.wanted if a not in used]
        yield from self._cuts(state, free)
        if state.partial != self.target.partial:
            yield from self._reductions(state)
            yield from self._partials(state, used)
        yield from self._gathers(node)
        yield from self._exchanges(node)
        yield from self._permutes(state, free)
        yield from self._repads(state)

    def _split(self, state: State, dim: int, count: int) -> Iterator[int]:
        """Yield the sizes of parts of which a dimension of a shard has `count`."""
        if not state.dims[dim]:
            sizes = {p // count for p in self.padded[dim] if p % count == 0}
            yield from sorted(sizes or {-(-state.sizes[dim] // count)})
        elif state.sizes[dim] % count == 0:
            yield state.sizes[dim] // count

    def _joined(self, dim: int, axes: Axes, size: int) -> int:
        """Return the size of a dimension after some of its axes have gone."""
        return size if axes else self.problem.extents[dim]

    def _cuts(self, state: State, free: Sequence[int]) -> Iterator[tuple[int, Step]]:
        for dim, axes in enumerate(state.dims):
            for axis in free:
                for size in self._split(state, dim, self.problem.axes[axis]):
                    after = state.changed(dim, (*axes, axis), size)
                    yield 0, Step(Kind.CUT, state, after, (Move(-1, (axis,), dim),))

    def _gathers(self, node: _Node) -> Iterator[tuple[int, Step]]:
        state = node.state
        for dim, axes in enumerate(state.dims):
            for kept in range(len(axes)):
                gone = axes[kept:]
                size = state.sizes[dim] * self.problem.count(gone)
                after = state.changed(dim, axes[:kept], self._joined(dim, axes[:kept], size))
                step = Step(Kind.GATHER, state, after, (Move(dim, gone, -1),))
                yield node.start(step) * self.problem.count(gone), step

    def _exchanges(self, node: _Node) -> Iterator[tuple[int, Step]]:
        state = node.state
        for source, axes in enumerate(state.dims):
            for kept in range(len(axes)):
                gone = axes[kept:]
                count = self.problem.count(gone)
                whole = self._joined(source, axes[:kept], state.sizes[source] * count)
                grown = state.changed(source, axes[:kept], whole)
                for target, entered in enumerate(state.dims):
                    if target == source:
                        continue
                    for size in self._split(state, target, count):
                        after = grown.changed(target, (*entered, *gone), size)
                        step = Step(Kind.EXCHANGE, state, after, (Move(source, gone, target),))
                        yield node.start(step) * size * count // max(1, state.sizes[target]), step

    def _permutes(self, state: State, free: Sequence[int]) -> Iterator[tuple[int, Step]]:
        sizes = self.problem.axes
        places = [(d, n) for d, axes in enumerate(state.dims) for n in range(len(axes))]
        for first, (dim, n) in enumerate(places):
            axis = state.dims[dim][n]
            for other_dim, m in places[first + 1 :]:
                other = state.dims[other_dim][m]
                near = dim == other_dim and m == n + 1
                if sizes[axis] == sizes[other] or near:
                    dims = _replaced(state.dims, {axis: other, other: axis})
                    yield state.elements, Step(Kind.PERMUTE, state, state._replace(dims=dims))
            for other in free:
                if sizes[axis] == sizes[other]:
                    dims = _replaced(state.dims, {axis: other})
                    yield state.elements, Step(Kind.PERMUTE, state, state._replace(dims=dims))

    def _repads(self, state: State) -> Iterator[tuple[int, Step]]:
        p = self.problem
        for dim, axes in enumerate(state.dims):
            if not axes or dim in self.aligned:
                continue
            count, old = p.count(axes), state.sizes[dim]
            sizes = {n // count for n in self.padded[dim] if n % count == 0}
            for size in sorted(sizes - {old}):
                after = state.changed(dim, axes, size)
                others = math.prod(s for d, s in enumerate(state.sizes) if d != dim)
                cost = received(p.extents[dim], count, old, size) * others
                yield cost, Step(Kind.REPAD, state, after, (Move(dim, axes, dim),))

    def _reductions(self, state: State) -> Iterator[tuple[int, Step]]:
        gone = [a for a in state.partial if a not in self.target.partial]
        for axis in gone:
            after = state._replace(partial=_without(state.partial, (axis,)))
            yield state.elements, Step(Kind.REDUCE, state, after, (Move(-1, (axis,), -1),))
        wanted = [a for a in gone if a in self.wanted]
        ranks = range(len(state.dims))
        for number in range(1, len(wanted) + 1):
            for axes in itertools.permutations(wanted, number):
                for dims in itertools.product(ranks, repeat=number):
                    yield from self._scatters(state, axes, dims)

    def _scatters(
        self, state: State, axes: Axes, dims: tuple[int, ...]
    ) -> Iterator[tuple[int, Step]]:
        """Yield the reduce-scatters that cut dimensions along axes, in this order."""
        if any(self.target.dims[d][len(state.dims[d]) :][:1] == () for d in dims):
            return
        partial = _without(state.partial, axes)
        moves = tuple(Move(-1, (a,), d) for a, d in zip(axes, dims, strict=True))
        reached = [state._replace(partial=partial)]
        for axis, dim in zip(axes, dims, strict=True):
            reached = [
                s.changed(dim, (*s.dims[dim], axis), size)
                for s in reached
                for size in self._split(s, dim, self.problem.axes[axis])
            ]
        for after in reached:
            yield after.elements, Step(Kind.SCATTER, state, after, moves)

    def _partials(self, state: State, used: set[int]) -> Iterator[tuple[int, Step]]:
        """Yield the steps that make partial results, which the target has."""
        for axis in self.target.partial:
            if axis in state.partial:
                continue
            partial = tuple(sorted((*state.partial, axis)))
            for dim, axes in enumerate(state.dims):
                if axes and axes[-1] == axis:
                    size = state.sizes[dim] * self.problem.axes[axis]
                    size = self._joined(dim, axes[:-1], size)
                    after = state.changed(dim, axes[:-1], size, partial)
                    yield 0, Step(Kind.SPREAD, state, after, (Move(dim, (axis,), -1),))
            if axis not in used:
                after = state._replace(partial=partial)
                yield 0, Step(Kind.MASK, state, after, (Move(-1, (axis,), -1),))


def _without(axes: Axes, gone: Sequence[int]) -> Axes:
    return tuple(a for a in axes if a not in gone)


def _replaced(dims: tuple[Axes, ...], by: dict[int, int]) -> tuple[Axes, ...]:
    return tuple(tuple(by.get(a, a) for a in axes) for axes in dims)


def windows(extent: int, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where shards of a size begin in a dimension, and how many elements each has."""
    starts = np.arange(count) * size
    return starts, np.clip(extent - starts, 0, size)


@lru_cache(maxsize=4096)
def received(extent: int, count: int, old: int, new: int) -> int:
    """Return how many elements a device receives when shards of a dimension change their size."""
    gathered = (count - 1) * old
    messages = messages_of(*windows(extent, count, new), extent, old, limit=gathered)
    return gathered if messages is None else min(gathered, sent(rounds_of(messages)))
