"""Random valid modules, small and varied: `generate(seed)` builds one through the IR.

Values are chosen so that two correct implementations agree: floats start as small whole numbers,
and an operation that jumps (floor, compare, convert to an integer, sort) is only applied where the
floats are exact, which is tracked through a bound on their size.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.ir import Computation, Instruction, Module
from hlo.ops import OPS
from hlo.ops.attrs import PadDim, SliceDim, WindowDim
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

_TYPES = [ELEMENT_TYPES[n] for n in (
    "pred", "s8", "s16", "s32", "s64", "u8", "u32", "u64", "f16", "bf16", "f32", "f32", "f64",
)]  # fmt: skip
# Whole numbers up to here are exact in a type.
_EXACT = {
    "f64": 2.0**53, "f32": 2.0**24, "f16": 2.0**11, "bf16": 2.0**8, "f8e4m3fn": 16.0, "f8e5m2": 8.0,
}  # fmt: skip
_MAX_ELEMENTS = 700

Production = Callable[[Any, Instruction], None]


class Generator:
    """Builds one module. A production adds operations on a value, or none where they do not fit."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.module = Module(f"generated_{seed}")
        self.comp = Computation("main")
        self.pool: list[Instruction] = []
        # Floats that are whole and at most this large; floats without an entry are not exact.
        self.bound: dict[Instruction, float] = {}
        self.productions = PRODUCTIONS

    def build(self, size: int) -> Module:
        for number in range(self.rng.randint(1, 3)):
            shape = self.shape()
            inst = self.emit("parameter", (), {"number": number}, shape=shape)
            self.bound[inst] = 4.0
        self.grow(size)
        results = self.rng.sample(self.pool, min(len(self.pool), self.rng.randint(1, 4)))
        self.comp.set_root(self.emit("tuple", results, {}))
        self.module.add(self.comp, entry=True)
        return self.module

    def grow(self, size: int) -> None:
        """Apply some productions to values of the pool."""
        for _ in range(size):
            self.rng.choice(self.productions)(self, self.rng.choice(self.pool))

    # --- pieces ---------------------------------------------------------------------------------

    def shape(self, et: ElementType | None = None) -> ArrayShape:
        rank = self.rng.choice((0, 1, 1, 2, 2, 3, 4))
        dims = [self.rng.choice((1, 2, 3, 4, 5, 0 if self.rng.random() < 0.1 else 2))
                for _ in range(rank)]  # fmt: skip
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
        """Append an operation; without `shape` it has the shape that inference gives."""
        made = Instruction(opcode, opcode, shape or array(PRED, ()), operands, attrs)
        if shape is None:
            made.shape = OPS[opcode].infer(made)
        inst = self.comp.add(made)
        if isinstance(inst.shape, ArrayShape):
            if bound is not None and bound <= _EXACT.get(inst.shape.element_type.name, math.inf):
                self.bound[inst] = bound
            if inst.shape.num_elements <= _MAX_ELEMENTS:
                self.pool.append(inst)
        return inst

    def like(self, inst: Instruction) -> Instruction:
        """Return a value of the same shape, possibly the same one."""
        return self.rng.choice([i for i in self.pool if i.shape == inst.shape])

    def type(self, inst: Instruction) -> ElementType:
        return self.array(inst).element_type

    def array(self, inst: Instruction) -> ArrayShape:
        assert isinstance(inst.shape, ArrayShape)
        return inst.shape

    def exact(self, inst: Instruction) -> bool:
        return not self.type(inst).is_float or inst in self.bound

    def size(self, *insts: Instruction) -> float | None:
        """Return the largest bound of some values, or None when one is not exact."""
        if not all(map(self.exact, insts)):
            return None
        return max((self.bound.get(i, 0.0) for i in insts), default=0.0)

    def identity(self, opcode: str, et: ElementType) -> Instruction:
        """Return what a reduction starts from; XLA assumes that it changes nothing."""
        if opcode in ("maximum", "minimum"):
            low, high = value_range(et)
            return self.scalar(et, low if opcode == "maximum" else high)
        return self.scalar(et, opcode == "and")

    def scalar(self, et: ElementType, value: float) -> Instruction:
        literal = Literal(array(et, ()), np.asarray(value).astype(et.dtype))
        return self.emit("constant", (), {"literal": literal}, shape=array(et, ()),
                         bound=abs(value))  # fmt: skip

    def body(self, opcode: str, et: ElementType) -> Computation:
        """Return a new computation of the module: `opcode` on two scalars."""
        comp = Computation(f"{opcode}_{et}")
        shape = array(et, ())
        params = [comp.create("parameter", shape, (), {"number": n}) for n in range(2)]
        comp.create(opcode, shape, params, root=True)
        return self.module.add(comp)


def value_range(et: ElementType) -> tuple[float, float]:
    """Return the least and the largest value of a type."""
    if et.is_pred:
        return 0, 1
    if et.is_float:
        return -math.inf, math.inf
    if et.is_signed:
        return -(2 ** (et.bits - 1)), 2 ** (et.bits - 1) - 1
    return 0, 2**et.bits - 1


# --- productions --------------------------------------------------------------------------------


def unary(g: Generator, x: Instruction) -> None:
    et = g.type(x)
    if et.is_pred:
        g.emit("not", [x], {})
    elif et.is_integer:
        # XLA folds count-leading-zeros of a negative constant to a negative number.
        names = ["negate", "abs", "sign"] if et.is_signed else ["count-leading-zeros"]
        names += ["not", "popcnt"]
        g.emit(g.rng.choice(names), [x], {})
    elif g.exact(x) and g.rng.random() < 0.8:
        names = ["negate", "abs", "floor", "ceil", "round-nearest-even", "sign", "copy"]
        g.emit(g.rng.choice(names), [x], {}, bound=max(1.0, g.bound.get(x, 0.0)))
    else:
        g.emit(g.rng.choice(["tanh", "logistic", "cosine", "sine"]), [x], {})


_INTEGER_BINARY = """add subtract multiply divide remainder maximum minimum and or xor shift-left
shift-right-arithmetic shift-right-logical""".split()


def binary(g: Generator, x: Instruction) -> None:
    y, et = g.like(x), g.type(x)
    if not et.is_float:
        names = ["and", "or", "xor"] if et.is_pred else _INTEGER_BINARY
        g.emit(g.rng.choice(names), [x, y], {})
        return
    name = g.rng.choice(["add", "subtract", "multiply", "maximum", "minimum"])
    size = g.size(x, y)
    if size is not None:
        size = {"add": 2 * size, "subtract": 2 * size, "multiply": size * size}.get(name, size)
        if size > _EXACT[et.name]:
            return
    g.emit(name, [x, y], {}, bound=size)


def _compare(g: Generator, x: Instruction) -> None:
    y = g.like(x)
    if g.exact(x) and g.exact(y):
        direction = g.rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"])
        g.emit("compare", [x, y], {"direction": direction})


def _select(g: Generator, x: Instruction) -> None:
    predicates = [i for i in g.pool if g.type(i).is_pred]
    if not predicates:
        return
    p = g.rng.choice(predicates)
    if g.array(p).rank and g.array(p).dims != g.array(x).dims:
        return
    y = g.like(x)
    g.emit("select", [p, x, y], {}, bound=g.size(x, y))


def _clamp(g: Generator, x: Instruction) -> None:
    if not g.type(x).is_pred:
        low, high = g.scalar(g.type(x), 0), g.scalar(g.type(x), 3)
        g.emit("clamp", [low, x, high], {}, bound=3.0 if g.exact(x) else None)


def _convert(g: Generator, x: Instruction) -> None:
    et = g.rng.choice(_TYPES)
    size = g.size(x)
    if et is not g.type(x) and (size is None or g.type(x).bits > 16 or size > 100):
        if et.is_float and size is None:
            g.emit("convert", [x], {}, shape=g.array(x).with_type(et))
        return
    if size is not None and g.type(x).is_float and not et.is_float and not et.is_signed:
        return  # negative to unsigned is not a conversion that all targets agree on
    limit = size if g.type(x).is_float else 2.0 ** g.type(x).bits
    g.emit("convert", [x], {}, shape=g.array(x).with_type(et), bound=limit)


def _broadcast(g: Generator, x: Instruction) -> None:
    dims = list(g.array(x).dims)
    rank = len(dims) + g.rng.randint(0 if dims else 1, 2)
    places = sorted(g.rng.sample(range(rank), len(dims)))
    out = [g.rng.randint(1, 3) for _ in range(rank)]
    for place, d in zip(places, dims, strict=True):
        out[place] = d
    g.emit("broadcast", [x], {"dimensions": tuple(places)}, shape=array(g.type(x), out),
                  bound=g.size(x))  # fmt: skip


def _reshape(g: Generator, x: Instruction) -> None:
    left, dims = g.array(x).num_elements, []
    while left > 1 and len(dims) < 3:
        d = g.rng.choice([n for n in range(1, left + 1) if left % n == 0])
        dims.append(d)
        left //= d
    g.emit("reshape", [x], {}, shape=array(g.type(x), [*dims, left]), bound=g.size(x))


def _transpose(g: Generator, x: Instruction) -> None:
    order = list(range(g.array(x).rank))
    g.rng.shuffle(order)
    g.emit("transpose", [x], {"dimensions": tuple(order)}, bound=g.size(x))


def reverse(g: Generator, x: Instruction) -> None:
    dims = tuple(d for d in range(g.array(x).rank) if g.rng.random() < 0.5)
    g.emit("reverse", [x], {"dimensions": dims}, bound=g.size(x))


def _slice(g: Generator, x: Instruction) -> None:
    parts = []
    for d in g.array(x).dims:
        start = g.rng.randint(0, d)
        parts.append(SliceDim(start, g.rng.randint(start, d), g.rng.randint(1, 3)))
    shape = array(g.type(x), [-(-(p.limit - p.start) // p.stride) for p in parts])
    g.emit("slice", [x], {"slice": tuple(parts)}, shape=shape, bound=g.size(x))


def _pad(g: Generator, x: Instruction) -> None:
    if not g.array(x).rank:
        return  # the text format has no way to write no padding
    dims = tuple(
        PadDim(g.rng.randint(-1, 2), g.rng.randint(0, 2), g.rng.randint(0, 1))
        for _ in g.array(x).dims
    )
    grown = [
        d + p.low + p.high + max(d - 1, 0) * p.interior
        for d, p in zip(g.array(x).dims, dims, strict=True)
    ]
    if any(d < 0 for d in grown):
        return
    value = g.scalar(g.type(x), 1)
    size = g.size(x)
    size = None if size is None else max(size, 1.0)
    g.emit("pad", [x, value], {"padding": dims}, bound=size)


def _concatenate(g: Generator, x: Instruction) -> None:
    if g.array(x).rank:
        y, dim = g.like(x), g.rng.randrange(g.array(x).rank)
        g.emit("concatenate", [x, y], {"dimensions": (dim,)}, bound=g.size(x, y))


def _iota(g: Generator, x: Instruction) -> None:
    shape = g.shape(g.rng.choice([t for t in _TYPES if not t.is_pred]))
    if shape.rank:
        attrs = {"iota_dimension": g.rng.randrange(shape.rank)}
        g.emit("iota", [], attrs, shape=shape, bound=5.0)


def _reduce(g: Generator, x: Instruction) -> None:
    if not g.array(x).rank:
        return
    et = g.type(x)
    name = g.rng.choice(["and", "or"] if et.is_pred else ["add", "maximum", "minimum"])
    init = g.identity(name, et)
    dims = tuple(d for d in range(g.array(x).rank) if g.rng.random() < 0.6)
    size = g.size(x)
    if size is not None and name == "add":
        size *= max(1, g.array(x).num_elements)
    if et.is_float and et.bits < 32 and (size is None or size > _EXACT[et.name]):
        return  # every order of a narrow sum rounds differently
    attrs = {"dimensions": dims, "to_apply": g.body(name, et)}
    g.emit("reduce", [x, init], attrs, bound=size)


def _reduce_window(g: Generator, x: Instruction) -> None:
    if g.type(x).is_pred or not g.array(x).rank or g.size(x) is None:
        return
    et = g.type(x)
    window = tuple(
        WindowDim(size=g.rng.randint(1, 3), stride=g.rng.randint(1, 2), pad_low=g.rng.randint(0, 1),
                  pad_high=g.rng.randint(0, 1), rhs_dilate=g.rng.randint(1, 2))
        for _ in g.array(x).dims
    )  # fmt: skip
    attrs = {"window": window, "to_apply": g.body("maximum", et)}
    g.emit("reduce-window", [x, g.identity("maximum", et)], attrs)


def _dot(g: Generator, x: Instruction) -> None:
    et = g.type(x)
    if g.array(x).rank != 2 or et.is_pred or et.bits < 32:
        return
    y, dim = g.like(x), g.rng.randrange(2)
    size = g.size(x, y)
    attrs = {"lhs_contracting_dims": (dim,), "rhs_contracting_dims": (dim,)}
    bound = None if size is None else size * size * max(1, g.array(x).dims[dim])
    made = Instruction("dot", "dot", g.array(x), [x, y], attrs)
    shape = OPS["dot"].infer(made)
    made.drop_edges()
    g.emit("dot", [x, y], attrs, shape=shape, bound=bound)


def _dynamic_slice(g: Generator, x: Instruction) -> None:
    if not g.array(x).rank:
        return
    starts = [g.scalar(S32, g.rng.randint(-2, 6)) for _ in g.array(x).dims]
    sizes = tuple(g.rng.randint(0, d) for d in g.array(x).dims)
    g.emit("dynamic-slice", [x, *starts], {"dynamic_slice_sizes": sizes},
                  shape=array(g.type(x), sizes), bound=g.size(x))  # fmt: skip


def _dynamic_update_slice(g: Generator, x: Instruction) -> None:
    # Not a slice of the operand: XLA:CPU then reads what it has overwritten.
    if not g.array(x).rank:
        return
    sizes = [g.rng.randint(0, d) for d in g.array(x).dims]
    update = g.emit("broadcast", [g.scalar(g.type(x), 1)], {"dimensions": ()},
                    shape=array(g.type(x), sizes), bound=1.0)  # fmt: skip
    starts = [g.scalar(S32, g.rng.randint(-2, 6)) for _ in sizes]
    g.emit("dynamic-update-slice", [x, update, *starts], {}, bound=g.size(x, update))


def _sort(g: Generator, x: Instruction) -> None:
    if g.type(x).is_pred or not g.array(x).rank or not g.exact(x):
        return
    et = g.type(x)
    comp = Computation(f"less_{et}")
    params = [comp.create("parameter", array(et, ()), (), {"number": n}) for n in range(2)]
    less = Instruction("compare", "compare", array(PRED, ()), params, {"direction": "LT"})
    comp.add(less, root=True)
    attrs = {"dimensions": (g.rng.randrange(g.array(x).rank),), "is_stable": True,
             "to_apply": g.module.add(comp)}  # fmt: skip
    g.emit("sort", [x], attrs, bound=g.size(x))


def through_tuple(g: Generator, x: Instruction) -> None:
    y = g.rng.choice(g.pool)
    made = g.emit("tuple", [x, y], {})
    assert isinstance(made.shape, TupleShape)
    at = g.rng.randrange(2)
    g.emit("get-tuple-element", [made], {"index": at}, bound=g.size((x, y)[at]))


def _call(g: Generator, x: Instruction) -> None:
    if g.type(x).is_pred or not g.exact(x):
        return
    comp = Computation("doubled")
    p = comp.create("parameter", x.shape, (), {"number": 0})
    comp.create("maximum", x.shape, [p, p], root=True)
    g.emit("call", [x], {"to_apply": g.module.add(comp)}, bound=g.size(x))


PRODUCTIONS: list[Production] = [
    unary, unary, binary, binary, binary, _compare, _select, _clamp, _convert, _broadcast,
    _reshape, _transpose, reverse, _slice, _pad, _concatenate, _iota, _reduce, _reduce_window,
    _dot, _dynamic_slice, _dynamic_update_slice, _sort, through_tuple, _call,
]  # fmt: skip


def generate(seed: int, size: int = 12) -> Module:
    """Return a valid module of about `size` operations; the same one for the same seed."""
    return Generator(seed).build(size)


def arguments(seed: int, module: Module) -> list[np.ndarray]:
    """Return whole numbers in [-4, 4] (from 0 where the type has no sign) for the parameters."""
    rng = np.random.default_rng(seed)
    found = []
    for shape in module.entry.parameter_shapes:
        assert isinstance(shape, ArrayShape)
        et = shape.element_type
        low, high = value_range(et)
        values = rng.integers(max(-4, low), min(4, high) + 1, shape.dims)
        found.append(np.asarray(values).astype(et.dtype))
    return found
