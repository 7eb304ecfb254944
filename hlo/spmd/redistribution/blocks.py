"""Collectives that cut or join several dimensions at once, or different ones.

HLO's all-gather, reduce-scatter and all-to-all work along one dimension. Here each device's array
is first taken apart into blocks, numbered along a dimension of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.mesh import Axes


class Along(NamedTuple):
    """A dimension, and mesh axes along which it is cut or put together; see each function."""

    dim: int
    axes: Axes


class Crossing(NamedTuple):
    """Mesh axes that one dimension is put together along, and another one is cut along instead."""

    joined: int
    axes: Axes
    cut: int


def gather(b: SpmdBuilder, x: Instruction, along: Sequence[Along]) -> Instruction:
    """Append one all-gather that puts dimensions together, each along the axes given for it."""
    if len(along) == 1:
        return b.all_gather(x, *along[0])
    dims = x.array_shape.dims
    every = tuple(a for _, axes in along for a in axes)
    blocks = b.all_gather(b.reshape(x, (1, *dims)), 0, every)
    counts = [b.mesh.count(axes) for _, axes in along]
    numbers = [(dim, n) for n, (dim, _) in enumerate(along)]
    return _joined(b, blocks, (*counts, *dims), numbers, range(len(along) + len(dims)))


def scatter(b: SpmdBuilder, x: Instruction, along: Sequence[Along]) -> Instruction:
    """Append one reduce-scatter, of a sum, that cuts dimensions, in order of their axes.

    A dimension may occur several times; its size is a multiple of the number of its parts.
    """
    every = tuple(a for _, axes in along for a in axes)
    if all(dim == along[0].dim for dim, _ in along):
        return b.reduce_scatter(x, along[0].dim, every)
    dims, places = _cut(x.array_shape.dims, [(dim, b.mesh.count(axes)) for dim, axes in along])
    others = [n for n in range(len(dims)) if n not in places]
    rest = [dims[n] for n in others]
    blocks = transposed(b, x, dims, (*places, *others), (b.mesh.count(every), *rest))
    return b.reshape(b.reduce_scatter(blocks, 0, every), rest)


def all_to_all(b: SpmdBuilder, x: Instruction, crossings: Sequence[Crossing]) -> Instruction:
    """Append one all-to-all: devices exchange parts of dimensions for parts of other ones.

    No dimension is both cut and joined; one may be several times, cut by the major axes first,
    joined by the minor ones first. The size of one that is cut is a multiple of the number of its
    parts.
    """
    # In order of the dimensions that are cut, so that blocks of one dimension stay where they are.
    numbered = sorted(enumerate(crossings), key=lambda entry: entry[1].cut)
    crossings = [c for _, c in numbered]
    counts = [b.mesh.count(c.axes) for c in crossings]
    every = tuple(a for c in crossings for a in c.axes)
    parts = [(c.cut, count) for c, count in zip(crossings, counts, strict=True)]
    dims, places = _cut(x.array_shape.dims, parts)
    others = [n for n in range(len(dims)) if n not in places]
    rest = [dims[n] for n in others]
    first = places[0] if places[-1] - places[0] < len(places) else 0
    perm = (*others[:first], *places, *others[first:])
    blocks = transposed(b, x, dims, perm, (*rest[:first], b.mesh.count(every), *rest[first:]))
    received = b.exchange(blocks, first, every)
    numbers = range(first, first + len(counts))
    order = (*numbers, *(n for n in range(len(dims)) if n not in numbers))
    return _joined(
        b, received, (*rest[:first], *counts, *rest[first:]),
        [(c.joined, -n) for n, c in numbered], order,
    )  # fmt: skip


def transposed(
    b: SpmdBuilder, x: Instruction, dims: Sequence[int], perm: Sequence[int], result: Sequence[int]
) -> Instruction:
    """Append a transpose between reshapes, or one reshape where it only moves dimensions of size 1.

    dims: what is transposed. result: the dimensions that it has at last.
    """
    order = [n for n in perm if dims[n] != 1]
    if order == sorted(order) or 0 in dims:
        return b.reshape(x, result)
    return b.reshape(b.op("transpose", b.reshape(x, dims), dimensions=tuple(perm)), result)


def _cut(dims: Sequence[int], parts: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return dimensions among which are the numbers of blocks, and which these are.

    parts: dimensions, and into how many parts; of one dimension, the major ones first.
    """
    found: list[int] = []
    places = [0] * len(parts)
    for dim, size in enumerate(dims):
        for n, (cut, count) in enumerate(parts):
            if cut == dim:
                places[n] = len(found)
                found.append(count)
                size //= count
        found.append(size)
    return found, places


def _joined(
    b: SpmdBuilder,
    x: Instruction,
    dims: Sequence[int],
    joined: Sequence[tuple[int, int]],
    order: Sequence[int],
) -> Instruction:
    """Return an array whose dimensions are put together of blocks.

    dims: those of the blocks.
    joined: for each dimension that numbers blocks, the dimension of the result that it belongs to,
        and a number that is greater for more minor ones.
    order: the dimensions of the blocks, those that number them first.
    """
    perm: list[int] = []
    result: list[int] = []
    for dim, place in enumerate(order[len(joined) :]):
        mine = sorted((minor, order[n]) for n, (into, minor) in enumerate(joined) if into == dim)
        perm += [*(n for _, n in mine), place]
        result.append(math.prod(dims[n] for n in (*(n for _, n in mine), place)))
    return transposed(b, x, dims, perm, result)
