"""Where the boxes of a graph go: in layers, operands above users, with few crossings.

The layer of a node is its longest path from a source. Within layers, nodes are ordered by the mean
place of their neighbours, a few times down and up. All of it takes time linear in the edges, but
for sorting, so that computations of thousands of instructions are drawn in a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SWEEPS = 4


@dataclass(frozen=True)
class Spot:
    """A node's layer from above, and its place in the layer from the left."""

    layer: int
    place: int


def arrange(operands: Sequence[Sequence[int]]) -> list[Spot]:
    """Return a spot for each node.

    operands: for each node those above it, all with smaller numbers.
    """
    layer = [0] * len(operands)
    users: list[list[int]] = [[] for _ in operands]
    for node, above in enumerate(operands):
        for operand in above:
            layer[node] = max(layer[node], layer[operand] + 1)
            users[operand].append(node)
    # What has no operands stands right above its first user, not at the top.
    for node, above in enumerate(operands):
        if not above and users[node]:
            layer[node] = min(layer[user] for user in users[node]) - 1
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, at in enumerate(layer):
        rows[at].append(node)
    place = [0] * len(operands)
    for row in rows:
        _number(row, place)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = operands if down else users
        for row in rows if down else reversed(rows):
            row.sort(key=lambda node: _mean(node, neighbours, place))
            _number(row, place)
    return [Spot(layer[node], place[node]) for node in range(len(operands))]


def _number(row: Sequence[int], place: list[int]) -> None:
    for at, node in enumerate(row):
        place[node] = at


def _mean(node: int, neighbours: Sequence[Sequence[int]], place: Sequence[int]) -> float:
    near = neighbours[node]
    return sum(place[n] for n in near) / len(near) if near else float(place[node])
