"""Steps from one distribution of an array to another one, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from hlo.spmd.mesh import Axes


class Kind(Enum):
    """What a step does. The values are the opcodes of those that are collectives."""

    CUT = "slice"  # each device keeps its part of dimensions that it has more of
    GATHER = "all-gather"
    EXCHANGE = "all-to-all"  # axes of one dimension become the minor ones of another
    PERMUTE = "collective-permute"  # the same number of shards, along other axes
    REDUCE = "all-reduce"
    SCATTER = "reduce-scatter"
    SPREAD = "spread"  # shards among zeros: partial results of more of a dimension
    MASK = "mask"  # partial results: all on the first device along axes, zeros on the others
    REPAD = "repad"  # shards of another size, along the same axes


class State(NamedTuple):
    """A distribution on the way.

    Attributes:
        dims: the axes of each dimension, major to minor.
        sizes: of a shard; shards of a dimension without axes have no padding.
        partial: axes along which there are partial results, ascending.
    """

    dims: tuple[Axes, ...]
    sizes: tuple[int, ...]
    partial: Axes = ()

    @property
    def elements(self) -> int:
        """Number of elements of a shard."""
        return math.prod(self.sizes)

    def changed(self, dim: int, axes: Axes, size: int, partial: Axes | None = None) -> State:
        """Return the state with other axes and another size of one dimension."""
        return State(
            (*self.dims[:dim], axes, *self.dims[dim + 1 :]),
            (*self.sizes[:dim], size, *self.sizes[dim + 1 :]),
            self.partial if partial is None else partial,
        )


class Move(NamedTuple):
    """Axes that leave a dimension or enter one; -1 where it is none."""

    source: int
    axes: Axes
    target: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step from one distribution to the next one.

    Attributes:
        moves: what changes; of a collective-permute, nothing but the two states.
    """

    kind: Kind
    before: State
    after: State
    moves: tuple[Move, ...] = ()
