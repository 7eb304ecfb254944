"""Collectives on a topology: the fastest algorithm for groups of devices, and its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo.analysis.network.algorithms import Algorithm, Phase, algorithms_for
from hlo.analysis.network.transfers import Transfer
from hlo.analysis.simulation.topology import Numbers, Topology

# Of a phase in which everybody sends to everybody, so many messages are routed; the others load
# links like them.
_MOST_ROUTED = 1 << 21
_FEWEST_DISTANCES = 16


@dataclass(frozen=True)
class Carried:
    """How a collective is carried out: by which algorithm, in how many seconds, and the bytes that
    the busiest device sends."""

    algorithm: str
    seconds: float
    sent: float


class Fabric:
    """A topology that carries collectives, all groups of one at the same time."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._known: dict[tuple[Transfer, Sequence[Sequence[int]]], Carried] = {}

    def permute(self, pairs: Sequence[Sequence[int]], size: float) -> Carried:
        """Return how pairs of source and target exchange some bytes each."""
        if not pairs:
            return Carried("none", 0.0, 0.0)
        ends = np.asarray(pairs)
        sources, targets = ends[:, 0], ends[:, 1]
        loads = self.topology.new_loads()
        self.topology.add_loads(loads, sources, targets)
        # From a device to itself it is a copy.
        sends = float(size if np.any(sources != targets) else 0)
        seconds = self.topology.latency(sources, targets) + size * self.topology.busiest(loads)
        return Carried("direct" if sends else "none", seconds, sends)

    def collective(self, transfer: Transfer, groups: Sequence[Sequence[int]]) -> Carried:
        """Return how groups of devices do a collective, by the fastest algorithm.

        groups: of any sizes; the size of `transfer` is for its largest groups.
        """
        key = transfer, tuple(map(tuple, groups))
        if key not in self._known:
            self._known[key] = max(
                (self._fastest(transfer, same) for same in by_size(groups)),
                key=lambda carried: carried.seconds,
                default=Carried("none", 0.0, 0.0),
            )
        return self._known[key]

    def _fastest(self, transfer: Transfer, groups: Numbers) -> Carried:
        opcode, size = transfer.opcode, transfer.bytes
        ways = [
            Carried(way.name, self._seconds(way, groups), way.sent)
            for way in algorithms_for(opcode, groups.shape[1], size)
        ]
        box = self._box(groups)
        if box is not None and opcode in _STAGES:
            ways.append(self._by_dimension(opcode, size, box))
        return min(ways, key=lambda way: way.seconds)

    def _seconds(self, way: Algorithm, groups: Numbers) -> float:
        return sum(self._phase_seconds(phase, groups) for phase in way.phases)

    def _phase_seconds(self, phase: Phase, groups: Numbers) -> float:
        """Return how long a phase takes when all groups, one a row, are in it."""
        topology = self.topology
        distances = list(phase.distances)
        most = max(_FEWEST_DISTANCES, _MOST_ROUTED // groups.size)
        chosen = distances[:: max(1, -(-len(distances) // most))]
        loads, latency = topology.new_loads(), 0.0
        for distance in chosen:
            sources, targets = groups.ravel(), np.roll(groups, -distance, axis=1).ravel()
            topology.add_loads(loads, sources, targets)
            latency += topology.latency(sources, targets) / len(chosen)
        transfer = topology.busiest(loads) * phase.bytes * len(distances) / len(chosen)
        return phase.rounds * latency + transfer

    # --- one dimension of the grid after the other ----------------------------------------------

    def _box(self, groups: Numbers) -> list[Numbers] | None:
        """Return the lines of groups along each dimension of the grid, nearest devices first.

        None unless each group is a box of the same size with two dimensions at least. Its lines
        have the devices of a group that differ in that dimension only, one line a row.
        """
        grid = self.topology.grid
        if len(grid) < 2:
            return None
        # Members in the order of their numbers are in row-major order of the box.
        members = np.sort(groups, axis=1)
        places = np.stack(np.unravel_index(members, grid), axis=-1)
        sizes = [len(np.unique(places[0, :, d])) for d in range(len(grid))]
        if np.prod(sizes) != members.shape[1] or sum(n > 1 for n in sizes) < 2:
            return None
        box = places.reshape(len(members), *sizes, len(grid))
        for d in range(len(grid)):
            # The coordinate of a member depends on its place along that dimension alone.
            apart = tuple(k + 1 for k in range(len(grid)) if k != d)
            if np.any(np.ptp(box[..., d], axis=apart)):
                return None
        shaped = members.reshape(len(members), *sizes)
        return [
            np.moveaxis(shaped, d + 1, -1).reshape(-1, n)
            for d, n in reversed(list(enumerate(sizes)))
            if n > 1
        ]

    def _by_dimension(self, opcode: str, size: float, lines: Sequence[Numbers]) -> Carried:
        """Return how long a collective takes as stages, each along the lines of one dimension.

        Where dimensions share no links, an equal part of the data begins with each of them.
        """
        parts = len(lines) if self.topology.independent_axes else 1
        seconds = sent = 0.0
        runs = [_stages(opcode, size / parts, [*lines[p:], *lines[:p]]) for p in range(parts)]
        for stages in zip(*runs, strict=True):
            most = 0.0
            for stage, part, along in stages:
                ways = algorithms_for(stage, along.shape[1], part)
                taken = [(self._seconds(way, along), way.sent) for way in ways]
                best, bytes_ = min(taken)
                most, sent = max(most, best), sent + bytes_
            seconds += most
        return Carried("by dimension", seconds, sent)


def by_size(groups: Sequence[Sequence[int]]) -> list[Numbers]:
    """Return the groups of each size as an array, one group a row."""
    sizes: dict[int, list[Sequence[int]]] = {}
    for group in groups:
        sizes.setdefault(len(group), []).append(group)
    return [np.asarray(same) for same in sizes.values()]


# What has stages of its own along dimensions.
_STAGES = frozenset({"all-gather", "all-reduce", "reduce-scatter", "all-to-all"})

_Stage = tuple[str, float, Numbers]


def _stages(opcode: str, size: float, lines: Sequence[Numbers]) -> list[_Stage]:
    """Return the collectives along lines that make up one of whole boxes, with their bytes.

    lines: along each dimension, those with the least to send first where it is scattered.
    """
    if opcode == "all-to-all":
        return [(opcode, size, along) for along in lines]
    scattered: list[_Stage] = []
    for along in lines:
        scattered.append(("reduce-scatter", size, along))
        size /= along.shape[1]
    gathered = [("all-gather", part, along) for _, part, along in reversed(scattered)]
    if opcode == "reduce-scatter":
        return scattered
    return gathered if opcode == "all-gather" else scattered + gathered
