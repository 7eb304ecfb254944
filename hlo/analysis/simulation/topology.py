"""How devices are linked, and how long messages take that are sent at the same time.

Messages are so long that they share links evenly: the time is that of the busiest link, and the
latency of the longest way. Routes are fixed: the shorter way around each dimension of a torus, one
dimension after the other, and up and down a tree.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hlo.errors import HloError, did_you_mean
from hlo.support.quantities import quantity_text

Numbers = np.ndarray


class Topology(ABC):
    """Links between devices, which have numbers from 0."""

    devices: int
    # The sizes of a grid that the numbers of devices fill in row-major order, nearest devices last.
    grid: tuple[int, ...]

    @abstractmethod
    def latency(self, sources: Numbers, targets: Numbers) -> float:
        """Return the seconds that the message with the longest way takes to begin to arrive."""

    @abstractmethod
    def new_loads(self) -> list[Numbers]:
        """Return an array of zeros for each kind of link."""

    @abstractmethod
    def add_loads(self, loads: Sequence[Numbers], sources: Numbers, targets: Numbers) -> None:
        """Add the number of messages on each link, one from each source to the target of the same
        index. A device that sends to itself uses none."""

    @abstractmethod
    def busiest(self, loads: Sequence[Numbers]) -> float:
        """Return the seconds per byte of each message that the busiest link needs."""

    @property
    def independent_axes(self) -> bool:
        """True if messages along different dimensions of the grid share no links."""
        return False


class Torus(Topology):
    """A grid whose lines are rings; with one dimension, a ring.

    bandwidth: bytes per second of a link, in each direction. hop: seconds to pass a link.
    """

    def __init__(self, dims: Sequence[int], bandwidth: float, hop: float) -> None:
        self.grid = tuple(dims)
        self.devices = prod(dims)
        self._bandwidth = bandwidth
        self._hop = hop

    @property
    def independent_axes(self) -> bool:
        return True

    def _ways(self, sources: Numbers, targets: Numbers) -> list[tuple[Numbers, Numbers, Numbers]]:
        """Return for each dimension where a message starts and ends, and its signed length."""
        found = []
        for a, b, size in zip(
            np.unravel_index(sources, self.grid), np.unravel_index(targets, self.grid), self.grid,
            strict=True,
        ):  # fmt: skip
            ahead = (b - a) % size
            # Of ways of equal length every other one goes back.
            is_short = 2 * ahead + a % 2 <= size
            found.append((a, b, np.where(is_short, ahead, ahead - size)))
        return found

    def latency(self, sources: Numbers, targets: Numbers) -> float:
        hops = sum(np.abs(length) for _, _, length in self._ways(sources, targets))
        return self._hop * float(np.max(hops, initial=0))

    def new_loads(self) -> list[Numbers]:
        # Each dimension ahead and back, as differences along that dimension.
        return [np.zeros(self.grid) for _ in self.grid for _ in range(2)]

    def add_loads(self, loads: Sequence[Numbers], sources: Numbers, targets: Numbers) -> None:
        ways = self._ways(sources, targets)
        at = [a for a, _, _ in ways]
        for k, (a, b, length) in enumerate(ways):
            for back in (0, 1):
                some = length < 0 if back else length > 0
                load = loads[2 * k + back]
                # Link i of a line is between i and i + 1: those from the lower end to the upper,
                # around the end of the line where the lower one comes later.
                low, high = (b, a) if back else (a, b)
                self._add(load, at, k, low, some, 1.0)
                self._add(load, at, k, high, some, -1.0)
                self._add(load, at, k, np.zeros_like(a), some & (high < low), 1.0)
            at[k] = b

    def _add(
        self, load: Numbers, at: Sequence[Numbers], k: int, where: Numbers, some: Numbers, by: float
    ) -> None:
        index = [where[some] if d == k else c[some] for d, c in enumerate(at)]
        flat = np.ravel_multi_index(tuple(index), self.grid)
        load += by * np.bincount(flat, minlength=load.size).reshape(self.grid)

    def busiest(self, loads: Sequence[Numbers]) -> float:
        most = 0.0
        for n, load in enumerate(loads):
            most = max(most, float(np.max(np.cumsum(load, axis=n // 2), initial=0.0)))
        return most / self._bandwidth

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.grid))
        kind = f"ring of {sizes}" if len(self.grid) == 1 else f"torus {sizes}"
        speed = quantity_text(self._bandwidth, "B/s")
        return f"{kind}, links {speed} each way, {quantity_text(self._hop, 's')} a hop"


@dataclass(frozen=True)
class Level:
    """Links that messages take between devices of different blocks of `span` devices.

    shared_by: how many devices share one, which has `bandwidth` bytes per second up and as many
    down. latency: seconds of a message whose way leads up to here.
    """

    span: int
    shared_by: int
    bandwidth: float
    latency: float


class Tree(Topology):
    """Switches: messages go up as many levels as they have to, and down again."""

    def __init__(self, devices: int, levels: Sequence[Level], name: str) -> None:
        self.devices = devices
        self._levels = levels
        self._name = name
        inner = levels[-1].span
        regular = devices % inner == 0
        self.grid = (devices // inner, inner) if 1 < inner < devices and regular else (devices,)

    def latency(self, sources: Numbers, targets: Numbers) -> float:
        crossed = [
            level.latency
            for level in self._levels
            if np.any(sources // level.span != targets // level.span)
        ]
        return max(crossed, default=0.0)

    def new_loads(self) -> list[Numbers]:
        counts = [-(-self.devices // level.shared_by) for level in self._levels]
        return [np.zeros(count) for count in counts for _ in range(2)]

    def add_loads(self, loads: Sequence[Numbers], sources: Numbers, targets: Numbers) -> None:
        for k, level in enumerate(self._levels):
            across = sources // level.span != targets // level.span
            for load, ends in zip(loads[2 * k : 2 * k + 2], (sources, targets), strict=True):
                load += np.bincount(ends[across] // level.shared_by, minlength=load.size)

    def busiest(self, loads: Sequence[Numbers]) -> float:
        return max(
            float(np.max(load, initial=0.0)) / self._levels[n // 2].bandwidth
            for n, load in enumerate(loads)
        )

    def __str__(self) -> str:
        return self._name


# --- by name ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Links:
    """The numbers that a topology is made with.

    bandwidth, latency: of the links between devices, or between nodes of them. node_bandwidth,
    node_latency: inside a node. oversubscription: of the upper level of a fat tree, how many times
    more bandwidth its devices have than its links.
    """

    bandwidth: float = 50e9
    latency: float = 2e-6
    node_bandwidth: float = 400e9
    node_latency: float = 1e-6
    oversubscription: float = 1.0


def topology_named(text: str, devices: int, links: Links) -> Topology:
    """Return a topology of so many devices, as `_FORMS` lists them. Raises HloError."""
    name, _, argument = text.partition(":")
    m = re.fullmatch(r"torus([1-6])d", name)
    if m is not None and not argument:
        return Torus(_even_dims(devices, int(m[1])), links.bandwidth, links.latency)
    make = _TOPOLOGIES.get(name)
    if make is None:
        hint = did_you_mean(name, _TOPOLOGIES) or f"one of {_FORMS}"
        raise HloError.at("bad-value", f"topology: unknown topology {text}", None, hint)
    return make(argument, devices, links)


_FORMS = "ring, torus2d, torus3d, torus:16x16x16, switch, fat-tree:32, nodes:8"


def _even_dims(devices: int, rank: int) -> tuple[int, ...]:
    """Return the sizes of a torus, as equal as divisors allow, the largest first."""
    dims, left = [], devices
    for k in range(rank, 0, -1):
        # The smallest divisor that is no less than the root.
        root = round(left ** (1 / k))
        size = next(n for n in range(max(1, root), left + 1) if left % n == 0)
        dims.append(size)
        left //= size
    return tuple(sorted(dims, reverse=True))


def _ring(argument: str, devices: int, links: Links) -> Topology:
    _need_none(argument, "ring")
    return Torus((devices,), links.bandwidth, links.latency)


def _torus(argument: str, devices: int, links: Links) -> Topology:
    sizes = argument.split("x")
    if not all(s.isdecimal() and int(s) for s in sizes):
        raise HloError.at("bad-value", f"topology: torus:{argument} has no sizes such as 8x8")
    dims = [int(s) for s in sizes]
    if prod(dims) != devices:
        raise HloError.at(
            "bad-value", f"topology: torus:{argument} has {prod(dims)} devices, not {devices}"
        )
    return Torus(dims, links.bandwidth, links.latency)


def _switch(argument: str, devices: int, links: Links) -> Topology:
    _need_none(argument, "switch")
    return Tree(devices, [Level(1, 1, links.bandwidth, links.latency)],
                f"one switch, links {_speed(links)}")  # fmt: skip


def _fat_tree(argument: str, devices: int, links: Links) -> Topology:
    radix = _need_size(argument, "fat-tree")
    up = radix * links.bandwidth / links.oversubscription
    levels = [
        Level(1, 1, links.bandwidth, links.latency), Level(radix, radix, up, 2 * links.latency)
    ]  # fmt: skip
    more = f", {links.oversubscription:g}:1" if links.oversubscription != 1 else ""
    return Tree(devices, levels, f"fat tree{more} of {radix} each, links {_speed(links)}")


def _nodes(argument: str, devices: int, links: Links) -> Topology:
    size = _need_size(argument, "nodes")
    levels = [
        Level(1, 1, links.node_bandwidth, links.node_latency),
        Level(size, 1, links.bandwidth, links.latency),
    ]
    inside = (
        f"{quantity_text(links.node_bandwidth, 'B/s')} each way and "
        f"{quantity_text(links.node_latency, 's')} inside"
    )
    return Tree(devices, levels, f"nodes of {size}, {inside}, {_speed(links)} between")


def _speed(links: Links) -> str:
    latency = quantity_text(links.latency, "s")
    return f"{quantity_text(links.bandwidth, 'B/s')} each way, latency {latency}"


def _need_none(argument: str, name: str) -> None:
    if argument:
        raise HloError.at("bad-value", f"topology: {name} takes no sizes, not {argument}")


def _need_size(argument: str, name: str) -> int:
    if not argument.isdecimal() or not int(argument):
        raise HloError.at(
            "bad-value", f"topology: {name}:{argument} has no number of devices, as {name}:8 has"
        )
    return int(argument)


_TOPOLOGIES: Mapping[str, Callable[[str, int, Links], Topology]] = {
    "ring": _ring,
    "torus": _torus,
    "switch": _switch,
    "fat-tree": _fat_tree,
    "nodes": _nodes,
}
