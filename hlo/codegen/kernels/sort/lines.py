"""The rows (1-d slices) of an array along the sorted dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Index
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import split_index
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Rows sorted by one thread in sequence share memory; so many such groups at most.
_GROUPS = 64


@dataclass(frozen=True)
class Lines:
    """All 1-d slices of a shape along one dimension, numbered in memory order."""

    shape: ArrayShape
    dim: int

    @property
    def others(self) -> list[int]:
        return [d for d in loop_order(self.shape) if d != self.dim]

    @property
    def length(self) -> int:
        return self.shape.dims[self.dim]

    @property
    def count(self) -> int:
        return math.prod(self.shape.dims[d] for d in self.others)

    @property
    def groups(self) -> int:
        """How many groups of rows there are, each of which one thread computes in sequence."""
        return min(self.count, _GROUPS)

    @property
    def each(self) -> int:
        """How many rows a group has; the last ones may have fewer."""
        return -(-self.count // self.groups)

    def of_group(self, b: Builder, group: Index) -> AbstractContextManager[str]:
        """Return a loop over the rows of a group."""
        first = b.mul(group, self.each)
        return b.loop(first, b.minimum(b.add(first, self.each), self.count))

    def start(self, b: Builder, number: Index) -> list[Index]:
        """Return the indices of a slice in the other dimensions."""
        if not self.others:
            return []
        return split_index(b, number, [self.shape.dims[d] for d in self.others])

    def at(self, start: Sequence[Index], position: Index) -> Indices:
        """Return the indices of a position in a slice."""
        found = dict(zip(self.others, start, strict=True)) | {self.dim: position}
        return tuple(found.get(d, 0) for d in range(self.shape.rank))
