"""Links of topologies, and collectives on them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from hlo.analysis.network.transfers import Transfer
from hlo.analysis.simulation.fabric import Fabric
from hlo.analysis.simulation.topology import Links, Topology, Torus, topology_named
from hlo.errors import HloError

LINKS = Links(bandwidth=1e9, latency=0.0, node_bandwidth=10e9, node_latency=0.0)


def seconds(topology: Topology, pairs: list[tuple[int, int]], size: float) -> float:
    return Fabric(topology).permute(pairs, size).seconds


def _routed(dims: tuple[int, ...], pairs: list[tuple[int, int]]) -> int:
    """Return the messages on the busiest link of a torus, by walking each of them hop by hop."""
    loads: dict[Any, int] = {}
    for source, target in pairs:
        at = list(np.unravel_index(source, dims))
        to = np.unravel_index(target, dims)
        for d, size in enumerate(dims):
            ahead = (to[d] - at[d]) % size
            is_back = ahead * 2 > size or (ahead * 2 == size and at[d] % 2)
            while at[d] != to[d]:
                after = (at[d] + (-1 if is_back else 1)) % size
                link = tuple(at[:d]), tuple(at[d + 1 :]), d, at[d], after
                loads[link] = loads.get(link, 0) + 1
                at[d] = after
    return max(loads.values(), default=0)


@pytest.mark.parametrize("dims", [(7,), (8,), (2,), (4, 6), (3, 5), (2, 3, 4), (1, 8)])
def test_the_busiest_link_of_a_torus(dims: tuple[int, ...]) -> None:
    random = np.random.default_rng(sum(dims))
    torus = Torus(dims, 1.0, 0.0)
    for _ in range(20):
        count = int(random.integers(1, 40))
        pairs = [tuple(map(int, p)) for p in random.integers(0, torus.devices, (count, 2))]
        assert seconds(torus, pairs, 1.0) == pytest.approx(_routed(dims, pairs))


def test_hops_add_up_on_a_torus() -> None:
    torus = Torus((4, 8), 1e9, 1.0)
    assert torus.latency(np.array([0, 0]), np.array([1, 2 * 8 + 4])) == 6


def test_nodes_share_no_links_inside() -> None:
    nodes = topology_named("nodes:4", 8, LINKS)
    assert seconds(nodes, [(0, 1), (1, 2)], 1e9) == pytest.approx(0.1)
    # Each device has a link of its own to the other nodes.
    assert seconds(nodes, [(0, 4), (1, 5), (2, 3)], 1e9) == pytest.approx(1.0)
    assert seconds(nodes, [(0, 4), (1, 4)], 1e9) == pytest.approx(2.0)


def test_a_thin_fat_tree_is_slow_across() -> None:
    links = Links(bandwidth=1e9, latency=0.0, oversubscription=4)
    tree = topology_named("fat-tree:4", 8, links)
    assert seconds(tree, [(n, (n + 1) % 4) for n in range(4)], 1e9) == pytest.approx(1.0)
    assert seconds(tree, [(n, n + 4) for n in range(4)], 1e9) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("topology", "opcode", "expected"),
    [
        # Half of it either way around the ring.
        ("ring", "all-gather", 7 / 8 / 2),
        ("ring", "all-reduce", 7 / 8),
        # Everybody to everybody: four links either way have n^2 / 8 messages of S / n.
        ("ring", "all-to-all", 1.0),
        ("switch", "all-reduce", 2 * 7 / 8),
        ("switch", "all-to-all", 7 / 8),
        # Inside nodes first, then a fourth of it between them.
        ("nodes:4", "reduce-scatter", 3 / 4 / 10 + 1 / 4 / 2),
        ("nodes:4", "all-reduce", 2 * (3 / 4 / 10 + 1 / 4 / 2)),
    ],
)
def test_a_gigabyte_among_eight(topology: str, opcode: str, expected: float) -> None:
    fabric = Fabric(topology_named(topology, 8, LINKS))
    found = fabric.collective(Transfer(opcode, 8, 10**9, 0), [range(8)])
    assert found.seconds == pytest.approx(expected, rel=0.13)
    assert found.seconds >= expected * 0.999


def test_a_square_torus_sends_along_both_dimensions_at_once() -> None:
    fabric = Fabric(topology_named("torus:4x4", 16, LINKS))
    found = fabric.collective(Transfer("all-gather", 16, 10**9, 0), [range(16)])
    # Four links each.
    assert found.seconds == pytest.approx(15 / 16 / 4)
    assert (found.algorithm, found.sent) == ("by dimension", pytest.approx(1e9 * 15 / 16))


def test_groups_that_share_links_wait_for_each_other() -> None:
    links = Links(bandwidth=1e9, latency=0.0, oversubscription=4)
    fabric = Fabric(topology_named("fat-tree:4", 8, links))
    pairs = [(n, n + 4) for n in range(4)]
    transfer = Transfer("all-reduce", 2, 10**9, 0)
    alone, together = (fabric.collective(transfer, pairs[:n]).seconds for n in (1, 4))
    assert (alone, together) == pytest.approx((1.0, 4.0))


def test_groups_of_different_sizes() -> None:
    fabric = Fabric(topology_named("switch", 6, LINKS))
    found = fabric.collective(Transfer("all-reduce", 4, 10**9, 0), [(0, 1), (2, 3, 4, 5)])
    assert found.seconds == pytest.approx(1.5)
    alone = fabric.collective(Transfer("all-reduce", 1, 10**9, 0), [(0,), (1,)])
    assert (alone.seconds, alone.algorithm) == (0.0, "none")


@pytest.mark.parametrize(
    ("name", "devices", "grid"),
    [
        ("torus2d", 64, (8, 8)), ("torus3d", 4096, (16, 16, 16)), ("torus2d", 12, (4, 3)),
        ("torus2d", 7, (7, 1)), ("torus3d", 24, (4, 3, 2)), ("ring", 5, (5,)),
        ("nodes:8", 32, (4, 8)), ("nodes:8", 12, (12,)), ("switch", 9, (9,)),
    ],
)  # fmt: skip
def test_grids(name: str, devices: int, grid: tuple[int, ...]) -> None:
    found = topology_named(name, devices, LINKS).grid
    assert np.prod(found) == devices
    assert sorted(found) == sorted(grid)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("star", "unknown topology star"), ("ring:4", "ring takes no sizes"),
        ("torus:4x", "has no sizes such as 8x8"), ("torus:0x8", "has no sizes"),
        ("torus:4x4", "has 16 devices, not 8"), ("nodes", "has no number of devices"),
        ("nodes:0", "has no number of devices"), ("torus9d", "unknown topology torus9d"),
    ],
)  # fmt: skip
def test_names_of_none(name: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        topology_named(name, 8, LINKS)


def test_every_order_of_members_of_a_box_is_found() -> None:
    torus = Torus((4, 4), 1e9, 0.0)
    rows = [[4 * r + c for r, c in product((0, 1), range(4))]]
    shuffled = [list(np.random.default_rng(0).permutation(rows[0]))]
    transfer = Transfer("all-reduce", 8, 10**9, 0)
    ways = [Fabric(torus).collective(transfer, groups).algorithm for groups in (rows, shuffled)]
    assert ways == ["by dimension"] * 2
