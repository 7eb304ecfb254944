"""The weights of the rows that a lane has, made in registers, a tile of keys after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.accesses import LoopDims
from hlo.analysis.fusion.chains import Chain
from hlo.analysis.fusion.weights import Weights
from hlo.codegen.kernels.reduce.combiner import Combiner
from hlo.codegen.llvm import TRUE, Builder, Index, Val, float_const, i64
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.block import Block
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ELEMENT_TYPES

_F32 = ELEMENT_TYPES["f32"]
_ZERO, _ONE = float_const("float", 0.0), float_const("float", 1.0)
_LEAST = float_const("float", -math.inf)
# Lanes side by side that share a row of a tile of `mma`.
_LANES = 4


@dataclass
class Running:
    """What is known of a row from the keys so far.

    maximum: the largest element; shift: what is subtracted from elements. sums: the lane's part of
    each sum. Of these there are as many as of what they stand for.
    """

    maximum: list[Val]
    shift: list[Val]
    sums: list[Val]

    @property
    def values(self) -> list[Val]:
        return [*self.maximum, *self.shift, *self.sums]


class WeightedRow:
    """One of the rows that a lane has elements of."""

    def __init__(
        self, k: Kernel, block: Block, chain: Chain, weights: Weights, number: Index
    ) -> None:
        """number: of the row in the space of rows."""
        self.k, self.b, self.block = k, k.b, block
        self.chain, self.weights = chain, weights
        rows = chain.rows
        sizes = [rows.space.dims[d] for d in rows.order[: rows.outer]]
        self.outer = split_index(k.b, number, sizes) if sizes else []
        self._skip_factors()

    # --- state ----------------------------------------------------------------------------------

    def start(self) -> Running:
        """Return what is known before the first key."""
        weights = self.weights
        if weights.maximum is None:
            return Running([], [], [_ZERO] * len(weights.sums))
        value = real(self.k.elements.at(weights.maximum.operands[1], ()))
        return Running([value], [_LEAST], [_ZERO] * len(weights.sums))

    def running(self, values: Sequence[Val]) -> Running:
        """Return a state by its values."""
        n = 0 if self.weights.maximum is None else 1
        return Running(list(values[:n]), list(values[n : 2 * n]), list(values[2 * n :]))

    # --- a tile of keys -------------------------------------------------------------------------

    def add(
        self, state: Running, keys: Sequence[Index], exist: Sequence[Val], scores: Sequence[Val]
    ) -> tuple[list[Val], Running, Val, Val]:
        """Return the weights of some keys, up to factors, and what is known of the row then.

        exist: whether there is each of the keys. The last two values say what becomes of earlier
        sums: what they are multiplied by, and whether they count at all.
        """
        b, weights = self.b, self.weights
        scale, counts = _ONE, TRUE
        maximum, shift = state.maximum, state.shift
        if weights.maximum is not None:
            (before,), (old,) = maximum, shift
            largest = self._largest(before, keys, exist, scores)
            self._keep(weights.maximum, largest)
            assert weights.shift is not None
            new = self._row_value(weights.shift)
            # Before there is a number nothing has been added up but NaN, or nothing.
            counts = b.fcmp("une", before, _LEAST)
            difference = b.binary("fsub", old, new)
            scale = real(scalar.arithmetic(b, "exponential", _F32, [difference]))
            maximum, shift = [largest], [new]
        found, parts = [], [list[Val]() for _ in weights.sums]
        for key, inside, score in zip(keys, exist, scores, strict=True):
            self._place_score(score)
            found.append(self._chosen(inside, self._operand(key), _ZERO))
            for part, inst in zip(parts, weights.sums, strict=True):
                element = self._reduced(inst, key)
                part.append(self._chosen(inside, element, _ZERO))
        sums = [
            b.binary("fadd", self.scaled(total, scale, counts), _sum(b, part), "contract")
            for total, part in zip(state.sums, parts, strict=True)
        ]
        return found, Running(maximum, shift, sums), scale, counts

    def scaled(self, total: Val, scale: Val, counts: Val) -> Val:
        """Return what becomes of an earlier sum."""
        if self.weights.maximum is None:
            return total
        product = self.b.binary("fmul", total, scale, "contract")
        return self.b.select(counts, product, _ZERO)

    def _largest(
        self, before: Val, keys: Sequence[Index], exist: Sequence[Val], scores: Sequence[Val]
    ) -> Val:
        """Return the largest element of the row so far, in all lanes that share it."""
        b, inst = self.b, self.weights.maximum
        assert inst is not None
        found = before
        for key, inside, score in zip(keys, exist, scores, strict=True):
            self._place_score(score)
            element = self._chosen(inside, self._reduced(inst, key), _LEAST)
            found = scalar.combine(b, "maximum", _F32, found, element)
        for distance in (1, 2):
            other = self.block.from_lane_xor(found, distance)
            found = scalar.combine(b, "maximum", _F32, found, other)
        return found

    # --- the end --------------------------------------------------------------------------------

    def finish(self, state: Running) -> None:
        """Set the values of reductions to those of the whole row."""
        if self.weights.maximum is not None:
            self._keep(self.weights.maximum, state.maximum[0])
        for inst, total in zip(self.weights.sums, state.sums, strict=True):
            for distance in (1, 2):
                other = self.block.from_lane_xor(total, distance)
                total = self.b.binary("fadd", total, other)
            self._keep(inst, total)

    def factors(self) -> list[tuple[str, Val]]:
        """Return what weighted sums are multiplied by, or divided, in order."""
        b = self.b
        if self.weights.maximum is None:
            return [
                ("fdiv" if f.is_divisor else "fmul", self._row_value(f.value))
                for f in reversed(self.weights.factors)
            ]
        # Divisors are 1 or more, and so have a reciprocal.
        product = _ONE
        for f in self.weights.factors:
            value = self._row_value(f.value)
            product = b.binary("fdiv" if f.is_divisor else "fmul", product, value)
        return [("fmul", product)] if self.weights.factors else []

    # --- elements -------------------------------------------------------------------------------

    def _keep(self, inst: Instruction, value: Val) -> None:
        """Set the value of a reduction."""
        combiner = Combiner.of(inst.to_apply)
        (found,) = combiner.result(self.b, [value], [inst.array_shape.element_type])
        self.k.elements.kept[inst] = lambda _: found

    def _place_score(self, score: Val) -> None:
        """Set the element of the first product that what is computed next depends on."""
        (first,) = self.chain.first
        self.k.elements.kept[first] = lambda _: score

    def _skip_factors(self) -> None:
        """Have weights computed without their factors."""
        elements = self.k.elements
        for f in self.weights.factors:
            rest = f.rest
            elements.kept[f.inst] = lambda at, rest=rest: elements.at(rest, at)  # type: ignore[misc]

    def _operand(self, key: Index) -> Val:
        operand = self.chain.operand
        at = self._indices(operand, tuple(self.chain.rows.order), key)
        return real(self.k.elements.at(operand, at))

    def _reduced(self, inst: Instruction, key: Index) -> Val:
        """Return an element that is reduced."""
        source = inst.operands[0]
        along = tuple(loop_order(source.array_shape))
        return real(self.k.elements.at(source, self._indices(source, along, key)))

    def _row_value(self, inst: Instruction) -> Val:
        """Return a value that all elements of the row have."""
        if not inst.array_shape.dims:
            return real(self.k.elements.at(inst, ()))
        (loop_dims,) = self.chain.rows.uses[inst]
        return real(self.k.elements.at(inst, self._indices(inst, loop_dims, 0)))

    def _indices(self, inst: Instruction, loop_dims: LoopDims, key: Index) -> tuple[Index, ...]:
        """Return the indices of the row's element for a key. loop_dims: as of `Rows.uses`."""
        rows = self.chain.rows
        along = split_index(self.b, key, [rows.space.dims[d] for d in rows.order[rows.outer :]])
        at: list[Index] = [0] * inst.array_shape.rank
        for d, i in zip(loop_dims, [*self.outer, *along], strict=True):
            if d is not None:
                at[d] = i
        return tuple(at)

    def _chosen(self, inside: Val, value: Val, other: Val) -> Val:
        return value if inside == TRUE else self.b.select(inside, value, other)


def keys_of_lane(
    block: Block, first: Index, length: int, tile: int
) -> tuple[list[Index], list[Val]]:
    """Return the keys of a tile that a lane has weights of, and whether there are such.

    first: of the tile. Each lane has two that follow each other, of every eight.
    """
    b = block.b
    own = b.mul(b.urem(block.index(block.lane()), _LANES), 2)
    places = [8 * n + i for n in range(tile // 8) for i in (0, 1)]
    start = b.add(first, own)
    keys: list[Index] = [b.add(start, place) for place in places]
    if length % tile == 0:
        return keys, [TRUE] * len(keys)
    left = b.cast("trunc", i64(b.sub(length, start)), "i32")
    exist = [b.icmp("sgt", left, place) for place in places]
    return [b.minimum(key, length - 1) for key in keys], exist


def real(value: Value) -> Val:
    """Return a value that is no complex number."""
    assert isinstance(value, Val)
    return value


def _sum(b: Builder, values: Sequence[Val]) -> Val:
    """Return the sum of values, taken in pairs."""
    rest = list(values)
    while len(rest) > 1:
        rest = [b.binary("fadd", x, y) for x, y in zip(rest[::2], rest[1::2], strict=False)] + rest[
            len(rest) // 2 * 2 :
        ]
    return rest[0]
