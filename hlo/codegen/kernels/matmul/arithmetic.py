"""The arithmetic of sums of products, on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.scalar import operations as scalar
from hlo.llvm import as_vector
from hlo.values.types import ElementType


@dataclass(frozen=True)
class Arithmetic:
    """What products are added up in.

    total: the element type of accumulators.
    """

    total: ElementType

    @property
    def name(self) -> str:
        return self.total.name

    @property
    def type(self) -> str:
        """The LLVM type of accumulators."""
        return scalar.memory_type(self.total)

    @property
    def bytes(self) -> int:
        """Bytes of an accumulator."""
        return max(8, self.total.bits) // 8

    def add(self, b: Builder, x: Val, y: Val) -> Val:
        """Return x + y; "any" for truth values."""
        if self.total.is_pred:
            return b.binary("or", x, y)
        return self._operation(b, "add", x, y)

    def multiply_add(self, b: Builder, x: Val, y: Val, total: Val) -> Val:
        """Return x * y + total, on vectors."""
        if self.total.is_pred:
            return self.add(b, total, b.binary("and", x, y))
        return self.add(b, total, self._operation(b, "mul", x, y))

    def _operation(self, b: Builder, name: str, x: Val, y: Val) -> Val:
        if self.total.is_float:
            return b.binary(f"f{name}", x, y, "contract")
        return b.binary(name, x, y)

    def add_lanes(self, b: Builder, vectors: Sequence[Val], lanes: int) -> list[Val]:
        """Return the sums of each vector's lanes, in order, as few vectors.

        Two vectors become one that has the sums of their halves; every lane is added up by the same
        tree.
        """
        parts, width = list(vectors), lanes
        while width > 1:
            half = width // 2
            size = as_vector(parts[0].type).lanes
            low = [i + k for i in range(0, size, width) for k in range(half)]
            # The last vector is its own second half.
            pairs = [(parts[0], parts[0])]
            if len(parts) > 1:
                pairs = list(zip(parts[::2], parts[1::2], strict=True))
                low += [i + size for i in low]
            high = [i + half for i in low]
            parts = [
                self.add(b, *(b.shuffle_vector(x, y, mask) for mask in (low, high)))
                for x, y in pairs
            ]
            width = half
        return parts
