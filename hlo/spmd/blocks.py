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
    parts = b.reshape(blocks, (*counts, *dims))
    return _joined(
        b, parts, [(dim, n) for n, (dim, _) in enumerate(along)], range(len(along) + len(dims))
    )


def scatter(b: SpmdBuilder, x: Instruction, along: Sequence[Along]) -> Instruction:
    """Append one reduce-scatter, of a sum, that cuts dimensions, in order of their axes.

    A dimension may occur several times; its size is a multiple of the number of its parts.
    """
    every = tuple(a for _, axes in along for a in axes)
    if all(dim == along[0].dim for dim, _ in along):
        return b.reduce_scatter(x, along[0].dim, every)
    blocks, places = _cut(b, x, [(dim, b.mesh.count(axes)) for dim, axes in along])
    rest = [d for n, d in enumerate(blocks.array_shape.dims) if n not in places]
    others = [n for n in range(blocks.array_shape.rank) if n not in places]
    moved = transposed(b, blocks, (*places, *others))
    parts = b.reduce_scatter(b.reshape(moved, (b.mesh.count(every), *rest)), 0, every)
    return b.reshape(parts, rest)


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
    blocks, places = _cut(
        b, x, [(c.cut, count) for c, count in zip(crossings, counts, strict=True)]
    )
    dims = blocks.array_shape.dims
    others = [n for n in range(len(dims)) if n not in places]
    first = places[0]
    if places[-1] - first >= len(places):
        blocks = transposed(b, blocks, (*places, *others))
        first = 0
    rest = [dims[n] for n in others]
    total = b.mesh.count(every)
    sent = b.reshape(blocks, (*rest[:first], total, *rest[first:]))
    received = b.exchange(sent, first, every)
    parts = b.reshape(received, (*rest[:first], *counts, *rest[first:]))
    taken = range(first, first + len(counts))
    order = (*taken, *(n for n in range(len(dims)) if n not in taken))
    return _joined(b, parts, [(c.joined, -n) for n, c in numbered], order)


def transposed(b: SpmdBuilder, x: Instruction, perm: Sequence[int]) -> Instruction:
    """Append a transpose, or a reshape where it only moves dimensions of size 1."""
    dims = x.array_shape.dims
    order = [n for n in perm if dims[n] != 1]
    if order == sorted(order) or 0 in dims:
        return b.reshape(x, [dims[n] for n in perm])
    return b.op("transpose", x, dimensions=tuple(perm))


def _cut(
    b: SpmdBuilder, x: Instruction, parts: Sequence[tuple[int, int]]
) -> tuple[Instruction, list[int]]:
    """Return an array with dimensions for the number of a block, and which these are.

    parts: dimensions, and into how many parts; of one dimension, the major ones first.
    """
    dims: list[int] = []
    places = [0] * len(parts)
    for dim, size in enumerate(x.array_shape.dims):
        for n, (cut, count) in enumerate(parts):
            if cut == dim:
                places[n] = len(dims)
                dims.append(count)
                size //= count
        dims.append(size)
    return b.reshape(x, dims), places


def _joined(
    b: SpmdBuilder, blocks: Instruction, joined: Sequence[tuple[int, int]], order: Sequence[int]
) -> Instruction:
    """Return an array whose dimensions are put together of blocks.

    joined: for each dimension that numbers blocks, the dimension of the result that it belongs to,
        and a number that is greater for more minor ones.
    order: the dimensions of `blocks`, those that number blocks first.
    """
    dims = blocks.array_shape.dims
    perm: list[int] = []
    result: list[int] = []
    for dim, place in enumerate(order[len(joined) :]):
        mine = sorted((minor, order[n]) for n, (into, minor) in enumerate(joined) if into == dim)
        perm += [*(n for _, n in mine), place]
        result.append(math.prod(dims[n] for n in (*(n for _, n in mine), place)))
    return b.reshape(transposed(b, blocks, perm), result)
