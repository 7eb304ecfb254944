"""The second product: weights in registers as A, tiles of V as B."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.llvm import Builder, Val, float_const
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.attention.tiling import KEYS, Attention
from hlo.codegen.targets.gpu.kernels.matmul.fragment_products import add_products, joined
from hlo.codegen.targets.gpu.kernels.matmul.fragments import fragments_of
from hlo.codegen.targets.gpu.kernels.matmul.units import COLUMNS
from hlo.values.types import ElementType

_ZERO = float_const("float", 0.0)


class WeightedSums:
    """Adds up rows of a tile of V, each with its weight."""

    def __init__(self, block: Block, a: Attention, et: ElementType) -> None:
        """et: the type of weights."""
        self.b, self.a, self.unit = block.b, a, a.units[1]
        self.types = Types.of(et, self.unit.lhs)
        self.lane = block.index(block.lane())
        # Pairs of fragments are read one after the other: lanes have no room for all of them.
        self.pairs = [
            fragments_of(block, "b", self.unit, a.v, n * COLUMNS, 2)
            for n in range(0, a.fragments, 2)
        ]

    def add(self, base: str, weights: Sequence[Sequence[Val]], totals: list[Val]) -> None:
        """Add to sums, in place. base: the address of the tile. weights: of both rows of a lane,
        by the lane's keys."""
        steps = range(KEYS // self.unit.depth)
        x = [[self._weights(step, weights)] for step in steps]
        each = self.unit.sums
        if self.unit.size < 4:
            for n, pair in enumerate(self.pairs):
                found = totals[2 * n * each : 2 * (n + 1) * each]
                for step in steps:
                    add_products(self.b, self.unit, x[step], pair.read(base, step), found)
                totals[2 * n * each : 2 * (n + 1) * each] = found
            return
        # Those of small parts are needed in between only.
        for n in range(self.a.fragments):
            found = totals[n * each : (n + 1) * each]
            if self.unit.is_split:
                found += [_ZERO] * each
            for step in steps:
                add_products(self.b, self.unit, x[step], [self._values(base, step, n)], found)
            found = joined(self.b, found) if self.unit.is_split else found
            totals[n * each : (n + 1) * each] = found

    def _weights(self, step: int, weights: Sequence[Sequence[Val]]) -> list[Val]:
        """Return the registers of A: sums of one product are where `mma` reads those of the next.

        That is so for pairs of 16 bits. Of 32 bits a lane has neighbours where `mma` has elements
        four apart: rows of V are taken in the same order, see `_values`.
        """
        b, each = self.b, self.unit.depth // COLUMNS * 2
        first, second = (self._bits(row[step * each : (step + 1) * each]) for row in weights)
        if self.unit.size == 4:
            words = [first[0], second[0], first[1], second[1]]
        else:
            words = [_pair(b, row[at], row[at + 1]) for at in (0, 2) for row in (first, second)]
        return self.unit.typed(b, words)

    def _bits(self, weights: Sequence[Val]) -> list[Val]:
        b, et, found = self.b, self.unit.lhs, []
        for weight in weights:
            value = self.types.through(b, weight)
            assert isinstance(value, Val)
            found.append(scalar.to_bits(b, et, value))
        return found

    def _values(self, base: str, step: int, number: int) -> list[Val]:
        """Return the registers of a fragment of V."""
        b, layout = self.b, self.a.v
        free = b.add(b.udiv(self.lane, 4), number * COLUMNS)
        own = b.mul(b.urem(self.lane, 4), 2)
        words = []
        for n in (0, 1):
            at = layout.at(b, free, b.add(own, step * self.unit.depth + n))
            words.append(b.load(self.unit.register, b.element_address(base, "i8", at)))
        return self.unit.typed(b, words)


def _pair(b: Builder, low: Val, high: Val) -> Val:
    """Return two elements of 16 bits as a word."""
    word = b.binary("shl", b.cast("zext", high, "i32"), Val("i32", "16"))
    return b.binary("or", word, b.cast("zext", low, "i32"))
