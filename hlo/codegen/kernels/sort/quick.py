"""Quicksort of integers with vectors, for keys that are all there is to sort.

The elements of a vector that are below the pivot move to its lower lanes in one permutation, by a
table; the vector is then stored at both ends of what is left of the target, as what is wrong of
either is overwritten. Short segments are sorted by a network in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hlo.codegen.kernels.variables import Variable, as_index, chosen
from hlo.codegen.llvm import FALSE, TRUE, Builder, Index, ModuleBuilder, Val, i64, int_const, ptr
from hlo.codegen.loops.vectors import define, lanes_below, vector_constant
from hlo.codegen.targets.base import Target
from hlo.llvm import Select, overload, vector_type

# What memory of keys has room for beyond the last one, in keys: vectors are read whole.
SLACK = 64
_VECTOR_BITS = 256
# Vectors of a segment that is sorted in registers.
_VECTORS = 8
# Segments that wait for their turn: the smaller one of two is sorted first.
_STACK = 64
# A part of a segment that is smaller than this share of it shows that the pivot was bad.
_BAD_SHARE = 8


def has_quicksort(target: Target) -> bool:
    """Return whether vectors of a target can be permuted across all lanes."""
    return "avx2" in getattr(target, "features", ())


def lanes_of(key_bits: int) -> int:
    return _VECTOR_BITS // key_bits


def permutations(key_bits: int) -> np.ndarray:
    """Return the table: for each set of lanes, the 32-bit lanes of a vector with that set first."""
    lanes, width = lanes_of(key_bits), key_bits // 32
    sets = np.arange(1 << lanes)[:, None] >> np.arange(lanes) & 1
    order = np.argsort(1 - sets, axis=1, kind="stable")
    parts = order[:, :, None] * width + np.arange(width)
    return parts.reshape(1 << lanes, 8).astype(np.uint8)


def _comparators(n: int) -> Iterator[tuple[int, int]]:
    """Yield the comparators of Batcher's odd-even merge sort for a power of two."""
    p = 1
    while p < n:
        k = p
        while k:
            for first in range(k % p, n - k, 2 * k):
                for i in range(first, min(first + k, n - k)):
                    if i // (2 * p) == (i + k) // (2 * p):
                        yield i, i + k
            k //= 2
        p *= 2


def quicksort(module: ModuleBuilder, key_bits: int) -> str:
    """Return the function (keys, others, n, table) that sorts n signed keys in place.

    table: `permutations`. others: memory for as many. Both have room for `SLACK` more, which nobody
    else uses meanwhile.
    """
    t = f"i{key_bits}"
    return define(
        module, f"hlo.quicksort.{t}",
        "ptr noalias %keys, ptr noalias %others, i64 %n, ptr readonly %table",
        lambda b: _Quicksort(b, key_bits).write(),
    )  # fmt: skip


@dataclass
class _Segment:
    """Keys that are together: their position, count, buffer (0 is `keys`), and whether the pivot
    that made it was bad."""

    at: Index
    count: Index
    side: Index
    is_bad: Index


class _Quicksort:
    """Emission of the function."""

    def __init__(self, b: Builder, key_bits: int) -> None:
        self.b, self.bits, self.t = b, key_bits, f"i{key_bits}"
        self.lanes = lanes_of(key_bits)
        self.vector = vector_type(self.lanes, self.t)
        self.bytes = key_bits // 8
        self.short_count = _VECTORS * self.lanes
        self.stack = b.alloca("i64", 4 * _STACK, align=64).name

    def address(self, base: str, at: Index) -> str:
        return self.b.element_address(base, self.t, at)

    def key(self, base: str, at: Index) -> Val:
        return self.b.load(self.t, self.address(base, at))

    def write(self) -> None:
        b = self.b
        self.depth = Variable(b, 0)
        self.push(_Segment(0, "%n", 0, 0))
        with b.repeat(lambda: b.compare("sgt", self.depth.get(), 0)):
            segment = self.pop()
            is_first = b.compare("eq", segment.side, 0)
            keys, others = Val("ptr", "%keys"), Val("ptr", "%others")
            here = self.address(b.select(is_first, keys, others).name, segment.at)
            there = self.address(b.select(is_first, others, keys).name, segment.at)
            final = self.address("%keys", segment.at)

            is_short = b.compare("sle", segment.count, self.short_count)
            with b.when(is_short):
                self.short(here, final, segment.count)
            with b.when(b.binary("xor", is_short, TRUE)):
                self.divide(here, there, segment)

    # --- segments that wait ---------------------------------------------------------------------

    def push(self, segment: _Segment) -> None:
        b = self.b
        depth = self.depth.get()
        words = (segment.at, segment.count, segment.side, segment.is_bad)
        for n, word in enumerate(words):
            b.store(i64(word), b.element_address(self.stack, "i64", b.add(b.mul(depth, 4), n)))
        self.depth.set(b.add(depth, 1))

    def pop(self) -> _Segment:
        b = self.b
        depth = b.sub(self.depth.get(), 1)
        self.depth.set(depth)
        words = (
            b.load("i64", b.element_address(self.stack, "i64", b.add(b.mul(depth, 4), n))).name
            for n in range(4)
        )
        return _Segment(*words)

    # --- long segments --------------------------------------------------------------------------

    def divide(self, here: str, there: str, segment: _Segment) -> None:
        """Divide a segment by a pivot; where all keys are equal it is done."""
        b, n = self.b, segment.count
        pivot = b.alloca(self.t).name
        goes_on = Variable(b, 1)

        def middle() -> list[Val]:
            """Halve the range of keys: this ends, however they are distributed."""
            least, most = self.extremes(here, n)
            with b.when(b.icmp("eq", least, most)):
                goes_on.set(0)
                with b.when(b.compare("ne", segment.side, 0)):
                    b.module.declare(
                        "llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1 immarg"]
                    )
                    size = i64(b.mul(n, self.bytes))
                    args = [ptr(there, self.bytes), ptr(here, self.bytes), size, FALSE]
                    b.call_void("llvm.memcpy.p0.p0.i64", args)
            half = b.binary("lshr", b.binary("sub", most, least), 1)
            b.store(b.binary("add", b.binary("add", least, half), 1), pivot)
            return []

        def median() -> list[Val]:
            b.store(self.median(here, n), pivot)
            return []

        b.choose(b.compare("ne", segment.is_bad, 0), middle, median)
        with b.when(b.compare("ne", goes_on.get(), 0)):
            low = self.partition(here, there, n, b.load(self.t, pivot))
            high = b.sub(n, low)
            side = b.sub(1, segment.side)
            is_less = b.compare("slt", low, high)
            least = chosen(b, is_less, low, high)
            bad = b.cast("zext", b.compare("slt", b.mul(least, _BAD_SHARE), n), "i64").name
            after = b.add(segment.at, low)
            # The smaller one is on top.
            self.push(_Segment(
                chosen(b, is_less, after, segment.at), chosen(b, is_less, high, low), side, bad
            ))  # fmt: skip
            self.push(_Segment(chosen(b, is_less, segment.at, after), least, side, bad))
            b.poll(n)

    def extremes(self, here: str, n: Index) -> tuple[Val, Val]:
        """Return the least and the largest of keys that fill at least one vector."""
        b, w = self.b, self.lanes
        first = b.load(self.vector, here, self.bytes)
        with b.carrying(0, n, [first, first], w, plain=True) as turn:
            # The last vector ends where the keys end.
            at = b.minimum(turn.index, b.sub(n, w))
            keys = b.load(self.vector, self.address(here, at), self.bytes)
            turn.values = [
                b.intrinsic(name, self.vector, [found, keys])
                for name, found in zip(("smin", "smax"), turn.values, strict=True)
            ]
        ends = []
        for name, found in zip(("smin", "smax"), turn.values, strict=True):
            function = f"llvm.vector.reduce.{name}.{overload(self.vector)}"
            b.module.declare(function, self.t, [self.vector])
            ends.append(b.call(function, [found], self.t))
        return ends[0], ends[1]

    def median(self, here: str, n: Index) -> Val:
        """Return the median of the medians of three times three keys."""
        b = self.b
        step = b.udiv(n, 9)

        def of_three(x: Val, y: Val, z: Val) -> Val:
            least, most = (b.intrinsic(name, self.t, [x, y]) for name in ("smin", "smax"))
            return b.intrinsic("smax", self.t, [least, b.intrinsic("smin", self.t, [most, z])])

        keys = [self.key(here, b.add(b.mul(step, k), b.udiv(step, 2))) for k in range(9)]
        return of_three(*(of_three(*keys[k::3]) for k in range(3)))

    def partition(self, here: str, there: str, n: Index, pivot: Val) -> Index:
        """Copy keys below the pivot to the beginning, others to the end; returns how many are."""
        b, w = self.b, self.lanes
        pivots = b.splat(pivot, w)
        last = b.sub(n, 2 * w - 1)
        with b.carrying(0, last, [i64(0)], w, plain=True) as turn:
            i, (low,) = turn.index, turn.values
            v = b.load(self.vector, self.address(here, i), self.bytes)
            mask = b.cast("bitcast", b.icmp("slt", v, pivots), f"i{w}")
            row = b.element_address("%table", "i8", b.mul(as_index(b, mask), 8))
            lanes = b.cast("zext", b.load(vector_type(8, "i8"), row, 1), vector_type(8, "i32"))
            moved = self.permuted(v, lanes)
            b.store(moved, self.address(there, low.name), self.bytes)
            high = b.add(low.name, b.sub(b.sub(n, i), w))
            b.store(moved, self.address(there, high), self.bytes)
            count = as_index(b, b.intrinsic("ctpop", mask.type, [mask]))
            turn.values = [i64(b.add(low.name, count))]
        done = b.mul(b.udiv(b.sub(n, w), w), w)
        with b.carrying(done, n, turn.values, plain=True) as turn:
            j, (low,) = turn.index, turn.values
            key = self.key(here, j)
            b.store(key, self.address(there, low.name))
            end = b.sub(b.add(low.name, b.sub(n, j)), 1)
            b.store(key, self.address(there, end))
            is_low = b.cast("zext", b.icmp("slt", key, pivot), "i64")
            turn.values = [i64(b.add(low.name, is_low.name))]
        return turn.values[0].name

    # --- short segments -------------------------------------------------------------------------

    def short(self, here: str, there: str, n: Index) -> None:
        """Sort a short segment in registers; what follows it in memory is written as it was."""
        b, w = self.b, self.lanes
        at = [v * w for v in range(_VECTORS)]
        present = [lanes_below(b, first, str(n), w, self.t) for first in at]
        most = b.splat(int_const(self.bits, (1 << self.bits - 1) - 1), w)
        vectors = []
        for first, mask in zip(at, present, strict=True):
            keys = b.load(self.vector, self.address(here, first), self.bytes)
            vectors.append(self.select(mask, keys, most))
        vectors = self.interleaved(self.network(vectors))
        for first, mask, keys in zip(at, present, vectors, strict=True):
            address = self.address(there, first)
            old = b.load(self.vector, address, self.bytes)
            b.store(self.select(mask, keys, old), address, self.bytes)

    def select(self, mask: Val, yes: Val, no: Val) -> Val:
        operation = Select(mask.type, yes.type, (mask.name, yes.name, no.name))
        return self.b.op(yes.type, operation)

    def network(self, keys: Sequence[Val]) -> list[Val]:
        """Sort vectors; lane l of vector v is element l * _VECTORS + v then.

        First each lane of all vectors is sorted. Then lanes are merged bitonically, pairs of lanes,
        pairs of these, and so on, all by the same code.
        """
        b, found = self.b, list(keys)
        for low, high in _comparators(_VECTORS):
            found[low], found[high] = self.ordered(found[low], found[high])
        with b.carrying(0, self.lanes.bit_length() - 1, found, plain=True) as level:
            width = b.binary("shl", i64(1), level.index).name
            others = level.values[::-1]
            merged = self.crossed(level.values, others, b.sub(b.mul(width, 2), 1), width)
            with b.carrying(1, b.add(level.index, 1), merged, plain=True) as turn:
                step = b.binary("lshr", i64(width), turn.index).name
                turn.values = self.crossed(turn.values, turn.values, step, step)
            level.values = self.merged(turn.values)
        return level.values

    def merged(self, keys: Sequence[Val]) -> list[Val]:
        """Sort each lane of vectors, which is bitonic."""
        found, step = list(keys), _VECTORS // 2
        while step:
            for v in range(_VECTORS):
                if not v & step:
                    found[v], found[v + step] = self.ordered(found[v], found[v + step])
            step //= 2
        return found

    def ordered(self, x: Val, y: Val) -> tuple[Val, Val]:
        """Return the smaller of each two elements, and the larger."""
        least, most = (self.b.intrinsic(f, self.vector, [x, y]) for f in ("smin", "smax"))
        return least, most

    def crossed(
        self, keys: Sequence[Val], others: Sequence[Val], flip: Index, high: Index
    ) -> list[Val]:
        """Put elements in order with those of other vectors whose lanes differ in the bits of flip.

        high: the highest of these bits, in lanes with which the larger element stays.
        """
        b, w = self.b, self.lanes
        numbers = vector_constant("i32", range(8))
        by = b.splat(b.cast("trunc", i64(b.mul(flip, self.bits // 32)), "i32"), 8)
        places = b.binary("xor", numbers, by)
        bit = high if self.t == "i64" else b.cast("trunc", i64(high), self.t).name
        bits = b.binary("and", vector_constant(self.t, range(w)), b.splat(Val(self.t, str(bit)), w))
        is_high = b.icmp("ne", bits, "zeroinitializer")
        found = []
        for key, other in zip(keys, others, strict=True):
            least, most = self.ordered(key, self.permuted(other, places))
            found.append(self.select(is_high, most, least))
        return found

    def permuted(self, vector: Val, places: Val) -> Val:
        """Return the 32-bit lanes of a vector that are at these places."""
        b, numbers = self.b, vector_type(8, "i32")
        b.module.declare("llvm.x86.avx2.permd", numbers, [numbers, numbers])
        whole = b.cast("bitcast", vector, numbers) if vector.type != numbers else vector
        moved = b.call("llvm.x86.avx2.permd", [whole, places], numbers)
        return moved if vector.type == numbers else b.cast("bitcast", moved, vector.type)

    def interleaved(self, keys: Sequence[Val]) -> list[Val]:
        """Return the elements of sorted vectors in order."""
        b, w, half = self.b, self.lanes, _VECTORS // 2
        low = [n // 2 + n % 2 * w for n in range(w)]
        high = [n + w // 2 for n in low]
        # A loop: LLVM would look for ways to make one shuffle of several for longer than it takes
        # to compile everything else.
        with b.carrying(0, _VECTORS.bit_length() - 1, keys, plain=True) as turn:
            pairs = list(zip(turn.values[:half], turn.values[half:], strict=True))
            turn.values = [b.shuffle_vector(x, y, part) for x, y in pairs for part in (low, high)]
        return turn.values
