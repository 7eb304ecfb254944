"""Random modules with loops, branches, calls and fusions in each other, and any layouts.

`generate_nested(seed)` is `generate` with more: values that a loop carries in turn, twice, or not
at all; results that are operands; parameters and results that are tuples; narrow types, up to six
dimensions, dimensions in any order in memory, tiles, packed elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hlo.ir import Computation, Instruction, Module
from hlo.ops.attrs import SliceDim
from hlo.values.types import (
    ELEMENT_TYPES,
    PRED,
    S32,
    ArrayShape,
    ElementType,
    Layout,
    Shape,
    Tile,
    TupleShape,
    array,
)
from tests.generators.modules import (
    PRODUCTIONS,
    Generator,
    Production,
    binary,
    reverse,
    through_tuple,
    unary,
)

_TYPES = [ELEMENT_TYPES[n] for n in (
    "pred", "s2", "s4", "s8", "s16", "s32", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64",
    "f8e4m3fn", "f8e5m2", "f16", "bf16", "f32", "f32", "f64",
)]  # fmt: skip
MAX_DEPTH = 3
# What a loop carries stays this small, so that its floats are exact in every iteration.
_CARRIED = 4.0
_SIZES = {0: (1,), 1: (1, 2, 7, 16, 33, 65), 2: (1, 2, 3, 5, 9, 17), 3: (1, 2, 3, 5, 8)}


class Nested(Generator):
    """Builds one module. Inner computations are grown as the entry is, from their parameters."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.productions = [*PRODUCTIONS, *_FLAT, *_NESTED]
        self.depth = 0
        # Arrays of one shape that replace each other: for what shares memory with what.
        self.is_narrow = self.rng.random() < 0.4
        if self.is_narrow:
            self.productions = [*_REPLACING, *_NESTED]

    def build(self, size: int) -> Module:
        module = super().build(size)
        root = self.comp.root
        for n, result in enumerate(root.operands):
            shape = self.stored(result.shape)
            if shape != result.shape:
                root.replace_operand(n, self.comp.create("copy", shape, [result]))
        ended = self.comp.create("tuple", TupleShape(tuple(root.operand_shapes)), root.operands)
        self.comp.set_root(ended)
        self.comp.remove(root)
        for p in self.comp.parameters:
            p.shape = self.stored(p.shape)
        return module

    def shape(self, et: ElementType | None = None) -> ArrayShape:
        if self.is_narrow:
            return array(et or S32, (6,))
        rank = self.rng.choice((0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6))
        dims = [self.rng.choice(_SIZES.get(rank, (1, 2, 3))) for _ in range(rank)]
        if dims and self.rng.random() < 0.06:
            dims[self.rng.randrange(rank)] = 0
        return array(et or self.rng.choice(_TYPES), dims)

    def emit(
        self,
        opcode: str,
        operands: Sequence[Instruction],
        attrs: dict[str, Any],
        *,
        shape: Shape | None = None,
        bound: float | None = None,
    ) -> Instruction:
        inst = super().emit(opcode, operands, attrs, shape=shape, bound=bound)
        if isinstance(inst.shape, ArrayShape):
            et = inst.shape.element_type
            if et.is_float and et.bits < 16 and opcode != "parameter" and not self.exact(inst):
                self.pool.remove(inst)  # a rounding more or less is too large an error
            elif opcode not in ("parameter", "constant") and self.rng.random() < (
                0.02 if self.is_narrow else 0.15
            ):
                inst.shape = self.shuffled(inst.shape)
        return inst

    def like(self, inst: Instruction) -> Instruction:
        shape = self.array(inst)
        return self.rng.choice([i for i in self.pool if same(i.shape, shape)])

    # --- layouts --------------------------------------------------------------------------------

    def shuffled(self, shape: ArrayShape) -> ArrayShape:
        """Return a shape with its dimensions in any order in memory."""
        order = list(range(shape.rank))
        self.rng.shuffle(order)
        return shape.with_layout(Layout(tuple(order)))

    def stored(self, shape: Shape) -> ArrayShape:
        """Return a shape of an argument or result in a layout as the world outside has them."""
        assert isinstance(shape, ArrayShape)
        if self.rng.random() < 0.5:
            return shape
        layout = self.shuffled(shape).layout
        assert layout is not None
        if shape.rank and self.rng.random() < 0.5:
            sizes = [
                self.rng.choice((1, 2, 3, 4, 8)) for _ in range(self.rng.randint(1, shape.rank))
            ]
            tiles = [Tile(tuple(sizes))]
            if self.rng.random() < 0.3:
                tiles.append(Tile((self.rng.choice((1, 2, 4)), 1)))
            layout = replace(layout, tiles=tuple(tiles))
        if shape.element_type.bits < 8 and self.rng.random() < 0.7:
            layout = replace(layout, element_bits=shape.element_type.bits)
        if self.rng.random() < 0.2:
            layout = replace(layout, tail_padding=self.rng.choice((2, 64)))
        if self.rng.random() < 0.2:
            layout = replace(layout, memory_space=self.rng.randint(1, 5))
        return shape.with_layout(layout)

    # --- computations ---------------------------------------------------------------------------

    @contextmanager
    def inside(self, name: str) -> Iterator[Computation]:
        """Build another computation for a while."""
        outer, pool = self.comp, self.pool
        self.comp, self.pool = Computation(name), []
        self.depth += 1
        try:
            yield self.comp
        finally:
            self.module.add(self.comp)
            self.comp, self.pool = outer, pool
            self.depth -= 1

    def parameters(self, values: Sequence[Instruction]) -> list[Instruction]:
        """Begin a computation with one parameter for each value outside."""
        return [
            self.emit("parameter", (), {"number": n}, shape=v.shape, bound=self.bound.get(v))
            for n, v in enumerate(values)
        ]

    def elements(self, values: Sequence[Instruction]) -> list[Instruction]:
        """Begin a computation with one parameter, the tuple of some values outside."""
        shape = TupleShape(tuple(v.shape for v in values))
        whole = self.emit("parameter", (), {"number": 0}, shape=shape)
        return [
            self.emit(
                "get-tuple-element", [whole], {"index": n}, shape=v.shape, bound=self.bound.get(v)
            )
            for n, v in enumerate(values)
        ]

    def some(self, most: int, wanted: Callable[[Instruction], bool]) -> list[Instruction]:
        """Return some values of the pool, perhaps one of them twice."""
        choice = [i for i in self.pool if wanted(i)]
        return [self.rng.choice(choice) for _ in range(self.rng.randint(1, most))] if choice else []

    def is_small(self, inst: Instruction) -> bool:
        return not self.type(inst).is_float or self.bound.get(inst, math.inf) <= _CARRIED

    def result(self, values: Sequence[Instruction]) -> None:
        """End a computation with one value, or a tuple."""
        root = values[0] if len(values) == 1 else self.emit("tuple", values, {})
        self.comp.set_root(root)

    def take(self, made: Instruction, bounds: Sequence[float | None]) -> None:
        """Put the results of a computation, one or a tuple, into the pool."""
        if isinstance(made.shape, ArrayShape):
            if bounds[0] is not None:
                self.bound[made] = bounds[0]
            return
        for n, bound in enumerate(bounds):
            self.emit("get-tuple-element", [made], {"index": n}, bound=bound)


def same(a: Shape, b: Shape) -> bool:
    """True for shapes that are equal but for their layouts."""
    return a.to_string(False) == b.to_string(False)


# --- loops and branches -------------------------------------------------------------------------


def _loop(g: Nested, x: Instruction) -> None:
    if g.depth >= MAX_DEPTH:
        return
    carried = g.some(4, g.is_small)
    zero = g.scalar(S32, 0)
    limit = g.scalar(S32, g.rng.randint(0, 3))
    state = [*carried, zero, limit]
    g.rng.shuffle(state)
    at, end = state.index(zero), state.index(limit)
    init = g.emit("tuple", state, {})
    with g.inside("condition") as condition:
        inner = g.elements(state)
        g.grow(g.rng.randint(0, 2))
        seen = g.rng.choice([i for i in g.pool if g.exact(i)])
        go_on = g.emit("compare", [inner[at], inner[end]], {"direction": "LT"})
        condition.set_root(_and_sound(g, go_on, seen))
    with g.inside("body") as body:
        inner = g.elements(state)
        g.grow(g.rng.randint(0, 5))
        new = []
        for n, old in enumerate(inner):
            choice = [i for i in g.pool if same(i.shape, old.shape) and g.is_small(i)]
            new.append(old if n == end or g.rng.random() < 0.15 else g.rng.choice(choice))
        new[at] = g.emit("add", [inner[at], g.scalar(S32, 1)], {})
        for n, value in enumerate(new):
            if value.shape != state[n].shape:
                new[n] = g.emit("copy", [value], {}, shape=state[n].shape)
                new[n].shape = state[n].shape
        body.set_root(g.emit("tuple", new, {}))
    made = g.emit("while", [init], {"condition": condition, "body": body}, shape=init.shape)
    g.take(made, [_CARRIED] * len(state))


def _and_sound(g: Nested, go_on: Instruction, seen: Instruction) -> Instruction:
    """Return a truth value that reads another value without being changed by it."""
    same_as_ever = g.emit("compare", [seen, seen], {"direction": "EQ"})
    if g.array(seen).rank:
        dims = tuple(range(g.array(seen).rank))
        init = g.scalar(PRED, 1)
        attrs = {"dimensions": dims, "to_apply": g.body("and", PRED)}
        same_as_ever = g.emit("reduce", [same_as_ever, init], attrs)
    return g.emit("and", [go_on, same_as_ever], {})


def _branches(g: Nested, x: Instruction) -> None:
    if g.depth >= MAX_DEPTH:
        return
    index = [i for i in g.pool if not g.array(i).rank and g.type(i) in (PRED, S32)]
    chosen = g.rng.choice(index) if index else g.scalar(S32, g.rng.randint(-1, 3))
    count = 2 if g.type(chosen) is PRED else g.rng.randint(1, 3)
    operands, branches, shapes = [], [], []
    bounds: list[float | None] = []
    for n in range(count):
        values = g.some(3, lambda _: True)
        single = len(values) == 1
        operands.append(values[0] if single else g.emit("tuple", values, {}))
        with g.inside(f"branch_{n}") as branch:
            (g.parameters if single else g.elements)(values)
            g.grow(g.rng.randint(0, 4))
            if not n:
                results = g.some(3, lambda _: True)
                shapes = [r.shape for r in results]
                bounds = [g.size(r) for r in results]
            else:
                results = [_of_shape(g, s) for s in shapes]
                bounds = [
                    None if a is None or b is None else max(a, b)
                    for a, b in zip(bounds, (g.size(r) for r in results), strict=True)
                ]
            g.result(results)
        branches.append(branch)
    attrs: dict[str, Any] = {"branch_computations": tuple(branches)}
    if g.type(chosen) is PRED:
        attrs = {"true_computation": branches[0], "false_computation": branches[1]}
    shape = branches[0].root.shape
    made = g.emit("conditional", [chosen, *operands], attrs, shape=shape)
    g.take(made, bounds)


def _of_shape(g: Nested, shape: Shape) -> Instruction:
    """Return a value of a shape, in its layout."""
    assert isinstance(shape, ArrayShape)
    choice = [i for i in g.pool if same(i.shape, shape)]
    if choice:
        value = g.rng.choice(choice)
    else:
        one = g.scalar(shape.element_type, 1)
        if not shape.rank:
            return one
        value = g.emit("broadcast", [one], {"dimensions": ()}, shape=shape, bound=1.0)
        value.shape = shape
    if value.shape != shape:
        value = g.emit("copy", [value], {}, shape=shape, bound=g.size(value))
        value.shape = shape
    return value


def _fusion(g: Nested, x: Instruction) -> None:
    _called(g, "fusion", {"kind": "kLoop"})


def _call(g: Nested, x: Instruction) -> None:
    _called(g, "call", {})


def _called(g: Nested, opcode: str, attrs: dict[str, Any]) -> None:
    if g.depth >= MAX_DEPTH:
        return
    values = g.some(3, lambda _: True)
    productions = g.productions
    if opcode == "fusion":
        g.productions = [*PRODUCTIONS, *_FLAT]
    with g.inside(opcode) as comp:
        g.parameters(values)
        g.grow(g.rng.randint(1, 6))
        results = g.some(3, lambda _: True)
        if opcode == "fusion":
            # In a fusion everything has a use.
            results = [i for i in comp if not i.num_users]
            if len(results) == 1 and results[0].opcode == "parameter":
                results *= 2
        bounds = [g.size(r) for r in results]
        g.result(results)
    g.productions = productions
    key = "calls" if opcode == "fusion" else "to_apply"
    made = g.emit(opcode, values, {**attrs, key: comp}, shape=comp.root.shape)
    g.take(made, bounds)


# --- more operations ----------------------------------------------------------------------------


def _relaid(g: Nested, x: Instruction) -> None:
    g.emit("copy", [x], {}, shape=g.shuffled(g.array(x)), bound=g.size(x))


def _barrier(g: Nested, x: Instruction) -> None:
    g.emit("opt-barrier", [x], {}, shape=x.shape, bound=g.size(x))


def _indexed(g: Nested, x: Instruction) -> list[Instruction] | None:
    """Return a start index for each dimension, some of them computed; None without dimensions."""
    shape = g.array(x)
    if not shape.rank:
        return None
    scalars = [
        i for i in g.pool if not g.array(i).rank and g.type(i).is_integer and g.type(i).bits >= 8
    ]
    et = g.type(g.rng.choice(scalars)) if scalars else S32
    starts = [i for i in scalars if g.type(i) is et] + [g.scalar(et, 1)]
    return [g.rng.choice(starts) for _ in range(shape.rank)]


def _slice_at(g: Nested, x: Instruction) -> None:
    starts = _indexed(g, x)
    if starts:
        sizes = tuple(g.rng.randint(0, d) for d in g.array(x).dims)
        g.emit("dynamic-slice", [x, *starts], {"dynamic_slice_sizes": sizes},
               shape=array(g.type(x), sizes), bound=g.size(x))  # fmt: skip


def _update_at(g: Nested, x: Instruction) -> None:
    """Write part of a value, perhaps of the same one, into it."""
    starts = _indexed(g, x)
    if not starts:
        return
    source = g.like(x)
    parts = tuple(SliceDim(0, g.rng.choice((d, d // 2, min(d, 1)))) for d in g.array(x).dims)
    shape = array(g.type(x), [p.limit for p in parts])
    update = g.emit("slice", [source], {"slice": parts}, shape=shape, bound=g.size(source))
    g.emit("dynamic-update-slice", [x, update, *starts], {}, bound=g.size(x, source))


def _gather(g: Nested, x: Instruction) -> None:
    shape = g.array(x)
    if not shape.rank or 0 in shape.dims:
        return
    rows = [i for i in g.pool if g.array(i).rank == 1 and g.type(i).name in ("s32", "u8", "s64")]
    if not rows:
        return
    at, d = g.rng.choice(rows), g.rng.randrange(shape.rank)
    sizes = tuple(1 if n == d else size for n, size in enumerate(shape.dims))
    attrs = {
        "offset_dims": tuple(range(1, shape.rank)), "collapsed_slice_dims": (d,),
        "start_index_map": (d,), "index_vector_dim": 1, "slice_sizes": sizes,
    }  # fmt: skip
    g.emit("gather", [x, at], attrs, bound=g.size(x))


def _scatter(g: Nested, x: Instruction) -> None:
    shape = g.array(x)
    if not shape.rank or g.type(x).is_pred:
        return
    rows = [i for i in g.pool if g.array(i).rank == 1 and g.type(i).name in ("s32", "u8", "s64")]
    if not rows:
        return
    at, d = g.rng.choice(rows), g.rng.randrange(shape.rank)
    window = [size for n, size in enumerate(shape.dims) if n != d]
    updates = _of_shape(g, array(g.type(x), [g.array(at).dims[0], *window]))
    name = g.rng.choice(("maximum", "minimum"))
    attrs = {
        "update_window_dims": tuple(range(1, shape.rank)), "inserted_window_dims": (d,),
        "scatter_dims_to_operand_dims": (d,), "index_vector_dim": 1,
        "to_apply": g.body(name, g.type(x)),
    }  # fmt: skip
    if g.size(x, updates) is not None:
        g.emit("scatter", [x, at, updates], attrs, bound=g.size(x, updates))


def _first_maximum(g: Nested, x: Instruction) -> None:
    """Find the largest elements along a dimension, and where they are."""
    shape = g.array(x)
    if not shape.rank or not g.exact(x) or g.type(x).is_pred:
        return
    d = g.rng.randrange(shape.rank)
    places = g.emit("iota", [], {"iota_dimension": d}, shape=shape.with_type(S32).with_layout(
        Layout.default(shape.rank)))  # fmt: skip
    low = g.identity("maximum", g.type(x))
    zero = g.scalar(S32, 0)
    with g.inside("larger") as comp:
        a, i, b, j = g.parameters([low, zero, low, zero])
        more = g.emit("compare", [a, b], {"direction": "GT"})
        equal = g.emit("compare", [a, b], {"direction": "EQ"})
        before = g.emit("compare", [i, j], {"direction": "LT"})
        both = g.emit("and", [equal, before], {})
        first = g.emit("or", [more, both], {})
        picked = [g.emit("select", [first, *pair], {}) for pair in ((a, b), (i, j))]
        comp.set_root(g.emit("tuple", picked, {}))
    attrs = {"dimensions": (d,), "to_apply": comp}
    made = g.emit("reduce", [x, places, low, zero], attrs)
    g.take(made, [g.size(x), 100.0])


def _map(g: Nested, x: Instruction) -> None:
    y = g.like(x)
    if not g.exact(x) or not g.exact(y):
        return
    scalars = [g.scalar(g.type(x), 1)] * 2
    with g.inside("mapped") as comp:
        params = g.parameters(scalars)
        comp.set_root(g.emit("maximum", params, {}))
    dims = tuple(range(g.array(x).rank))
    g.emit("map", [x, y], {"dimensions": dims, "to_apply": comp}, bound=g.size(x, y))


_FLAT: list[Production] = [
    _relaid, _barrier, _slice_at, _slice_at, _update_at, _update_at, _gather, _scatter,
    _first_maximum, _map,
]  # fmt: skip
_REPLACING: list[Production] = [
    _update_at, _update_at, _update_at, _update_at, _slice_at, _scatter, _barrier, through_tuple,
    unary, binary, binary, reverse,
]  # fmt: skip
_NESTED: list[Production] = [_loop, _loop, _loop, _branches, _branches, _fusion, _fusion, _call]


def generate_nested(seed: int, size: int = 12) -> Module:
    """Return a valid module of about `size` operations in the entry; the same one for a seed."""
    return Nested(seed).build(size)
