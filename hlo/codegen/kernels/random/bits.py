"""Random bits: ThreeFry 2x32 and Philox 4x32-10 (see `hlo.ops.random.bits`).

Each counter yields two or four words. A kernel computes and stores all of them at once, so that no
round is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.codegen.llvm import Builder, Index, Val, int_const
from hlo.codegen.loops.kernel import Kernel, kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent
from hlo.ops.random.bits import (
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    PHILOX_WEYL,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    threefry_split,
)
from hlo.values.types import ArrayShape, ElementType, TupleShape

# Approximate number of operations for the words of one counter.
_ROUNDS_COST = 12.0


@kernel("rng-bit-generator")
def rng_bit_generator(k: Kernel) -> Extent:
    """Write the next state and the words of every counter."""
    algorithm = k.inst.algorithm
    return _threefry(k) if algorithm == "rng_three_fry" else _philox(k)


def _data(k: Kernel) -> ArrayShape:
    assert isinstance(k.inst.shape, TupleShape)
    data = k.inst.shape.elements[1]
    assert isinstance(data, ArrayShape)
    return data


def _state(k: Kernel) -> list[Val]:
    """Load the elements of the state."""
    (operand,) = k.inst.operands
    found = [k.elements.at(operand, (n,)) for n in range(operand.array_shape.dims[0])]
    assert all(isinstance(x, Val) for x in found)
    return found  # type: ignore[return-value]


def _store_state(k: Kernel, values: Sequence[Val], is_first: Val) -> None:
    """Write the next state, once."""
    with k.b.when(is_first):
        for n, value in enumerate(values):
            k.store(value, (n,), 0)


def _halves(b: Builder, x: Val) -> tuple[Val, Val]:
    """Return the low and the high half of an i64."""
    high = b.binary("lshr", x, 32)
    return b.cast("trunc", x, "i32"), b.cast("trunc", high, "i32")


def _joined(b: Builder, low: Val, high: Val) -> Val:
    low, high = (b.cast("zext", x, "i64") for x in (low, high))
    high = b.binary("shl", high, 32)
    return b.binary("or", low, high)


def _two(b: Builder, opcode: str, x: Val, y: Val) -> Val:
    return b.binary(opcode, x, y)


def _put(k: Kernel, word: Val, indices: Sequence[Index]) -> None:
    """Store the low bits of a word as an element."""
    et = _data(k).element_type
    narrow = word
    if int(word.type[1:]) > et.bits:
        narrow = k.b.cast("trunc", word, f"i{et.bits}")
    k.store(_from_bits(k.b, et, narrow), tuple(indices), 1)


def _from_bits(b: Builder, et: ElementType, raw: Val) -> Val:
    """Return the value of a type that has these bits."""
    if et.is_integer:
        return raw
    mem = scalar.memory_type(et)
    if et.bits >= 32:
        return b.cast("bitcast", raw, mem)
    return scalar.from_memory(b, et, raw if raw.type == mem else b.cast("zext", raw, mem))


def _advanced(b: Builder, counter: Val, at: Index) -> Val:
    return b.binary("add", counter, at)


# --- ThreeFry -----------------------------------------------------------------------------------


def _threefry_words(b: Builder, key: Val, counter: Val) -> tuple[Val, Val]:
    k0, k1 = _halves(b, key)
    mixed = _two(b, "xor", _two(b, "xor", k0, k1), int_const(32, int(THREEFRY_PARITY)))
    keys = (k0, k1, mixed)
    x0, x1 = _halves(b, counter)
    x0, x1 = _two(b, "add", x0, keys[0]), _two(b, "add", x1, keys[1])
    for group in range(5):
        for rotation in THREEFRY_ROTATIONS[group % 2]:
            x0 = _two(b, "add", x0, x1)
            turned = b.intrinsic("fshl", "i32", [x1, x1, int_const(32, rotation)])
            x1 = _two(b, "xor", x0, turned)
        x0 = _two(b, "add", x0, keys[(group + 1) % 3])
        x1 = _two(b, "add", x1, keys[(group + 2) % 3])
        x1 = _two(b, "add", x1, int_const(32, group + 1))
    return x0, x1


class ThreeFry:
    """Emission of one kernel: two words a counter.

    half: the dimensions along which counters are numbered, in row-major order.
    """

    def __init__(self, k: Kernel) -> None:
        self._k, self._data = k, _data(k)
        dims = self._data.dims
        self._is_wide = self._data.element_type.bits == 64
        # A scalar uses the first word of its own counter.
        known = dims if dims or self._is_wide else (1,)
        self.half, self._split = threefry_split(known) if not self._is_wide else (known, 0)
        self.counters = math.prod(self.half)
        self._key, self._counter = _state(k)

    def store_state(self, is_first: Val) -> None:
        """Write the next state where a condition holds."""
        after = _advanced(self._k.b, self._counter, self.counters)
        _store_state(self._k, [self._key, after], is_first)

    def store(self, at: Sequence[Index], place: Index) -> None:
        """Write the words of a counter, by its indices and its number."""
        k, data = self._k, self._data
        words = _threefry_words(k.b, self._key, _advanced(k.b, self._counter, place))
        if self._is_wide:
            _put(k, _joined(k.b, *words), at if data.dims else ())
        elif not data.dims:
            _put(k, words[0], ())
        else:
            _put_pair(k, words, at, self._split, data.dims[self._split])


def _threefry(k: Kernel) -> Extent:
    b, g = k.b, ThreeFry(k)
    g.store_state(b.compare("eq", k.begin, 0))
    if not g.counters:
        return Extent(1)
    half = g.half
    inner = half[-1] if half else 1
    with b.loop(k.begin, k.end) as row, b.loop(0, inner) as column:
        at = [*split_index(b, row, half[:-1]), column] if len(half) > 1 else [column]
        g.store(at, b.add(b.mul(row, inner), column))
    return Extent(g.counters // inner, inner * _ROUNDS_COST)


def _put_pair(
    k: Kernel, words: tuple[Val, Val], at: Sequence[Index], split: int, size: int
) -> None:
    """Store two words that are adjacent along a dimension; the second may be out of bounds."""
    b = k.b
    first = b.mul(at[split], 2)
    places = [[i if d != split else b.add(first, n) for d, i in enumerate(at)] for n in range(2)]
    _put(k, words[0], places[0])
    if size % 2 == 0:
        _put(k, words[1], places[1])
        return
    with b.when(b.compare("slt", places[1][split], size)):
        _put(k, words[1], places[1])


# --- Philox -------------------------------------------------------------------------------------


def _philox_words(b: Builder, key: Val, counter: Sequence[Val]) -> list[Val]:
    words = [*_halves(b, counter[0]), *_halves(b, counter[1])]
    keys = list(_halves(b, key))
    for _ in range(PHILOX_ROUNDS):
        parts = []
        for word, multiplier in zip((words[0], words[2]), PHILOX_MULTIPLIERS, strict=True):
            wide = b.cast("zext", word, "i64")
            parts.append(_halves(b, b.binary("mul", wide, int(multiplier))))
        (low0, high0), (low1, high1) = parts
        words = [
            _two(b, "xor", _two(b, "xor", high1, words[1]), keys[0]), low1,
            _two(b, "xor", _two(b, "xor", high0, words[3]), keys[1]), low0,
        ]  # fmt: skip
        keys = [_two(b, "add", x, int_const(32, w)) for x, w in zip(keys, PHILOX_WEYL, strict=True)]
    return words


class Philox:
    """Emission of one kernel: four words a counter, or two wide ones.

    each: how many elements a counter has; those of the last one may be fewer, `rest`, behind
    `whole` complete ones.
    """

    def __init__(self, k: Kernel) -> None:
        self._k, self._data = k, _data(k)
        self._is_wide = self._data.element_type.bits == 64
        total, self.each = self._data.num_elements, 2 if self._is_wide else 4
        self.counters = -(-total // self.each)
        self.whole, self.rest = divmod(total, self.each)
        self._key, self._low, *more = _state(k)
        self._high = more[0] if more else self._key
        self._keeps_high = bool(more)

    def _carried(self, counter: Val) -> Val:
        over = self._k.b.icmp("ult", counter, self._low)
        return _two(self._k.b, "add", self._high, self._k.b.cast("zext", over, "i64"))

    def store_state(self, is_first: Val) -> None:
        """Write the next state where a condition holds."""
        after = _advanced(self._k.b, self._low, self.counters)
        values = [self._key, after]
        _store_state(
            self._k, [*values, self._carried(after)] if self._keeps_high else values, is_first
        )

    def store(self, at: Index, count: int) -> None:
        """Write the first words of a counter, by its number."""
        k, b = self._k, self._k.b
        counter = _advanced(b, self._low, at)
        words = _philox_words(b, self._key, (counter, self._carried(counter)))
        if self._is_wide:
            words = [_joined(b, *words[:2]), _joined(b, *words[2:])]
        first, dims = b.mul(at, self.each), self._data.dims
        for n, word in enumerate(words[:count]):
            place = b.add(first, n)
            _put(k, word, split_index(b, place, dims) if dims else ())


def _philox(k: Kernel) -> Extent:
    b, g = k.b, Philox(k)
    g.store_state(b.compare("eq", k.begin, 0))
    with b.loop(k.begin, b.minimum(k.end, g.whole)) as at:
        g.store(at, g.each)
    if g.rest:
        with b.when(b.compare("eq", k.end, g.counters)):
            g.store(g.whole, g.rest)
    return Extent(max(g.counters, 1), g.each * _ROUNDS_COST)
