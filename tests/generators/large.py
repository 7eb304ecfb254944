"""Random modules at the sizes of real programs: `generate_large(seed)`.

The operations of `generate_ops`, loops and copies of tuples among them, on arrays of up to some
hundred thousand elements, with dimensions of several hundred, primes, powers of two and ones in any
place, in any layout; with chains of movements in front of each operation and behind it, operands
and results that share producers, and results of one operation as operands of the next. So loops run
in blocks, vectors and threads, and kernels read what they read through other strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.values.types import ELEMENT_TYPES, PRED, S32, ArrayShape, ElementType, Layout, Shape, array
from tests.generators import op_loops
from tests.generators.op_builder import Cases
from tests.generators.op_nesting import nest
from tests.generators.ops import MAKERS, Case

# Ones, small sizes, primes, powers of two, and what is next to them.
_SIZES = (1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 61, 64, 65, 96, 127, 128, 131, 192, 211, 256,
          257, 384, 509)  # fmt: skip
# Rather these than all: most programs have them, and each has code of its own.
_TYPES = ("f32",) * 6 + ("s32", "s32", "bf16", "bf16", "f64", "pred", "s8", "u8", "s64", "u32",
                         "c64", "f16", "s16")  # fmt: skip
# What is not here computes with the layouts that its result is declared to have.
_IN_ANY_LAYOUT = frozenset(
    """transpose reverse slice pad concatenate broadcast reshape select negate copy dot convolution
    gather dynamic-slice dynamic-update-slice reduce reduce-window add multiply maximum minimum
    compare convert iota""".split()
)
_MOVEMENTS = frozenset({"copy", "reshape", "transpose", "reverse", "slice", "bitcast"})
# Operations of arrays of these sizes that say more than they cost.
_WEIGHTS = {
    "dot": 6, "convolution": 5, "reduce": 5, "reduce-many": 3, "reduce-window": 5, "sort": 3,
    "topk": 2, "scatter": 4, "gather": 4, "select-and-scatter": 3, "fft": 2, "cholesky": 1,
    "triangular-solve": 1, "scan": 2, "slice": 3, "pad": 3, "concatenate": 3, "transpose": 5,
    "reshape": 3, "broadcast": 3, "reverse": 2, "dynamic-slice": 3, "dynamic-update-slice": 3,
    "chain": 4, "select": 2, "convert": 2, "compare": 1, "map": 1, "iota": 1, "same": 1,
    "bitcast-convert": 2, "batch-norm": 1, "scatter-many": 1, "add": 2, "tanh": 1, "divide": 1,
    "loop": 5, "copy-tuples": 2, "rng-bit-generator": 1, "ragged-dot": 1,
}  # fmt: skip
# Of those that are not named, as often each.
_OTHERS = 0.1
_MOST_CHAINED = 3
_MOST_IN_TEXT = 400


class Large(Cases):
    """Builds one module. budget: elements that an array is to have, about."""

    def __init__(self, seed: int, name: str = "large") -> None:
        super().__init__(seed, name)
        self.is_large = False
        self.is_exact = True
        self.subnormal = float(self.chance(0.25))
        self.most_products = 1 << 20
        self.budget = 2 ** self.rng.choice((10, 12, 13, 14, 14, 15, 15, 16, 16, 17))
        self.made: dict[tuple[ElementType, tuple[int, ...], str], list[Instruction]] = {}
        # Results that others are computed from, of whole numbers: those of floats may be off a bit.
        self.exact: list[Instruction] = []
        # Slices of which it is known that they begin inside.
        self.inside = set[Instruction]()
        # What many of the operations compute with, so that they can be put behind each other.
        rare = self.rng.choice(list(ELEMENT_TYPES))
        self.usual = ELEMENT_TYPES[rare if self.chance(0.2) else self.rng.choice(_TYPES)]
        self._depth = 0

    # --- sizes and types ------------------------------------------------------------------------

    def dims(self, least: int = 0, most: int = 6, *, empty: bool = True) -> tuple[int, ...]:
        rank = self.rng.choice([r for r in (0, 1, 2, 2, 3, 3, 3, 4, 4, 5) if least <= r <= most])
        room, sizes = self.budget, []
        for _ in range(rank):
            size = self.rng.choice([s for s in _SIZES if s <= max(1, room)])
            room //= size
            sizes.append(size)
        if sizes and self.chance(0.7):
            # As large as it may be, by the dimension that has the most room.
            sizes[sizes.index(min(sizes))] *= max(1, room)
        if sizes and empty and self.chance(0.02):
            sizes[0] = 0
        self.rng.shuffle(sizes)
        return tuple(sizes)

    def size(self, most: int = 9) -> int:
        return self.rng.choice([s for s in _SIZES if s <= 8 * most])

    def sizes(self, small: Sequence[int]) -> Sequence[int]:
        return [s for s in _SIZES if s <= 4 * max(small)]

    def type(self, wanted: Callable[[ElementType], bool]) -> ElementType:
        if wanted(self.usual) and self.chance(0.4):
            return self.usual
        found = [t for t in map(ELEMENT_TYPES.__getitem__, _TYPES) if wanted(t)]
        return self.rng.choice(found) if found and self.chance(0.9) else super().type(wanted)

    # --- values ---------------------------------------------------------------------------------

    def emit(
        self,
        opcode: str,
        operands: Sequence[Instruction] = (),
        *,
        shape: Shape | ElementType = PRED,
        fixed: bool = False,
        **attrs: Any,
    ) -> Instruction:
        made = super().emit(opcode, operands, shape=shape, fixed=fixed, **attrs)
        if opcode in _IN_ANY_LAYOUT and self.chance(0.2):
            made.shape = self._turned(made.shape)
        return made

    def _turned(self, shape: Shape) -> Shape:
        """Return an array shape in another layout."""
        if not isinstance(shape, ArrayShape) or shape.is_dynamic:
            return shape
        order = list(range(shape.rank))
        self.rng.shuffle(order)
        return shape.with_layout(Layout(tuple(order)))

    def parameter(self, values: Any) -> Instruction:
        made = super().parameter(values)
        if self.chance(0.25):
            made.shape = self._turned(made.shape)
        return made

    def value(self, et: ElementType, dims: Sequence[int], kind: str = "edges") -> Instruction:
        """Return an operand: one that others have too, or a chain of movements of a parameter."""
        dims = tuple(dims)
        if math.prod(dims) > 4 * self.budget:
            return self._source(et, dims, kind)
        known = self.made.setdefault((et, dims, kind), [])
        here = [x for x in known if x.parent is self.comp]
        if here and self.chance(0.4):
            return self.rng.choice(here)
        made = self._of_result(et, dims) if self.chance(0.5) else None
        if made is not None:
            return made
        if self._depth < _MOST_CHAINED and self.chance(0.6):
            self._depth += 1
            made = self._produced(et, dims, kind)
            self._depth -= 1
        else:
            made = self._source(et, dims, kind)
        known.append(made)
        return made

    def _produced(self, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
        if dims and self.chance(0.5):
            return self.rng.choice(_PARTS)(self, et, dims, kind)
        return self._made_of_others(et, dims, kind)

    def _source(self, et: ElementType, dims: Sequence[int], kind: str) -> Instruction:
        values = self.numbers(et, dims, kind)
        is_constant = values.size <= _MOST_IN_TEXT and self.chance(0.1)
        return self.constant(values) if is_constant else self.given(values)

    def given(self, values: np.ndarray) -> Instruction:
        """Return an operand that has these values once they are moved."""
        if not values.ndim or not values.size or self.chance(0.6):
            return self.parameter(values)
        return self.rng.choice(_WAYS)(self, values)

    def _of_result(self, et: ElementType, dims: tuple[int, ...]) -> Instruction | None:
        """Return the elements of an earlier result, as many as there are, in another shape."""
        known = [x for x in self.exact if x.parent is self.comp and x.array_shape.num_elements
                 and x.array_shape.element_type is et]  # fmt: skip
        if not known:
            return None
        x, wanted = self.rng.choice(known), math.prod(dims)
        count = x.array_shape.num_elements
        if x.array_shape.dims == dims:
            return x
        x = self.emit("reshape", [x], shape=array(et, [count]))
        if count > wanted:
            first = self.rng.randint(0, count - wanted)
            x = self.emit("slice", [x], slice=(SliceDim(first, first + wanted),))
        elif count < wanted:
            low = self.rng.randint(0, wanted - count)
            padding = (PadDim(low, wanted - count - low, 0),)
            x = self.emit("pad", [x, self.value(et, ())], padding=padding)
        return self.emit("reshape", [x], shape=array(et, dims))

    def part(self, x: Instruction, dims: tuple[int, ...]) -> Instruction:
        """Return a part of an array that begins anywhere inside it."""
        shape = x.array_shape
        starts = [self.indices((), 0, n - m, S32) for n, m in zip(shape.dims, dims, strict=True)]
        made = self.emit("dynamic-slice", [x, *starts], shape=array(shape.element_type, dims),
                         dynamic_slice_sizes=dims)  # fmt: skip
        self.inside.add(made)
        return made

    # --- results --------------------------------------------------------------------------------

    def result(self, made: Instruction, *, rtol: float | None = 0.0) -> None:
        before = len(self.results)
        super().result(made, rtol=rtol)
        for x in self.results[before:]:
            et = x.array_shape.element_type
            if rtol == 0 and (et.is_integer or et.is_pred) and not x.array_shape.is_dynamic:
                self.exact.append(x)
            if self.chance(0.5) or x.array_shape.is_dynamic:
                continue
            y = x
            for _ in range(self.rng.randint(1, 3)):
                y = self.rng.choice(_MOVES)(self, y)
            self.results.append(y)
            if self.chance(0.4):
                self.results.remove(x)
        if self.chance(0.3) and isinstance(made.shape, ArrayShape) and made.parent is self.comp:
            self.results += [
                o
                for o in made.operands
                if o.shape.is_array and o.opcode != "constant" and not o.opcode.endswith("-start")
            ]

    def finished(self) -> None:
        """Give each result a layout, whatever that of what it is."""
        self.on_xla &= not any(map(self._is_moved_twice, self.comp))
        self.on_xla &= not any(map(_has_narrow_indices, self.comp))
        self.results = [
            self.emit("copy", [x], shape=self._turned(x.shape), fixed=True)
            if self.chance(0.3) and not x.array_shape.is_dynamic else x
            for x in self.results
        ]  # fmt: skip

    def _is_moved_twice(self, inst: Instruction) -> bool:
        """True for a slice of a slice of which one might begin outside: XLA adds up their starts.

        It should bring each into range first.
        """
        if inst.opcode != "dynamic-slice":
            return False
        x = inst.operands[0]
        while x.opcode in _MOVEMENTS:
            x = x.operands[0]
        return x.opcode == "dynamic-slice" and not {inst, x} <= self.inside


def _has_narrow_indices(inst: Instruction) -> bool:
    """True for a scatter with places that its indices cannot name: XLA compares in their type."""
    if inst.opcode != "scatter":
        return False
    indices = inst.operands[len(inst.operands) // 2].array_shape.element_type
    largest = (1 << indices.bits - indices.is_signed) - 1
    return max(inst.operands[0].array_shape.dims, default=0) > largest


# --- operands that are moved before ---------------------------------------------------------------


def _from_another_order(g: Large, values: np.ndarray) -> Instruction:
    order = list(range(values.ndim))
    g.rng.shuffle(order)
    x = g.parameter(np.ascontiguousarray(values.transpose(np.argsort(order))))
    return g.emit("transpose", [x], dimensions=tuple(order))


def _from_behind(g: Large, values: np.ndarray) -> Instruction:
    dims = g.some_dims(values.ndim)
    return g.emit("reverse", [g.parameter(np.flip(values, dims))], dimensions=dims)


def _from_within(g: Large, values: np.ndarray) -> Instruction:
    more = [(g.rng.choice((0, 0, 1, 3)), g.rng.choice((0, 0, 2))) for _ in values.shape]
    parts = tuple(SliceDim(a, a + n) for (a, _), n in zip(more, values.shape, strict=True))
    return g.emit("slice", [g.parameter(np.pad(values, more))], slice=parts)


def _from_pieces(g: Large, values: np.ndarray) -> Instruction:
    d = g.rng.randrange(values.ndim)
    parts = np.split(values, [g.rng.randint(0, values.shape[d])], d)
    return g.emit("concatenate", [g.parameter(p) for p in parts], dimensions=(d,))


def _from_a_line(g: Large, values: np.ndarray) -> Instruction:
    x = g.parameter(values.reshape(-1))
    return g.emit("reshape", [x], shape=array(x.array_shape.element_type, values.shape))


_WAYS = (_from_another_order, _from_behind, _from_within, _from_pieces, _from_a_line)


# --- operands as parts of larger arrays -----------------------------------------------------------


def _of_larger(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    """Take a slice of an array with some dimensions longer: rows at offsets, every other column."""
    parts, sizes = [], []
    room = max(1, 2 * g.budget // max(1, math.prod(dims)))
    for n in dims:
        stride, start, after = 1, 0, 0
        if g.chance(0.4) and room > 1:
            stride = g.rng.choice((1, 1, 2, 3)) if n > 1 and room >= 3 else 1
            room //= stride
            start = g.rng.randint(0, max(1, min(room, 7) - 1)) if n < 40 else g.rng.randint(0, 9)
            after = g.rng.randint(0, 2)
            room = 1 if n < 8 else room
        limit = start + (max(n, 1) - 1) * stride + 1 if n else start
        parts.append(SliceDim(start, limit, stride))
        sizes.append(limit + after)
    return g.emit("slice", [g.value(et, sizes, kind)], slice=tuple(parts))


def _of_rows(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    """Take one of several arrays, as where weights of all layers are stacked."""
    count, at = g.rng.randint(2, 6), g.rng.randint(0, len(dims))
    stacked = (*dims[:at], count, *dims[at:])
    here = g.rng.randrange(count)
    parts = [SliceDim(here, here + 1) if d == at else SliceDim(0, n) for d, n in enumerate(stacked)]
    x = g.emit("slice", [g.value(et, stacked, kind)], slice=tuple(parts))
    if g.chance(0.5):
        x = _transpose(g, x)
        order = x.attrs["dimensions"]
        back = tuple(order.index(d) for d in range(len(order)))
        x = g.emit("transpose", [g.emit("copy", [x])], dimensions=back)
    return g.emit("reshape", [x], shape=array(et, dims))


def _regrouped(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    """Reshape an array in which a dimension is two, or two are one."""
    d = g.rng.randrange(len(dims))
    factors = [f for f in (2, 3, 4, 5, 7, 8, 16, 32) if dims[d] > f and dims[d] % f == 0]
    if factors:
        f = g.rng.choice(factors)
        sizes = (*dims[:d], f, dims[d] // f, *dims[d + 1 :])
    elif d:
        sizes = (*dims[: d - 1], dims[d - 1] * dims[d], *dims[d + 1 :])
    else:
        sizes = (1, *dims)
    x = g.value(et, sizes, kind)
    return g.emit("reshape", [x], shape=array(et, dims))


def _padded(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    padding, sizes = [], []
    for n in dims:
        low, high = (g.rng.choice((0, 0, 1, 3)), g.rng.choice((0, 0, 2))) if n > 4 else (0, 0)
        interior = int(n - low - high > 2 and g.chance(0.15))
        inner = (n - low - high - 1) // (interior + 1) + 1 if n else 0
        high = n - low - ((inner - 1) * (interior + 1) + 1) if n else 0
        padding.append(PadDim(low, high, interior))
        sizes.append(inner)
    return g.emit(
        "pad", [g.value(et, sizes, kind), g.value(et, (), kind)], padding=tuple(padding)
    )  # fmt: skip


def _looked_up(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    """Take rows by their numbers."""
    count = g.rng.choice((1, 2, 7, 64))
    x = g.value(et, (count, *dims[1:]), kind)
    i = g.indices(dims[:1], -1, count, S32)
    return g.emit(
        "gather", [x, i], offset_dims=tuple(range(1, len(dims))), collapsed_slice_dims=(0,),
        start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, *dims[1:]),
    )  # fmt: skip


def _updated(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    x = g.value(et, dims, kind)
    part = g.value(et, [g.rng.randint(1, n) if n else 0 for n in dims], kind)
    starts = [g.indices((), -2, n, S32) for n in dims]
    return g.emit("dynamic-update-slice", [x, part, *starts])


def _begun_somewhere(g: Large, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    sizes = [n + g.rng.choice((0, 0, 1, 3)) for n in dims]
    return g.part(g.value(et, sizes, kind), dims)


_PARTS = (
    _of_larger, _of_larger, _of_rows, _of_rows, _regrouped, _padded, _looked_up, _updated,
    _begun_somewhere,
)  # fmt: skip


# --- what is done with results --------------------------------------------------------------------


def _transpose(g: Large, x: Instruction) -> Instruction:
    order = list(range(x.array_shape.rank))
    g.rng.shuffle(order)
    return g.emit("transpose", [x], dimensions=tuple(order))


def _reverse(g: Large, x: Instruction) -> Instruction:
    return g.emit("reverse", [x], dimensions=g.some_dims(x.array_shape.rank))


def _slice(g: Large, x: Instruction) -> Instruction:
    """Take one index of some dimensions, all of others, and some of the rest."""
    parts = []
    for n in x.array_shape.dims:
        way = g.rng.choice(("all", "all", "one", "some")) if n else "all"
        start = g.rng.randrange(n) if way != "all" else 0
        limit = {"all": n, "one": start + 1, "some": g.rng.randint(start, n)}[way]
        parts.append(SliceDim(start, limit, g.rng.choice((1, 1, 2, 3)) if way == "some" else 1))
    return g.emit("slice", [x], slice=tuple(parts))


def _pad(g: Large, x: Instruction) -> Instruction:
    shape = x.array_shape
    if not shape.dims:
        return x
    padding = []
    for n in shape.dims:
        interior = g.rng.choice((0, 0, 0, 1)) if n < 100 else 0
        least = -(n + max(n - 1, 0) * interior)
        low = max(least, g.rng.choice((0, 0, 1, -1)))
        padding.append(PadDim(low, max(least - low, g.rng.choice((0, 0, 3, -1))), interior))
    return g.emit("pad", [x, g.value(shape.element_type, ())], padding=tuple(padding))


def _reshape(g: Large, x: Instruction) -> Instruction:
    shape, left, sizes = x.array_shape, x.array_shape.num_elements, list[int]()
    while left > 1 and len(sizes) < 3:
        sizes.append(g.rng.choice([n for n in (1, *range(2, 70), left) if left % n == 0]))
        left //= sizes[-1]
    return g.emit("reshape", [x], shape=array(shape.element_type, [*sizes, left]))


def _broadcast(g: Large, x: Instruction) -> Instruction:
    shape = x.array_shape
    if shape.num_elements > g.budget:
        return x
    at, count = g.rng.randint(0, shape.rank), g.rng.choice((1, 2, 3))
    kept = tuple(d + (d >= at) for d in range(shape.rank))
    dims = (*shape.dims[:at], count, *shape.dims[at:])
    return g.emit("broadcast", [x], shape=array(shape.element_type, dims), dimensions=kept)


def _doubled(g: Large, x: Instruction) -> Instruction:
    """Put an array beside itself, or beside another."""
    shape = x.array_shape
    if not shape.dims or shape.num_elements > g.budget:
        return x
    d = g.rng.randrange(shape.rank)
    other = x if g.chance(0.5) else g.value(shape.element_type, shape.dims)
    return g.emit("concatenate", [x, other], dimensions=(d,))


def _copy(g: Large, x: Instruction) -> Instruction:
    way = g.rng.randrange(3)
    if way == 0:
        return g.emit("copy", [x])
    if way == 1:
        return op_loops.through_tuples(g, x, x)[0]
    return g.emit("get-tuple-element", [g.emit("tuple", [x, x])], index=1)


def _part_somewhere(g: Large, x: Instruction) -> Instruction:
    shape = x.array_shape
    sizes = tuple(g.rng.choice((n, min(n, 1), g.rng.randint(0, n))) for n in shape.dims)
    return g.part(x, sizes)


def _with_another_part(g: Large, x: Instruction) -> Instruction:
    shape = x.array_shape
    sizes = [g.rng.randint(0, n) for n in shape.dims]
    starts = [g.indices((), -1, n, S32) for n in shape.dims]
    return g.emit("dynamic-update-slice", [x, g.value(shape.element_type, sizes), *starts])


def _rows(g: Large, x: Instruction) -> Instruction:
    shape = x.array_shape
    if not shape.dims:
        return x
    d = g.rng.randrange(shape.rank)
    count = g.rng.choice((1, 3, 17, shape.dims[d]))
    if shape.num_elements and count * shape.num_elements // shape.dims[d] > 2 * g.budget:
        return x
    sizes = tuple(min(n, 1) if e == d else n for e, n in enumerate(shape.dims))
    return g.emit(
        "gather", [x, g.indices((count,), -1, shape.dims[d], S32)],
        offset_dims=tuple(e for e in range(shape.rank) if e != d), collapsed_slice_dims=(d,),
        start_index_map=(d,), index_vector_dim=1, slice_sizes=sizes,
    )  # fmt: skip


def _masked(g: Large, x: Instruction) -> Instruction:
    shape = x.array_shape
    if shape.num_elements > 2 * g.budget:
        return x
    flags = g.value(PRED, shape.dims)
    return g.emit("select", [flags, x, g.value(shape.element_type, shape.dims)])


_MOVES = (
    _transpose, _transpose, _transpose, _reverse, _slice, _slice, _slice, _pad, _reshape, _reshape,
    _broadcast, _doubled, _copy, _part_somewhere, _with_another_part, _rows, _masked,
)  # fmt: skip


def generate_large(seed: int, maker: str | None = None) -> Case:
    """Return a valid module and its arguments; the same ones for a seed. maker: its operation."""
    g = Large(seed)
    weights = [_WEIGHTS.get(name, _OTHERS) for name in MAKERS]
    names = tuple(g.rng.choices(list(MAKERS), weights, k=g.rng.choice((1, 2, 3))))
    if maker is not None:
        names = (maker,)
    for name in names:
        MAKERS[name](g)
    g.finished()
    g.comp.set_root(g.emit("tuple", g.results))
    entry = nest(g, g.comp) if g.may_nest and g.chance(0.4) else g.comp
    entry.name = "main"
    g.module.add(entry, entry=True)
    return Case(g.module, g.args, names, g.rtol, g.on_xla)
