"""Random modules in which sizes of arrays are known at run time only.

`generate_dynamic(seed)` is `generate_nested` with arrays cut to sizes that are parameters, and with
what hands sizes on, or asks for them. Slices are left out, which may reach into padding, which is
anything, and padding by less than nothing, which may not fit.
"""

from __future__ import annotations

from typing import Any

from hlo.ir import Instruction, Module
from hlo.ops import OPS
from hlo.ops.attrs import ConvDims, WindowDim
from hlo.values.types import ELEMENT_TYPES, S32, ArrayShape, ElementType, Shape, array
from tests.generators import modules as generate
from tests.generators import nested as generate_nested
from tests.generators.modules import Production
from tests.generators.nested import Nested


class Dynamic(Nested):
    """Builds one module. Its first two parameters are sizes; they are brought inside bounds."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_narrow = False
        self.productions = [*generate.PRODUCTIONS, *generate_nested._FLAT,
                            *generate_nested._NESTED, *_DYNAMIC]  # fmt: skip

    def build(self, size: int) -> Module:
        shapes = [array(S32, ()), array(S32, ()), *(self.shape() for _ in range(2))]
        for number, shape in enumerate(shapes):
            inst = self.emit("parameter", (), {"number": number}, shape=shape)
            self.bound[inst] = 4.0
        for x in self.pool[2:4]:
            _set_size(self, x)
        self.grow(size)
        results = self.rng.sample(self.pool, min(len(self.pool), self.rng.randint(1, 4)))
        self.comp.set_root(self.emit("tuple", results, {}))
        self.module.add(self.comp, entry=True)
        return self.module

    def grow(self, size: int) -> None:
        # A fusion brings productions of its own.
        self.productions = [p for p in self.productions if p not in _LEFT_OUT]
        super().grow(size)

    def shape(self, et: ElementType | None = None) -> ArrayShape:
        names = ("f32", "f32", "s32", "s32", "bf16", "u8", "s4", "pred", "f64")
        rank = self.rng.choice((1, 1, 2, 2, 2, 3))
        dims = [self.rng.choice((1, 2, 3, 4, 5, 6, 8)) for _ in range(rank)]
        return array(et or ELEMENT_TYPES[self.rng.choice(names)], dims)


def _set_size(g: Dynamic, x: Instruction) -> None:
    """Cut an array that is known to be whole: what is cut already would grow into its padding."""
    if g.depth or x.opcode != "parameter":
        et = g.rng.choice((S32, ELEMENT_TYPES["f32"]))
        shape = array(et, g.array(x).dims or (4,))
        x = g.emit("iota", [], {"iota_dimension": 0}, shape=shape, bound=8.0)
    dims = [d for d, n in enumerate(g.array(x).dims) if n]
    if not dims:
        return
    d = g.rng.choice(dims)
    sizes = [i for i in g.pool if i.shape == array(S32, ())]
    n = g.rng.choice(sizes) if sizes else g.scalar(S32, 2)
    low, high = g.scalar(S32, 0), g.scalar(S32, g.array(x).dims[d])
    n = g.emit("clamp", [low, n, high], {}, bound=8.0)
    g.emit("set-dimension-size", [x, n], {"dimensions": (d,)}, bound=g.size(x))


def _get_size(g: Dynamic, x: Instruction) -> None:
    if g.array(x).rank:
        d = g.rng.randrange(g.array(x).rank)
        g.emit("get-dimension-size", [x], {"dimensions": (d,)}, bound=8.0)


def _reshape(g: Dynamic, x: Instruction) -> None:
    """Join two dimensions. Of one that is taken apart, it would be open which part varies."""
    dims = list(g.array(x).dims)
    if len(dims) > 1 and 1 not in dims:
        d = g.rng.randrange(1, len(dims))
        dims[d - 1 : d + 1] = [dims[d - 1] * dims[d]]
        g.emit("reshape", [x], {}, shape=array(g.type(x), dims), bound=g.size(x))


def _dynamic_reshape(g: Dynamic, x: Instruction) -> None:
    """Give the sizes of an array to other dimensions."""
    dims = g.array(x).dims
    order = list(range(len(dims)))
    g.rng.shuffle(order)
    if not order:
        return
    sizes = [g.emit("get-dimension-size", [x], {"dimensions": (d,)}, bound=8.0) for d in order]
    shape = array(g.type(x), [dims[d] for d in order], [True] * len(dims))
    g.emit("dynamic-reshape", [x, *sizes], {}, shape=shape, bound=g.size(x))


def _dot(g: Dynamic, x: Instruction) -> None:
    rank, et = g.array(x).rank, g.type(x)
    if not rank or et.is_pred or et.bits < 32:
        return
    y, d = g.like(x), g.rng.randrange(rank)
    attrs: dict[str, Any] = {"lhs_contracting_dims": (d,), "rhs_contracting_dims": (d,)}
    if rank > 1 and g.rng.random() < 0.4:
        batch = g.rng.choice([n for n in range(rank) if n != d])
        attrs |= {"lhs_batch_dims": (batch,), "rhs_batch_dims": (batch,)}
    _product(g, "dot", [x, y], attrs, g.array(x).dims[d])


_LABELS = ConvDims(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))  # b0f_0io->b0f


def _convolution(g: Dynamic, x: Instruction) -> None:
    """Move a window over the second of three dimensions."""
    shape = g.array(x)
    if shape.rank != 3 or g.type(x).name not in ("f32", "f64"):
        return
    features, size = shape.dims[2], g.rng.randint(1, min(3, shape.dims[1]) or 1)
    one = g.scalar(g.type(x), 1)
    filter_shape = array(g.type(x), (size, features, 2))
    filters = g.emit("broadcast", [one], {"dimensions": ()}, shape=filter_shape, bound=1.0)
    pad = g.rng.randint(0, 1)
    window = WindowDim(size=size, stride=g.rng.randint(1, 2), pad_low=pad, pad_high=pad)
    attrs = {"window": (window,), "dim_labels": _LABELS}
    _product(g, "convolution", [x, filters], attrs, size * features)


def _product(
    g: Dynamic, opcode: str, operands: list[Instruction], attrs: dict[str, Any], terms: int
) -> None:
    size = g.size(*operands)
    bound = None if size is None else size * size * max(1, terms)
    g.emit(opcode, operands, attrs, shape=_inferred(opcode, operands, attrs), bound=bound)


def _inferred(opcode: str, operands: list[Instruction], attrs: dict[str, Any]) -> Shape:
    made = Instruction(opcode, opcode, operands[0].shape, operands, attrs)
    shape = OPS[opcode].infer(made)
    made.drop_edges()
    return shape


def _scan(g: Dynamic, x: Instruction) -> None:
    """Add up along a dimension; what is added may vary in size in the others, too."""
    et, dims = g.type(x), g.array(x).dims
    if not dims or not et.is_integer or g.depth >= generate_nested.MAX_DEPTH:
        return
    d = g.rng.randrange(len(dims))
    start = g.scalar(et, 1)
    if len(dims) > 1:
        part = array(et, [n for at, n in enumerate(dims) if at != d])
        start = g.emit("broadcast", [start], {"dimensions": ()}, shape=part)
    with g.inside("step") as step:
        piece, total = (g.emit("parameter", (), {"number": n}, shape=start.shape) for n in range(2))
        total = g.emit("add", [piece, total], {})
        g.result([g.emit("xor", [total, piece], {}), total])
    attrs: dict[str, Any] = {"dimensions": (d,), "num_carries": 1, "to_apply": step}
    attrs["is_reverse"] = g.rng.random() < 0.5
    shape = _inferred("scan", [x, start], attrs)
    g.take(g.emit("scan", [x, start], attrs, shape=shape), [None, None])


_LEFT_OUT = {
    generate._slice, generate._dynamic_slice, generate._dynamic_update_slice, generate._reshape,
    generate._pad, generate_nested._slice_at, generate_nested._update_at,
}  # fmt: skip
_DYNAMIC: list[Production] = [
    *[_set_size] * 5, _get_size, *[_reshape] * 2, *[_dynamic_reshape] * 2, *[_dot] * 2,
    *[_convolution] * 3, *[_scan] * 2,
]  # fmt: skip


def generate_dynamic(seed: int, size: int = 10) -> Module:
    """Return a valid module of about `size` operations in the entry; the same one for a seed."""
    return Dynamic(seed).build(size)
