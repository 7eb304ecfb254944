"""Random bits by integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import SliceDim
from hlo.ops.random.bits import (
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    PHILOX_WEYL,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    threefry_split,
)
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES, U32, U64, ArrayShape, TupleShape, array


@module_pass
def rng_bit_generator_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `rng-bit-generator` by the integer arithmetic of Philox 4x32-10 or ThreeFry 2x32.

    The bits and the next state stay the same.
    """
    rule = "rng_bit_generator_expander.expand"
    expand_instructions(module, rewrites, rule, ["rng-bit-generator"], _expanded)


def _expanded(inst: Instruction) -> Computation:
    d = _Bits(inst)
    threefry = inst.algorithm == "rng_three_fry"
    state, words = d.threefry() if threefry else d.philox()
    return d.done(d.relaid(d.tuple(state, d.typed(words)), inst.shape))


class _Bits(Draft):
    """Arithmetic on vectors of words of 32 bits; a word that is the same for all is a scalar."""

    def __init__(self, inst: Instruction) -> None:
        super().__init__(inst)
        assert isinstance(inst.shape, TupleShape)
        data = inst.shape.elements[1]
        assert isinstance(data, ArrayShape)
        self.dims, self.et = data.dims, data.element_type
        (self.state,) = self.parameters
        self.number = 0

    # --- pieces ---------------------------------------------------------------------------------

    def part(self, at: int) -> Instruction:
        """One of the words of 64 bits that are the state."""
        return self.reshape(self.op("slice", self.state, slice=(SliceDim(at, at + 1),)), ())

    def each(self, scalar: Instruction) -> Instruction:
        """A scalar for every counter."""
        return self.broadcast(scalar, array(scalar.array_shape.element_type, (self.number,)))

    def on(self, opcode: str, x: Instruction, value: int) -> Instruction:
        """Append an operation of words and a constant."""
        shape = x.array_shape
        return self.op(opcode, x, self.filled(shape.element_type, shape.dims, value))

    def halves(self, value: Instruction) -> tuple[Instruction, Instruction]:
        """The low and the high half of words of 64 bits."""
        return self.convert(value, U32), self.convert(
            self.on("shift-right-logical", value, 32), U32
        )

    def joined(self, low: Instruction, high: Instruction) -> Instruction:
        upper = self.on("shift-left", self.convert(high, U64), 32)
        return self.op("or", self.convert(low, U64), upper)

    def counters(self, start: Instruction) -> Instruction:
        positions = self.op("iota", shape=array(U64, (self.number,)), iota_dimension=0)
        return self.op("add", positions, self.each(start))

    def next_state(self, *words: Instruction) -> Instruction:
        return self.op("concatenate", *(self.reshape(w, (1,)) for w in words), dimensions=(0,))

    def rows(self, words: Sequence[Instruction]) -> Instruction:
        """The words of each counter, one after the other, as many as there are elements."""
        columns = [self.reshape(w, (self.number, 1)) for w in words]
        whole = self.op("concatenate", *columns, dimensions=(1,))
        flat = self.reshape(whole, (self.number * len(words),))
        return self.reshape(self.cut(flat, (math.prod(self.dims),)), self.dims)

    def cut(self, value: Instruction, dims: Sequence[int]) -> Instruction:
        """The first elements along each dimension."""
        if value.array_shape.dims == tuple(dims):
            return value
        return self.op("slice", value, slice=tuple(SliceDim(0, n) for n in dims))

    def typed(self, words: Instruction) -> Instruction:
        """The low bits of words as values of the type that is asked for."""
        words = self.convert(words, ELEMENT_TYPES[f"u{self.et.bits}"])
        if self.et.is_integer and not self.et.is_signed:
            return words
        return self.op("bitcast-convert", words, shape=array(self.et, self.dims))

    # --- generators -----------------------------------------------------------------------------

    def philox(self) -> tuple[Instruction, Instruction]:
        """Return the next state and words; a counter gives four words, or two of 64 bits."""
        wide = self.et.bits == 64
        key, low = self.part(0), self.part(1)
        has_high = self.state.array_shape.dims == (3,)
        high = self.part(2) if has_high else key
        self.number = -(-math.prod(self.dims) // (2 if wide else 4))
        counter = self.counters(low)
        wrapped = self.compare(counter, self.each(low), "LT")
        above = self.each(self.on("add", high, 1))
        carried = self.op("select", wrapped, above, self.each(high))
        words = self.philox_rounds([*self.halves(counter), *self.halves(carried)], key)
        if wide:
            words = [self.joined(*words[:2]), self.joined(*words[2:])]
        total = self.on("add", low, self.number)
        following = [key, total]
        if has_high:
            over = self.convert(self.compare(total, low, "LT"), U64)
            following.append(self.op("add", high, over))
        return self.next_state(*following), self.rows(words)

    def philox_rounds(self, words: list[Instruction], key: Instruction) -> list[Instruction]:
        keys = list(self.halves(key))
        for _ in range(PHILOX_ROUNDS):
            products = [
                self.halves(self.on("multiply", self.convert(words[n], U64), int(factor)))
                for n, factor in zip((0, 2), PHILOX_MULTIPLIERS, strict=True)
            ]
            (low0, high0), (low1, high1) = products
            xored = [
                self.op("xor", self.op("xor", high, word), self.each(k))
                for high, word, k in zip((high1, high0), (words[1], words[3]), keys, strict=True)
            ]
            words = [xored[0], low1, xored[1], low0]
            keys = [self.on("add", k, step) for k, step in zip(keys, PHILOX_WEYL, strict=True)]
        return words

    def threefry(self) -> tuple[Instruction, Instruction]:
        """Return the next state and words; a counter gives a word of 64 bits, or two of 32."""
        key, start = self.part(0), self.part(1)
        dims = self.dims or (1,)
        wide = self.et.bits == 64
        half, split = (dims, 0) if wide else threefry_split(dims)
        self.number = math.prod(half)
        pair = self.threefry_rounds(self.counters(start), key)
        following = self.next_state(key, self.on("add", start, self.number))
        if wide:
            return following, self.reshape(self.joined(*pair), self.dims)
        apart = (*half[: split + 1], 1, *half[split + 1 :])
        both = [self.reshape(w, apart) for w in pair]
        whole = self.op("concatenate", *both, dimensions=(split + 1,))
        sizes = [2 * n if at == split else n for at, n in enumerate(half)]
        return following, self.reshape(self.cut(self.reshape(whole, sizes), dims), self.dims)

    def threefry_rounds(
        self, counter: Instruction, key: Instruction
    ) -> tuple[Instruction, Instruction]:
        k0, k1 = self.halves(key)
        keys = (k0, k1, self.on("xor", self.op("xor", k0, k1), int(THREEFRY_PARITY)))
        x0, x1 = self.halves(counter)
        x0, x1 = (self.op("add", x, self.each(k)) for x, k in zip((x0, x1), keys, strict=False))
        for group in range(5):
            for rotation in THREEFRY_ROTATIONS[group % 2]:
                x0 = self.op("add", x0, x1)
                left = self.on("shift-left", x1, rotation)
                right = self.on("shift-right-logical", x1, 32 - rotation)
                x1 = self.op("xor", x0, self.op("or", left, right))
            x0 = self.op("add", x0, self.each(keys[(group + 1) % 3]))
            injected = self.on("add", keys[(group + 2) % 3], group + 1)
            x1 = self.op("add", x1, self.each(injected))
        return x0, x1
