"""Builds modules of operations on random values: operands of any shape, uses of any result."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from hlo.ir import Computation, Instruction, Module
from hlo.ops import OPS
from hlo.ops.attrs import SliceDim
from hlo.values.literal import Literal
from hlo.values.types import (
    ELEMENT_TYPES,
    PRED,
    S32,
    ArrayShape,
    ElementType,
    Shape,
    TupleShape,
    array,
)

_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 65)
_MOST_ELEMENTS = 3000
# Enough for kernels to be shared out over threads.
_LARGE = 150_000
_WIDENED = {"bf16": "f32", "f16": "f32", "f32": "f64", "s8": "s32", "u8": "u32", "s16": "s64"}


class Cases:
    """Builds one module."""

    def __init__(self, seed: int, name: str = "") -> None:
        self.rng = random.Random(f"{name} {seed}")
        self.data = np.random.default_rng(self.rng.getrandbits(64))
        self.module = Module(f"ops_{seed}")
        self.comp = Computation("operations")
        self.args: list[Any] = []
        self.results: list[Instruction] = []
        self.rtol: float | None = 0.0
        # False where XLA:CPU computes something else, and why is known.
        self.on_xla = True
        # How often numbers below the normal ones are among the values of a type.
        self.subnormal = 0.25
        # False where control flow around the operation has no meaning, or cannot be compared.
        self.may_nest = True
        self.is_large = self.rng.random() < 0.04
        # Whether sums are of whole numbers wherever these are exact.
        self.is_exact = False
        # So many products of elements a contraction makes, about.
        self.most_products = 200_000

    # --- building -------------------------------------------------------------------------------

    def emit(
        self,
        opcode: str,
        operands: Sequence[Instruction] = (),
        *,
        shape: Shape | ElementType = PRED,
        fixed: bool = False,
        **attrs: Any,
    ) -> Instruction:
        """Append an operation. Text of attributes is read as in a module.

        shape: where inference needs the declared shape, or element type, that; `fixed` if it is the
        shape of the result.
        """
        spec = OPS[opcode]
        values = {
            k: spec.attrs[k].codec.parse(v) if isinstance(v, str) else v for k, v in attrs.items()
        }
        declared = array(shape, ()) if isinstance(shape, ElementType) else shape
        made = Instruction(opcode, opcode, declared, operands, values)
        if not fixed:
            made.shape = spec.infer(made)
        return self.comp.add(made)

    def result(self, made: Instruction, *, rtol: float | None = 0.0) -> None:
        """Make an operation's results results of the module, or what is done with them.

        rtol: what they may be off by; None is one rounding.
        """
        if rtol is None:
            self.rtol = self.rtol or None
        elif rtol:
            self.rtol = max(rtol, self.rtol or 0.0)
        if isinstance(made.shape, TupleShape):
            for n in range(len(made.shape.elements)):
                self.result(self.emit("get-tuple-element", [made], index=n))
        elif isinstance(made.shape, ArrayShape):
            self.results.append(self._used(made) if self.rng.random() < 0.4 else made)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, *names: str) -> ElementType:
        """Return one of some element types."""
        return ELEMENT_TYPES[self.rng.choice(names)]

    def type(self, wanted: Callable[[ElementType], bool]) -> ElementType:
        """Return an element type; those that programs use are more likely."""
        common = [ELEMENT_TYPES[n] for n in ("pred", "s32", "u8", "bf16", "f32", "f32", "f64")]
        choice = [t for t in common if wanted(t)] if self.chance(0.4) else []
        return self.rng.choice(choice or [t for t in ELEMENT_TYPES.values() if wanted(t)])

    def dims(self, least: int = 0, most: int = 6, *, empty: bool = True) -> tuple[int, ...]:
        """Return dimensions of any rank between two."""
        if self.is_large and most >= 1:
            rank = self.rng.randint(max(least, 1), min(most, max(least, 3)))
            sizes = [1 + self.rng.randrange(5) for _ in range(rank)]
            sizes[self.rng.randrange(rank)] = _LARGE // math.prod(sizes)
            return tuple(sizes)
        rank = self.rng.randint(least, most)
        room, sizes = _MOST_ELEMENTS, []
        for _ in range(rank):
            size = self.rng.choice([s for s in _SIZES if s <= max(1, room)])
            room //= size
            sizes.append(size)
        if sizes and empty and self.chance(0.05):
            sizes[self.rng.randrange(rank)] = 0
        self.rng.shuffle(sizes)
        return tuple(sizes)

    def size(self, most: int = 9) -> int:
        return self.rng.choice([s for s in _SIZES if s <= most])

    def sizes(self, small: Sequence[int]) -> Sequence[int]:
        """Return the sizes to choose from where a maker has its own."""
        return small

    def some_dims(self, rank: int, p: float = 0.5) -> tuple[int, ...]:
        """Return some dimensions of an array, in order."""
        return tuple(d for d in range(rank) if self.chance(p))

    def body(
        self, name: str, types: Sequence[ElementType], build: Callable[..., Instruction]
    ) -> Computation:
        """Return a computation on scalars of some types. `build` takes the parameters."""
        outer, self.comp = self.comp, Computation(name)
        try:
            scalars = [
                self.emit("parameter", shape=array(t, ()), number=n) for n, t in enumerate(types)
            ]
            made = build(*scalars)
            self.comp.set_root(self._with_table(made) if self.chance(0.03) else made)
            return self.module.add(self.comp)
        finally:
            self.comp = outer

    def _with_table(self, x: Instruction) -> Instruction:
        """Return the same number, by way of an array that does not change it."""
        et = x.array_shape.element_type if x.shape.is_array else None
        if et is None or not (et.is_integer or et.is_pred):
            return x
        table = self.constant(np.zeros(self.rng.randint(1, 5), et.dtype))
        one = self.emit("slice", [table], slice=(SliceDim(0, 1),))
        return self.emit("or", [x, self.emit("reshape", [one], shape=array(et, ()))])

    def combiner(self, opcode: str, et: ElementType) -> Computation:
        """Return the computation that is one operation on two scalars."""
        return self.body(opcode, [et, et], lambda a, b: self.emit(opcode, [a, b]))

    # --- values ---------------------------------------------------------------------------------

    def scalar(self, et: ElementType, value: Any) -> Instruction:
        return self.constant(np.asarray(value).astype(et.dtype))

    def constant(self, values: np.ndarray) -> Instruction:
        literal = Literal(array(_type_of(values), values.shape), values)
        return self.emit("constant", shape=literal.shape, fixed=True, literal=literal)

    def parameter(self, values: np.ndarray) -> Instruction:
        shape = array(_type_of(values), values.shape)
        number = len(self.args)
        self.args.append(values)
        return self.emit("parameter", shape=shape, number=number)

    def given(self, values: np.ndarray) -> Instruction:
        """Return an operand that has these values."""
        return self.parameter(values)

    def value(self, et: ElementType, dims: Sequence[int], kind: str = "edges") -> Instruction:
        """Return an operand of a shape: an argument, a constant, or something made of one.

        kind: see `numbers`. What is made has no other values.
        """
        dims = tuple(dims)
        if self.is_large and math.prod(dims) > _MOST_ELEMENTS:
            return self.parameter(self.numbers(et, dims, kind))
        if self.chance(0.5):
            return self._source(et, dims, kind)
        return self._made_of_others(et, dims, kind)

    def _made_of_others(self, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
        return self.rng.choice(_PRODUCERS)(self, et, dims, kind)

    def _source(self, et: ElementType, dims: Sequence[int], kind: str) -> Instruction:
        values = self.numbers(et, dims, kind)
        is_constant = values.size <= 100 and self.chance(0.15)
        return self.constant(values) if is_constant else self.parameter(values)

    def indices(self, dims: Sequence[int], low: int, high: int, et: ElementType) -> Instruction:
        """Return integers from `low` to `high`, as far as their type has them."""
        limits = ml_dtypes.iinfo(et.dtype)
        low, high = max(low, int(limits.min)), min(high, int(limits.max))
        return self.parameter(np.asarray(self.data.integers(low, high + 1, dims)).astype(et.dtype))

    def numbers(self, et: ElementType, dims: Sequence[int], kind: str) -> np.ndarray:
        """Return random values of a type.

        edges: any, with what breaks things among them. tame: of ordinary size. whole: small and
        whole, so that sums are exact. unit: between -1 and 1.
        """
        dims = tuple(dims)
        if et.is_complex:
            part = ELEMENT_TYPES["f32" if et.name == "c64" else "f64"]
            real, imag = (self.numbers(part, dims, kind) for _ in range(2))
            return np.asarray(real + 1j * imag).astype(et.dtype) if kind != "edges" else _joined(
                real, imag, et)  # fmt: skip
        if et.is_pred:
            return np.asarray(self.data.integers(0, 2, dims)).astype(np.bool_)
        if et.is_integer:
            return self._integers(et, dims, kind)
        if kind == "whole":
            return np.asarray(self.data.integers(-3, 4, dims)).astype(et.dtype)
        if kind == "unit":
            return np.asarray(self.data.uniform(-1, 1, dims)).astype(et.dtype)
        values = np.asarray(self.data.standard_normal(dims)).astype(et.dtype)
        if kind == "edges":
            scale = self.data.choice([1.0, 1.0, 8.0, 100.0, 1e-3], dims)
            with np.errstate(over="ignore"):
                values = np.asarray(values.astype(np.float64) * scale).astype(et.dtype)
            self._put(values, self._float_edges(et))
        return values

    def _integers(self, et: ElementType, dims: tuple[int, ...], kind: str) -> np.ndarray:
        low = -(1 << (et.bits - 1)) if et.is_signed else 0
        high = (1 << (et.bits - 1)) - 1 if et.is_signed else (1 << et.bits) - 1
        near = 3 if kind in ("whole", "unit") else 9
        values = self.data.integers(max(low, -near), min(high, near) + 1, dims)
        made = np.asarray(values).astype(et.dtype)
        if kind == "edges":
            some = [low, high, low + 1, high - 1, 0, min(1, high), high // 3]
            some = [v for v in some if low <= v <= high]
            self._put(made, np.array(some, object).astype(et.dtype))
        return made

    def _float_edges(self, et: ElementType) -> np.ndarray:
        info = ml_dtypes.finfo(et.dtype)
        words = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan]
        words += [float(info.max), float(info.min), float(info.smallest_normal)]
        # XLA:CPU flushes what is below the normal numbers of a machine's types to zero.
        if et.bits < 16 or self.chance(self.subnormal):
            words += [float(info.smallest_subnormal), -float(info.smallest_subnormal) * 3]
            self.on_xla &= et.bits < 16
        self.on_xla &= et.name != "f8e8m0fnu"  # its smallest is below f32's normal numbers
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(words, np.float64).astype(et.dtype)

    def _put(self, values: np.ndarray, edges: np.ndarray) -> None:
        """Put edge values at about a third of the places."""
        flat = values.reshape(-1)
        places = self.data.random(flat.shape) < 0.3
        flat[places] = self.data.choice(edges, int(places.sum()))

    # --- what is done with a result -------------------------------------------------------------

    def _used(self, x: Instruction) -> Instruction:
        shape = x.shape
        assert isinstance(shape, ArrayShape)
        if shape.is_dynamic:
            return x
        way, rank = self.rng.randrange(7), shape.rank
        if way == 0 and not shape.element_type.is_pred:
            return self.emit("negate", [x])
        if way == 1:
            order = list(range(rank))
            self.rng.shuffle(order)
            return self.emit("transpose", [x], dimensions=tuple(order))
        if way == 2:
            return self.emit("reverse", [x], dimensions=self.some_dims(rank))
        if way == 3:
            flat = array(shape.element_type, [shape.num_elements])
            return self.emit("reshape", [x], shape=flat)
        if way == 4:
            parts = tuple(SliceDim(n // 3, n, self.rng.randint(1, 2)) for n in shape.dims)
            return self.emit("slice", [x], slice=parts)
        if way == 5:
            p = self.value(PRED, shape.dims)
            return self.emit("select", [p, x, self.value(shape.element_type, shape.dims)])
        made = self.emit("tuple", [x, self.scalar(S32, 1)])
        return self.emit("get-tuple-element", [made], index=0)


def _type_of(values: np.ndarray) -> ElementType:
    return next(t for t in ELEMENT_TYPES.values() if t.dtype == values.dtype)


def _joined(real: np.ndarray, imag: np.ndarray, et: ElementType) -> np.ndarray:
    """Return complex numbers of parts; arithmetic would make one NaN two."""
    made = np.empty(real.shape, et.dtype)
    made.real, made.imag = real, imag
    return made


# --- operands made of others ----------------------------------------------------------------------

Producer = Callable[[Cases, ElementType, tuple[int, ...], str], Instruction]


def _transposed(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    order = list(range(len(dims)))
    g.rng.shuffle(order)
    sizes = [0] * len(dims)
    for to, of in enumerate(order):
        sizes[of] = dims[to]
    return g.emit("transpose", [g.value(et, sizes, kind)], dimensions=tuple(order))


def _reversed(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    return g.emit("reverse", [g.value(et, dims, kind)], dimensions=g.some_dims(len(dims)))


def _sliced(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    parts = []
    for n in dims:
        start, stride = g.rng.randint(0, 2), g.rng.choice((1, 1, 2))
        parts.append(SliceDim(start, start + (max(n, 1) - 1) * stride + 1 if n else start, stride))
    sizes = [p.limit + g.rng.randint(0, 2) for p in parts]
    return g.emit("slice", [g.value(et, sizes, kind)], slice=tuple(parts))


def _reshaped(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    flat = [math.prod(dims)] if g.chance(0.5) else [*dims, 1]
    return g.emit("reshape", [g.value(et, flat, kind)], shape=array(et, dims))


def _broadcast(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    kept = g.some_dims(len(dims), 0.6)
    x = g.value(et, [dims[d] for d in kept], kind)
    return g.emit("broadcast", [x], shape=array(et, dims), dimensions=kept)


def _converted(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    narrow = [n for n, wide in _WIDENED.items() if wide == et.name]
    if not narrow:
        return g.value(et, dims, kind)
    x = g.value(ELEMENT_TYPES[narrow[0]], dims, kind)
    return g.emit("convert", [x], shape=et)


def _selected(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    p = g.value(PRED, dims if g.chance(0.7) else ())
    return g.emit("select", [p, g.value(et, dims, kind), g.value(et, dims, kind)])


def _joined_parts(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    if not dims:
        return g.value(et, dims, kind)
    d = g.rng.randrange(len(dims))
    first = g.rng.randint(0, dims[d])
    parts = [g.value(et, (*dims[:d], n, *dims[d + 1 :]), kind) for n in (first, dims[d] - first)]
    return g.emit("concatenate", parts, dimensions=(d,))


def _of_tuple(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    pair = g.emit("tuple", [g.scalar(S32, 7), g.value(et, dims, kind)])
    return g.emit("get-tuple-element", [pair], index=1)


def _row(g: Cases, et: ElementType, dims: tuple[int, ...], kind: str) -> Instruction:
    """Take one of three, at an index that may be outside."""
    start = g.indices((), -2, 5, S32)
    x = g.value(et, (3, *dims), kind)
    zeros = [g.scalar(S32, 0)] * len(dims)
    made = g.emit("dynamic-slice", [x, start, *zeros], shape=array(et, (1, *dims)),
                  dynamic_slice_sizes=(1, *dims))  # fmt: skip
    return g.emit("reshape", [made], shape=array(et, dims))


_PRODUCERS: tuple[Producer, ...] = (
    _transposed, _reversed, _sliced, _reshaped, _broadcast, _converted, _selected, _joined_parts,
    _of_tuple, _row,
)  # fmt: skip
