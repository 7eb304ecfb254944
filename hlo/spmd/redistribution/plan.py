"""How an array changes from one distribution to another one: the steps, and what they move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.redistribution.route import Problem, solve
from hlo.spmd.redistribution.steps import Move, State, Step


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, and the number of elements in the results of their collectives."""

    steps: tuple[Step, ...]
    elements: int


def plan(
    mesh: DeviceMesh, dims: Sequence[int], source: PartitionSpec, target: PartitionSpec
) -> Plan:
    """Return how an array changes from one spec to another one. Their manual axes are the same."""
    return _Reduced(mesh, dims, source, target).plan()


def moved_elements(
    mesh: DeviceMesh, dims: Sequence[int], source: PartitionSpec, target: PartitionSpec
) -> int:
    """Return the number of elements in the results of the collectives of a plan."""
    return _Reduced(mesh, dims, source, target).elements()


class _Reduced:
    """A problem without what does not change, in a form that equal problems share."""

    def __init__(
        self, mesh: DeviceMesh, dims: Sequence[int], source: PartitionSpec, target: PartitionSpec
    ) -> None:
        self.sizes = mesh.local_dims(dims, source)
        self.source, self.target = source, target
        self.active: list[int] = []
        self.prefixes: list[Axes] = []
        extents: list[int] = []
        olds: list[Axes] = []
        news: list[Axes] = []
        for dim, (old, new) in enumerate(zip(source.dims, target.dims, strict=True)):
            if old == new:
                continue
            kept = 0
            even = dims[dim] % mesh.count(old) == 0 and dims[dim] % mesh.count(new) == 0
            while even and kept < min(len(old), len(new)) and old[kept] == new[kept]:
                kept += 1
            self.active.append(dim)
            self.prefixes.append(old[:kept])
            extents.append(mesh.shard_size(dims[dim], old[:kept]))
            olds.append(old[kept:])
            news.append(new[kept:])
        both = set(source.unreduced) & set(target.unreduced)
        before = tuple(sorted(set(source.unreduced) - both))
        after = tuple(sorted(set(target.unreduced) - both))
        self.partial = tuple(sorted(both))
        self.axes = _together((*olds, before), (*news, after))
        number = {axes[0]: n for n, axes in enumerate(self.axes)}

        def renamed(axes: Axes) -> Axes:
            return tuple(number[a] for a in axes if a in number)

        self.problem = Problem(
            tuple(map(mesh.count, self.axes)), tuple(extents),
            tuple(map(renamed, olds)), tuple(map(renamed, news)),
            tuple(sorted(renamed(before))), tuple(sorted(renamed(after))),
        )  # fmt: skip

    def plan(self) -> Plan:
        steps, _ = solve(self.problem)
        return Plan(tuple(map(self._whole, steps)), self.elements())

    def elements(self) -> int:
        _, elements = solve(self.problem)
        rest = math.prod(s for dim, s in enumerate(self.sizes) if dim not in self.active)
        return elements * rest

    def _whole(self, step: Step) -> Step:
        return Step(
            step.kind, self._state(step.before), self._state(step.after),
            tuple(
                Move(self._dim(m.source), self._axes(m.axes), self._dim(m.target))
                for m in step.moves
            ),
        )  # fmt: skip

    def _axes(self, numbers: Axes) -> Axes:
        return tuple(a for n in numbers for a in self.axes[n])

    def _dim(self, dim: int) -> int:
        return self.active[dim] if dim >= 0 else -1

    def _state(self, state: State) -> State:
        dims, sizes = list(self.source.dims), list(self.sizes)
        for dim, prefix, axes, size in zip(
            self.active, self.prefixes, state.dims, state.sizes, strict=True
        ):
            dims[dim] = (*prefix, *self._axes(axes))
            sizes[dim] = size
        partial = (*self.partial, *self._axes(state.partial))
        return State(tuple(dims), tuple(sizes), tuple(sorted(partial)))


def _together(before: Sequence[Axes], after: Sequence[Axes]) -> list[Axes]:
    """Return the axes in runs that stay one behind the other, or are in neither."""

    def follows(lists: Sequence[Axes]) -> dict[int, int]:
        return {y: x for axes in lists for x, y in itertools.pairwise(axes)}

    def has(lists: Sequence[Axes]) -> set[int]:
        return {a for axes in lists for a in axes}

    old, new, in_old, in_new = follows(before), follows(after), has(before), has(after)
    runs: list[list[int]] = []
    for axis in dict.fromkeys(a for axes in (*before, *after) for a in axes):
        last = runs[-1][-1] if runs else -1
        stays = old.get(axis) == last if axis in in_old else last not in in_old
        if runs and stays and (new.get(axis) == last if axis in in_new else last not in in_new):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return list(map(tuple, runs))
