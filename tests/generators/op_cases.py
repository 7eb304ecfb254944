"""Makers of operations that work element by element, or move elements: `MAKERS`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import ml_dtypes

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.ops.attrs import PadDim, SliceDim
from hlo.values.types import (
    ELEMENT_TYPES,
    PRED,
    S32,
    TOKEN,
    U32,
    ArrayShape,
    ElementType,
    TupleShape,
    array,
)
from tests.generators.op_builder import Cases

Maker = Callable[[Cases], None]

_UNARY = """abs acos acosh asin asinh atanh cbrt ceil cosh cosine count-leading-zeros erf
exp2 exponential exponential-minus-one floor imag is-finite log log-plus-one log2 logistic negate
not popcnt real round-nearest-afz round-nearest-even rsqrt sign sine sinh sqrt tan tanh""".split()
_BINARY = """add and atan2 divide maximum minimum mulhi multiply or power remainder shift-left
shift-right-arithmetic shift-right-logical subtract xor""".split()
# Correctly rounded, like what is not of floats.
_EXACT = set(
    """abs add and ceil count-leading-zeros divide floor imag is-finite maximum minimum mulhi
multiply negate not or popcnt real remainder round-nearest-afz round-nearest-even shift-left
shift-right-arithmetic shift-right-logical sign sqrt subtract xor""".split()
)
_INDEX_TYPES = ("s8", "u8", "s16", "s32", "s32", "s64", "u32", "u64")


@cache
def types_of(opcode: str, arity: int) -> tuple[ElementType, ...]:
    """Return the types that an elementwise operation has a meaning for."""
    return tuple(t for t in ELEMENT_TYPES.values() if _accepts(opcode, arity, t))


def _accepts(opcode: str, arity: int, et: ElementType) -> bool:
    operand = Instruction("p", "parameter", array(et, ()), (), {"number": 0})
    try:
        OPS[opcode].infer(Instruction("x", opcode, array(et, ()), [operand] * arity, {}))
    except InferError:
        return False
    return True


def _kind(et: ElementType) -> str:
    # Parts of complex results that are NaN or infinite are up to the formula.
    return "tame" if et.is_complex else "edges"


# --- element by element ---------------------------------------------------------------------------


def _elementwise(opcode: str, arity: int) -> Maker:
    def make(g: Cases) -> None:
        et = g.type(lambda t: t in types_of(opcode, arity))
        dims = g.dims()
        xs = [g.value(et, dims, _kind(et)) for _ in range(arity)]
        if opcode == "power" and et.is_integer:
            # XLA looks at six bits of an exponent only.
            g.on_xla &= g.chance(0.5)
            xs[1] = g.indices(dims, -2 if et.is_signed else 0, 63, et) if g.on_xla else xs[1]
        if opcode == "divide" and et.is_float and g.on_xla:
            # XLA multiplies by an inverse, which is flushed to zero where it is subnormal.
            xs[1] = g.value(et, dims, "tame")
        if opcode == "popcnt" and et.bits < 8:
            g.on_xla = False  # XLA counts the sign in all of a byte
        rtol = 1e-3 if et.name == "c64" else 1e-10 if et.is_complex else None
        # XLA rounds 8-bit roots and quotients to 16 bits first.
        twice = opcode in ("sqrt", "divide") and et.bits < 16
        if opcode in _EXACT and not et.is_complex and not twice:
            rtol = 0.0
        g.result(g.emit(opcode, xs), rtol=rtol)

    return make


def _compare(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims()
    x, y = g.value(et, dims), g.value(et, dims)
    directions = ("EQ", "NE") if et.is_complex else ("EQ", "NE", "LT", "LE", "GT", "GE")
    attrs = {"direction": g.rng.choice(directions)}
    if et.is_float and g.chance(0.4):
        attrs["type"] = "TOTALORDER"
    g.result(g.emit("compare", [x, y], **attrs))


def _select(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims()
    p = g.value(PRED, dims if g.chance(0.7) else ())
    g.result(g.emit("select", [p, g.value(et, dims), g.value(et, dims)]))


def _clamp(g: Cases) -> None:
    et, dims = g.type(lambda t: not t.is_complex and not t.is_pred), g.dims()
    low, high = (g.value(et, dims if g.chance(0.4) else (), "edges") for _ in range(2))
    g.result(g.emit("clamp", [low, g.value(et, dims), high]))


def _complex(g: Cases) -> None:
    et, dims = g.pick("f32", "f64"), g.dims()
    g.result(g.emit("complex", [g.value(et, dims), g.value(et, dims)]))


def _convert(g: Cases) -> None:
    dims = g.dims()
    x = g.value(g.type(lambda _: True), dims)
    g.result(g.emit("convert", [x], shape=g.type(lambda _: True)))


def _bitcast_convert(g: Cases) -> None:
    is_complex = g.chance(0.1)
    old = g.type(lambda t: t.is_complex == is_complex)
    # One width is a multiple of the other: of six bits there are types, and no larger ones.
    new = g.type(
        lambda t: t.is_complex == is_complex and not max(t.bits, old.bits) % min(t.bits, old.bits)
    )
    dims = g.dims(0, 5)
    if old.bits < new.bits:
        dims = (*dims, new.bits // old.bits)
    # Of its own: what a NaN is made of is lost in most operations.
    x = g.parameter(g.numbers(old, dims, "edges"))
    made = g.emit("bitcast-convert", [x], shape=new)
    if g.chance(0.5):
        g.results.append(made)
    else:
        g.results.append(g.emit("bitcast-convert", [made], shape=old))


def _reduce_precision(g: Cases) -> None:
    et = g.type(lambda t: t.is_float)
    x = g.value(et, g.dims())
    g.result(
        g.emit("reduce-precision", [x], exponent_bits=g.rng.randint(1, 11),
               mantissa_bits=g.rng.choice((0, 1, 2, 3, 7, 10, 23, 52)))
    )  # fmt: skip


def _stochastic_convert(g: Cases) -> None:
    et, dims = g.pick("f16", "bf16", "f32", "f64"), g.dims()
    bits = ELEMENT_TYPES[f"u{et.bits}"]
    to = g.pick("s8", "s16", "s32")
    g.result(g.emit("stochastic-convert", [g.value(et, dims), g.value(bits, dims)], shape=to))


def _map(g: Cases) -> None:
    et, dims = g.type(lambda t: not t.is_complex), g.dims()
    xs = [g.value(et, dims) for _ in range(g.rng.randint(1, 3))]

    def build(*scalars: Instruction) -> Instruction:
        made = scalars[0]
        for s in scalars:
            made = g.emit("maximum", [made, s])
        return g.emit("compare", [made, scalars[-1]], direction="NE") if flags else made

    flags = g.chance(0.3)
    body = g.body("mapped", [et] * len(xs), build)
    g.result(g.emit("map", xs, dimensions=tuple(range(len(dims))), to_apply=body))


def _chain(g: Cases) -> None:
    """Several operations on each other, exact in any order of evaluation: one fused loop."""
    et = g.type(lambda t: t.is_integer and t.bits >= 8)
    dims = g.dims()
    pool = [g.value(et, dims) for _ in range(3)]
    names = [n for n in _BINARY if et in types_of(n, 2) and n != "power"]
    for _ in range(g.rng.randint(3, 9)):
        x, y = g.rng.choice(pool), g.rng.choice(pool)
        if g.chance(0.2):
            p = g.emit("compare", [x, y], direction=g.rng.choice(("LT", "GE", "EQ")))
            pool.append(g.emit("select", [p, g.rng.choice(pool), y]))
        else:
            pool.append(g.emit(g.rng.choice(names), [x, y]))
    for x in pool[-g.rng.randint(1, 3) :]:
        g.result(x)


# --- movement -------------------------------------------------------------------------------------


def _iota(g: Cases) -> None:
    et, dims = g.type(lambda t: not t.is_pred), g.dims(1)
    shape = array(et, dims)
    g.result(g.emit("iota", shape=shape, iota_dimension=g.rng.randrange(len(dims))))


def _broadcast(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims()
    kept = list(g.some_dims(len(dims)))
    x = g.value(et, [dims[d] for d in kept])
    g.result(g.emit("broadcast", [x], shape=array(et, dims), dimensions=tuple(kept)))


def _reshape(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims()
    left, sizes = math.prod(dims), []
    while left > 1 and len(sizes) < 5:
        n = g.rng.choice([n for n in range(1, min(left, 70) + 1) if left % n == 0])
        sizes.append(n)
        left //= n
    opcode = g.rng.choice(("reshape", "reshape", "bitcast"))
    g.result(g.emit(opcode, [g.value(et, dims)], shape=array(et, [*sizes, left])))


def _transpose(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims(1)
    order = list(range(len(dims)))
    g.rng.shuffle(order)
    g.result(g.emit("transpose", [g.value(et, dims)], dimensions=tuple(order)))


def _reverse(g: Cases) -> None:
    dims = g.dims()
    x = g.value(g.type(lambda _: True), dims)
    g.result(g.emit("reverse", [x], dimensions=g.some_dims(len(dims))))


def _slice(g: Cases) -> None:
    dims, parts = g.dims(1), []
    for n in dims:
        start = g.rng.randint(0, n)
        parts.append(SliceDim(start, g.rng.randint(start, n), g.rng.randint(1, 4)))
    x = g.value(g.type(lambda _: True), dims)
    g.result(g.emit("slice", [x], slice=tuple(parts)))


def _pad(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims(1, 5)
    padding = []
    for n in dims:
        interior = g.rng.choice((0, 0, 1, 2))
        base = n + max(n - 1, 0) * interior
        low = g.rng.choice((0, 1, 3, -1))
        padding.append(PadDim(low, max(g.rng.choice((0, 2, -1)), -base - low), interior))
    g.result(g.emit("pad", [g.value(et, dims), g.value(et, ())], padding=tuple(padding)))


def _concatenate(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims(1)
    d = g.rng.randrange(len(dims))
    sizes = [dims[d], *(g.rng.choice((0, 1, 3, 8)) for _ in range(g.rng.randint(0, 3)))]
    xs = [g.value(et, (*dims[:d], n, *dims[d + 1 :])) for n in sizes]
    g.result(g.emit("concatenate", xs, dimensions=(d,)))


def _same(g: Cases) -> None:
    """Copies and what else returns its operand."""
    x = g.value(g.type(lambda _: True), g.dims())
    way = g.rng.randrange(5)
    if way == 0:
        g.result(g.emit("copy", [x]))
    elif way == 1:
        pair = g.emit("tuple", [x, g.value(S32, ())])
        g.result(g.emit("opt-barrier", [pair]))
    elif way == 2:
        token = g.emit("after-all", [g.emit("after-all", shape=TOKEN)], shape=TOKEN)
        g.result(g.emit("add-dependency", [x, token]))
    elif way == 3:
        shape = TupleShape((x.shape, x.shape, array(U32, ())))
        start = g.emit("copy-start", [x], shape=shape)
        g.result(g.emit("copy-done", [start], shape=x.shape))
    else:
        sides = '{kind="sharding", entry={maximal device=0}, exit={maximal device=0}}'
        g.result(g.emit("domain", [x], shape=x.shape, domain=sides))


# --- by index -------------------------------------------------------------------------------------


def _starts(g: Cases, dims: Sequence[int]) -> list[Instruction]:
    et = g.pick(*_INDEX_TYPES)
    return [g.indices((), -3 if et.is_signed else 0, n + 2, et) for n in dims]


def _dynamic_slice(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims()
    sizes = tuple(g.rng.randint(0 if g.chance(0.1) else min(n, 1), n) for n in dims)
    x = g.value(et, dims)
    g.result(g.emit("dynamic-slice", [x, *_starts(g, dims)], shape=array(et, sizes),
                    dynamic_slice_sizes=sizes))  # fmt: skip


def _dynamic_update_slice(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims()
    sizes = tuple(g.rng.randint(0 if g.chance(0.1) else min(n, 1), n) for n in dims)
    x, update = g.value(et, dims), g.value(et, sizes)
    g.result(g.emit("dynamic-update-slice", [x, update, *_starts(g, dims)]))


class _Lookup:
    """Dimension numbers that gather and scatter share: of a random lookup into an array.

    dims: of the array looked into. index: of the indices. window: which dimensions of the array a
    slice keeps. slices: the sizes of a slice. outside: dimensions of the result or updates that
    are of the slice.
    """

    def __init__(self, g: Cases) -> None:
        rng = g.rng
        self.dims = g.dims(1, 4) if not g.is_large else (40, 50)
        rank = len(self.dims)
        order = list(range(rank))
        rng.shuffle(order)
        batches = rng.choice((0, 0, 1, 2)) if rank > 1 else 0
        batches = min(batches, rank - 1)
        indexed = rng.randint(1, rank - batches)
        self.batch = sorted(order[:batches])
        self.indexed = order[batches : batches + indexed]
        dropped = [d for d in range(rank) if d not in self.batch and g.chance(0.5)]
        self.dropped = dropped
        self.slices = tuple(
            min(n, 1) if d in self.batch or d in dropped else rng.randint(min(n, 1), n)
            for d, n in enumerate(self.dims)
        )
        self.window = [self.slices[d] for d in range(rank) if d not in (*self.batch, *dropped)]
        # Batches of the indices, in any places among their dimensions.
        free = [g.size(7) for _ in range(rng.randint(0, 2))]
        if g.is_large:
            free = [3000]
        outer = [*((self.dims[d], d) for d in self.batch), *((n, None) for n in free)]
        rng.shuffle(outer)
        self.outer = [n for n, _ in outer]
        places = {d: at for at, (_, d) in enumerate(outer) if d is not None}
        self.vector = rng.randint(0, len(self.outer))
        index = list(self.outer)
        if indexed == 1 and g.chance(0.4):
            self.vector = len(index)  # the indices themselves, without a dimension for the vector
        else:
            index.insert(self.vector, indexed)
        self.index = tuple(index)
        has_vector = len(index) > len(self.outer)
        self.index_batch = [
            places[d] + (has_vector and places[d] >= self.vector) for d in self.batch
        ]
        total = len(self.outer) + len(self.window)
        self.offsets = sorted(rng.sample(range(total), len(self.window)))
        sizes = iter(self.outer)
        window = iter(self.window)
        self.shape = tuple(next(window if d in self.offsets else sizes) for d in range(total))

    def indices(self, g: Cases) -> Instruction:
        et = g.pick(*_INDEX_TYPES)
        return g.indices(self.index, -2 if et.is_signed else 0, max(self.dims) + 1, et)


def _gather(g: Cases) -> None:
    how = _Lookup(g)
    x = g.value(g.type(lambda _: True), how.dims)
    g.result(
        g.emit(
            "gather", [x, how.indices(g)], offset_dims=tuple(how.offsets),
            collapsed_slice_dims=tuple(how.dropped), start_index_map=tuple(how.indexed),
            operand_batching_dims=tuple(how.batch),
            start_indices_batching_dims=tuple(how.index_batch), index_vector_dim=how.vector,
            slice_sizes=how.slices,
        )
    )  # fmt: skip


def _scatter(g: Cases) -> None:
    how = _Lookup(g)
    et = g.type(lambda t: not t.is_complex)
    names = ("and", "or", "maximum") if et.is_pred else ("add", "maximum", "minimum", "replace")
    if et.is_integer:
        names = (*names, "multiply", "xor")
    name = g.rng.choice(names)
    kind = "whole" if name == "add" else "edges"
    # XLA rounds to 8 bits after each addition.
    g.on_xla &= not (name == "add" and et.is_float and et.bits < 16)
    x, updates = g.value(et, how.dims, kind), g.value(et, how.shape, kind)
    body = (
        g.body("replace", [et, et], lambda a, b: b) if name == "replace" else g.combiner(name, et)
    )
    made = g.emit(
        "scatter", [x, how.indices(g), updates], update_window_dims=tuple(how.offsets),
        inserted_window_dims=tuple(how.dropped), scatter_dims_to_operand_dims=tuple(how.indexed),
        input_batching_dims=tuple(how.batch), scatter_indices_batching_dims=tuple(how.index_batch),
        index_vector_dim=how.vector, to_apply=body,
    )  # fmt: skip
    g.result(made, rtol=0.5 if name == "add" and et.is_float and et.bits < 16 else 0.0)


def _scatter_many(g: Cases) -> None:
    """Scatter into several arrays at once."""
    how, types = _Lookup(g), [g.pick("s32", "f32", "s8"), g.pick("f64", "u32", "bf16")]
    xs = [g.value(t, how.dims) for t in types]
    updates = [g.value(t, how.shape) for t in types]
    body = g.body("both", [*types, *types], lambda a, b, c, d: g.emit(
        "tuple", [g.emit("maximum", [a, c]), g.emit("minimum", [b, d])]))  # fmt: skip
    g.result(
        g.emit(
            "scatter", [*xs, how.indices(g), *updates], update_window_dims=tuple(how.offsets),
            inserted_window_dims=tuple(how.dropped),
            scatter_dims_to_operand_dims=tuple(how.indexed), input_batching_dims=tuple(how.batch),
            scatter_indices_batching_dims=tuple(how.index_batch), index_vector_dim=how.vector,
            to_apply=body,
        )
    )  # fmt: skip


# --- dynamic dimensions ---------------------------------------------------------------------------


def _dynamic(g: Cases) -> None:
    """Set a dimension's size, compute with what is left, and look at its size."""
    et = g.type(lambda t: t.is_integer and t.bits >= 8)
    dims = g.dims(1, 3, empty=False)
    d = g.rng.randrange(len(dims))
    size = g.indices((), 0, dims[d], S32)
    x = g.emit("set-dimension-size", [g.value(et, dims), size], dimensions=(d,))
    y = x
    if g.chance(0.6):
        y = g.emit(g.rng.choice(("negate", "not", "copy")), [x])
    if g.chance(0.4):
        y = g.emit("add", [y, x])
    g.results.append(g.emit("get-dimension-size", [y], dimensions=(d,)))
    order = list(range(len(dims)))
    g.rng.shuffle(order)
    if g.chance(0.3):
        y = g.emit("transpose", [y], dimensions=tuple(order))
    name = g.rng.choice(("add", "maximum"))
    init = g.scalar(et, 0 if name == "add" else ml_dtypes.iinfo(et.dtype).min)
    over = g.some_dims(len(dims), 0.7)
    made = g.emit("reduce", [y, init], dimensions=over, to_apply=g.combiner(name, et))
    shape = made.shape
    assert isinstance(shape, ArrayShape)
    if shape.is_dynamic:
        g.may_nest = False
    g.results.append(made)


def _named() -> Iterator[tuple[str, Maker]]:
    for opcode in _UNARY:
        yield opcode, _elementwise(opcode, 1)
    for opcode in _BINARY:
        yield opcode, _elementwise(opcode, 2)


MAKERS: dict[str, Maker] = {
    **dict(_named()),
    "compare": _compare, "select": _select, "clamp": _clamp, "complex": _complex,
    "convert": _convert, "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision, "stochastic-convert": _stochastic_convert, "map": _map,
    "chain": _chain, "iota": _iota, "broadcast": _broadcast, "reshape": _reshape,
    "transpose": _transpose, "reverse": _reverse, "slice": _slice, "pad": _pad,
    "concatenate": _concatenate, "same": _same, "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice, "gather": _gather, "scatter": _scatter,
    "scatter-many": _scatter_many, "dynamic": _dynamic,
}  # fmt: skip
