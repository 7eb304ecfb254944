"""Random modules that work on rows: reductions whose results are spread over what was reduced.

`generate_rows(seed)` is `generate` with few operations on arrays of few shapes, so that loops read
each other's results in the same rows, in others, and as a whole.
"""

from __future__ import annotations

import math

from hlo.ir import Instruction, Module
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType, array
from tests.generators import modules as generate
from tests.generators.modules import Generator


class Rows(Generator):
    """Builds one module. Its arrays have some of the dimensions of one, and others of size 1."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dims = [self.rng.choice((2, 3, 3, 4)) for _ in range(self.rng.randint(2, 3))]
        self.productions = [
            _curve, _curve, generate.binary, generate.binary, generate._reduce, _spread, _spread,
            _normalize, _normalize, _ones, generate._transpose,
        ]  # fmt: skip

    def grow(self, size: int) -> None:
        """Go on with what is there last: everything is needed for the result."""
        for _ in range(size):
            self.rng.choice(self.productions)(self, self.rng.choice(self.pool[-4:]))
        self.pool = self.pool[-3:]

    def shape(self, et: ElementType | None = None) -> ArrayShape:
        et = et or ELEMENT_TYPES[self.rng.choice(("f32", "f32", "f32", "s32"))]
        return array(et, self.dims)


def _curve(g: Generator, x: Instruction) -> None:
    """Apply what is too expensive to be computed twice."""
    if g.type(x).is_float:
        g.emit(g.rng.choice(["tanh", "logistic"]), [x], {})


def _spread(g: Rows, x: Instruction) -> None:
    """Broadcast an array to all dimensions, each of its own to one of the same size."""
    places: list[int] = []
    for size in g.array(x).dims:
        free = [n for n, d in enumerate(g.dims) if d == size and n not in places]
        if not free:
            return
        places.append(g.rng.choice(free))
    if len(places) < len(g.dims):
        shape = array(g.type(x), g.dims)
        g.emit("broadcast", [x], {"dimensions": tuple(places)}, shape=shape, bound=g.bound.get(x))


def _normalize(g: Rows, x: Instruction) -> None:
    """Reduce an array, and combine the result with arrays of that shape."""
    _curve(g, x)
    for step in (generate._reduce, _spread, generate.binary):
        step(g, g.pool[-1])


def _ones(g: Rows, x: Instruction) -> None:
    """Give an array dimensions of size 1, or others of as many elements."""
    dims = [d for d in g.array(x).dims if d != 1]
    if dims and g.rng.random() < 0.3:
        dims = [math.prod(dims)]
    elif g.rng.random() < 0.5:
        dims.insert(g.rng.randint(0, len(dims)), 1)
    g.emit("reshape", [x], {}, shape=array(g.type(x), dims), bound=g.bound.get(x))


def generate_rows(seed: int, size: int = 20) -> Module:
    """Return a valid module of about `size` operations; the same one for the same seed."""
    return Rows(seed).build(size)
