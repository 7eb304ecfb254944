"""The rows (1-d slices) of an array along the sorted dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Index
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import split_index
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape


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

    def start(self, b: Builder, number: Index) -> list[Index]:
        """Return the indices of a slice in the other dimensions."""
        if not self.others:
            return []
        return split_index(b, number, [self.shape.dims[d] for d in self.others])

    def at(self, start: Sequence[Index], position: Index) -> Indices:
        """Return the indices of a position in a slice."""
        found = dict(zip(self.others, start, strict=True)) | {self.dim: position}
        return tuple(found.get(d, 0) for d in range(self.shape.rank))
