"""Algorithms of collectives, as rounds in which each member of a group sends to another one.

Ring and recursive algorithms as Thakur, Rabenseifner and Gropp describe them ("Optimization of
Collective Communication Operations in MPICH", 2005), and Bruck's for groups of any size. All reach
the least bytes possible for all-gather, reduce-scatter and all-reduce, (n - 1)/n of the array and
twice that; they differ in the number of rounds, and in how far they send.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.analysis.network.transfers import PERMUTE


@dataclass(frozen=True)
class Phase:
    """Rounds in which member i of a group of n sends to members (i + distance) mod n.

    rounds: how many messages a member sends one after the other. distances: to whom; negative ones
    are to members before it. bytes: what a member sends to each distance in all rounds together.
    """

    rounds: int
    distances: Sequence[int]
    bytes: float

    @property
    def sent(self) -> float:
        """The bytes that a member sends."""
        return self.bytes * len(self.distances)


@dataclass(frozen=True)
class Algorithm:
    """A way to do a collective: phases one after the other."""

    name: str
    phases: tuple[Phase, ...]

    @property
    def sent(self) -> float:
        """The bytes that the busiest member sends."""
        return sum(p.sent for p in self.phases)

    @property
    def rounds(self) -> int:
        return sum(p.rounds for p in self.phases)


def algorithms_for(opcode: str, members: int, size: float) -> list[Algorithm]:
    """Return the algorithms of a collective in a group, one at least.

    opcode: of a synchronous collective. size: its bytes as in `Transfer`. A group of one sends
    nothing.
    """
    if members <= 1:
        return [Algorithm("none", ())]
    make = _ALGORITHMS.get(opcode)
    assert make is not None, f"no algorithm for {opcode}"
    return make(members, size)


def _ring(n: int, size: float) -> Phase:
    """Each block goes once around, all but the last step."""
    return Phase(n - 1, (1,), size * (n - 1) / n)


def _two_rings(n: int, size: float) -> Phase:
    """Half of each block goes around either way."""
    return Phase(n - 1, (1, -1), size * (n - 1) / n / 2)


def _doubling(n: int, size: float) -> tuple[Phase, ...]:
    """Bruck's algorithm: members that have some blocks get as many more from a member that far."""
    phases, have = [], 1
    while have < n:
        blocks = min(have, n - have)
        phases.append(Phase(1, (have,), size * blocks / n))
        have += blocks
    return tuple(phases)


def _halving(n: int, size: float) -> tuple[Phase, ...]:
    """The same backwards, which reduces."""
    return tuple(Phase(p.rounds, [-d for d in p.distances], p.bytes)
                 for p in reversed(_doubling(n, size)))  # fmt: skip


def _all_gather(n: int, size: float) -> list[Algorithm]:
    found = [Algorithm("ring", (_ring(n, size),)), Algorithm("doubling", _doubling(n, size))]
    return [*found, Algorithm("two-way ring", (_two_rings(n, size),))] if n > 2 else found


def _reduce_scatter(n: int, size: float) -> list[Algorithm]:
    found = [Algorithm("ring", (_ring(n, size),)), Algorithm("halving", _halving(n, size))]
    return [*found, Algorithm("two-way ring", (_two_rings(n, size),))] if n > 2 else found


def _all_reduce(n: int, size: float) -> list[Algorithm]:
    """A reduce-scatter, then an all-gather."""
    names = ("ring", "halving-doubling", "two-way ring")
    pairs = zip(names, _reduce_scatter(n, size), _all_gather(n, size), strict=False)
    return [Algorithm(name, a.phases + b.phases) for name, a, b in pairs]


def _all_to_all(n: int, size: float) -> list[Algorithm]:
    found = [Algorithm("pairwise", (Phase(n - 1, range(1, n), size / n),))]
    phases, bit = [], 1
    while bit < n:
        # The blocks whose distance has this bit go that far.
        blocks = sum(1 for d in range(1, n) if d & bit) if n < _COUNTED else n // 2
        phases.append(Phase(1, (bit,), size * blocks / n))
        bit *= 2
    return [*found, Algorithm("Bruck", tuple(phases))] if n > 2 else found


# Bits are counted one by one up to here; half of all numbers have each, but for the last few.
_COUNTED = 1 << 12


def _rounds_of_tree(n: int, size: float) -> tuple[Phase, ...]:
    """A binomial tree: whoever has it sends to one who has not."""
    return tuple(Phase(1, (1 << k,), size) for k in range((n - 1).bit_length()))


def _broadcast(n: int, size: float) -> list[Algorithm]:
    scatter = tuple(Phase(1, (p.distances[0],), p.bytes) for p in reversed(_doubling(n, size)))
    return [
        Algorithm("tree", _rounds_of_tree(n, size)),
        Algorithm("scatter and ring", (*scatter, _ring(n, size))),
    ]


def _reduce(n: int, size: float) -> list[Algorithm]:
    return [
        Algorithm("tree", _rounds_of_tree(n, size)),
        Algorithm("halving and gather", (*_halving(n, size), *_doubling(n, size))),
    ]


_ALGORITHMS: dict[str, Callable[[int, float], list[Algorithm]]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
    "ragged-all-to-all": lambda n, size: _all_to_all(n, size)[:1],
    "collective-broadcast": _broadcast,
    "collective-reduce": _reduce,
    PERMUTE: lambda n, size: [Algorithm("direct", (Phase(1, (1,), size),))],
}
