"""Layouts as maps from indices to offsets: validity, index arithmetic and sizes.

An array's dimensions are ordered from major to minor, then each tile splits the minor dimensions it
names into an index of a tile and an index inside it; padding completes the last tile. The result is
the array of *physical dimensions*, in row-major order; padding up to `L(n)` elements follows. An
element takes `E(bits)`: several share a byte from the low-order bits up, and an integer in more
bits than its type has is extended. A dynamic shape's metadata prefix `M(bytes)` comes first.

Splits `SC(..)` distribute an array over several memories; there is one here, so they change
nothing. The padded dimensions of older layouts are one tile of that size. Levels `D(..)` say how a
sparse dimension would be compressed; as in XLA, which parses them and stores all elements, they
change nothing. Only under a physical shape `P(..)`, of arrays that represent this one, elements
have no offset; XLA rejects it altogether.

Source: "Shapes and Layout" (document 001; document 004 for padded dimensions) and XLA's
`docs/tiled_layout.md`; for the order of elements in a byte, of which these say nothing, XLA's CPU
code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.values.types import MAX_ELEMENTS, ArrayShape, DimLevel, ElementType, Layout, Tile

# Each tile adds dimensions, so work grows with the square of their number; real layouts have few.
_MAX_TILES = 64

# --- validity -----------------------------------------------------------------------------------


def layout_problem(shape: ArrayShape) -> str | None:
    """Return what is wrong with a shape's layout, or None. No layout is fine."""
    layout, rank = shape.layout, shape.rank
    if layout is None or layout is Layout.default(rank):
        return None
    if sorted(layout.minor_to_major) != list(range(rank)):
        return (
            f"the order is not a permutation of the {rank} dimensions of {shape.to_string(False)}"
        )
    if layout.levels and len(layout.levels) != rank:
        return f"{len(layout.levels)} dimension levels for {rank} dimensions"
    for level in layout.levels:
        if level.kind not in ("D", "C", "S", "H"):
            return f"{level} is not a dimension level: one of D, C, S, H"
        if level.kind == "D" and level != DimLevel("D"):
            return f"a dense dimension is unique and ordered, not {level}"
    if layout.physical_shape is not None and not any(x.kind != "D" for x in layout.levels):
        return "a physical shape is only for sparse dimensions"
    if len(layout.tiles) > _MAX_TILES:
        return f"{len(layout.tiles)} tiles, at most {_MAX_TILES} can be nested"
    for tile in layout.tiles:
        if any(size < 1 and size != Tile.COMBINE for size in tile.sizes):
            return f"tile {tile} has a size below 1"
        if tile.sizes and tile.sizes[-1] == Tile.COMBINE:
            return f"tile {tile}: its last dimension has no more minor one to combine with"
    if layout.tail_padding < 1:
        return f"the tail padding alignment is {layout.tail_padding}, at least 1 is needed"
    for what, et in (("index", layout.index_type), ("pointer", layout.pointer_type)):
        if et is not None and not (et.is_integer and not et.is_signed):
            return f"the {what} type is {et}, an unsigned integer is needed"
    if layout.memory_space < 0:
        return f"the memory space is {layout.memory_space}"
    if layout.dynamic_prefix_bytes < 0:
        return f"the metadata prefix is {layout.dynamic_prefix_bytes} bytes"
    return _element_problem(layout.element_bits, shape.element_type) or _split_problem(shape)


def _element_problem(bits: int, et: ElementType) -> str | None:
    least = 1 if et.is_pred else et.bits
    if bits and bits < least:
        return f"elements of {bits} bits do not hold {et}"
    if bits and bits % 8 and 8 % bits:
        return f"elements of {bits} bits are neither whole bytes nor a fraction of one"
    return None


def _split_problem(shape: ArrayShape) -> str | None:
    assert shape.layout is not None
    for split in shape.layout.splits:
        if not 0 <= split.dim < shape.rank:
            return f"split {split} names dimension {split.dim}, outside [0, {shape.rank})"
        inner = [0, *split.indices, shape.dims[split.dim]]
        if any(a >= b for a, b in pairwise(inner)):
            return (
                f"the indices of split {split} do not ascend inside dimension {split.dim} "
                f"of size {shape.dims[split.dim]}"
            )
    return None


def validate_layout(shape: ArrayShape) -> None:
    """Raise InferError, code `bad-layout`, if the shape's layout is not valid for it."""
    problem = layout_problem(shape)
    if problem is not None:
        raise InferError(f"layout {shape.layout}: {problem}", code="bad-layout")


# --- the physical dimensions --------------------------------------------------------------------


@dataclass(frozen=True)
class Tiling:
    """One tile applied to the dimensions `dims`, major to minor.

    They begin with `lead` dimensions of size 1 where the tile names more than there are. `groups`
    says how many of them `*` combines into each *merged* dimension; the tile has a size for each of
    the innermost merged ones.
    """

    dims: tuple[int, ...]
    lead: int
    groups: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def grouped(self) -> list[tuple[int, ...]]:
        """The dimensions that make up each merged one."""
        ends = list(accumulate(self.groups))
        return [self.dims[end - n : end] for end, n in zip(ends, self.groups, strict=True)]

    @property
    def merged(self) -> list[int]:
        return [math.prod(group) for group in self.grouped]

    @property
    def kept(self) -> int:
        """The number of merged dimensions that the tile does not split."""
        return len(self.groups) - len(self.sizes)

    @property
    def counts(self) -> list[int]:
        """The number of tiles along each tiled dimension."""
        return [-(-d // t) for d, t in zip(self.merged[self.kept :], self.sizes, strict=True)]

    @property
    def inner(self) -> tuple[int, ...]:
        """The dimensions after tiling."""
        return (*self.merged[: self.kept], *self.counts, *self.sizes)

    def into_tiles(self, index: Sequence[Any]) -> list[Any]:
        """Map an index of `dims`, without the leading ones, to one of `inner`.

        Its elements are anything with `*`, `+`, `//` and `%` by ints: ints, arrays, expressions.
        """
        rest = iter([*(0 for _ in range(self.lead)), *index])
        merged: list[Any] = []
        for group in self.grouped:
            value: Any = 0
            for size in group:
                value = value * size + next(rest)
            merged.append(value)
        tiled = list(zip(merged[self.kept :], self.sizes, strict=True))
        return [*merged[: self.kept], *(i // t for i, t in tiled), *(i % t for i, t in tiled)]

    def out_of_tiles(self, index: Sequence[int]) -> list[int] | None:
        """The inverse of `into_tiles`; None for padding."""
        merged = list(index[: self.kept])
        split = self.kept + len(self.sizes)
        for tile, i, size, limit in zip(
            index[self.kept : split],
            index[split:],
            self.sizes,
            self.merged[self.kept :],
            strict=True,
        ):
            merged.append(tile * size + i)
            if merged[-1] >= limit:
                return None
        outer = [
            i for at, group in zip(merged, self.grouped, strict=True) for i in unravel(at, group)
        ]
        return outer[self.lead :]


def _tiling(dims: tuple[int, ...], tile: Tile) -> Tiling:
    lead = max(0, len(tile.sizes) - len(dims))
    full = (1,) * lead + dims
    groups = [1] * (len(full) - len(tile.sizes))
    count = 0
    for size in tile.sizes:
        count += 1
        if size != Tile.COMBINE:
            groups.append(count)
            count = 0
    sizes = tuple(size for size in tile.sizes if size != Tile.COMBINE)
    return Tiling(full, lead, tuple(groups), sizes)


def with_padded_dims(shape: ArrayShape, padded: Sequence[int]) -> ArrayShape:
    """Return a shape whose dimensions are padded to these sizes, as in older layouts.

    Raises InferError for sizes that are too small, or in a layout that has tiles.
    """
    layout = checked_layout(shape)
    too_small = any(p < max(d, 1) for p, d in zip(padded, shape.dims, strict=False))
    if len(padded) != shape.rank or too_small or layout.tiles or not shape.num_elements:
        why = "has tiles" if layout.tiles else "has no elements" if not shape.num_elements else None
        raise InferError(
            f"{shape} cannot be padded to {list(padded)}: "
            + (why or "a size for each dimension is needed, no smaller than that"),
            code="bad-layout",
        )
    tile = Tile(tuple(padded[d] for d in layout.minor_to_major[::-1]))
    return shape.with_layout(replace(layout, tiles=(tile,) if padded else ()))


def checked_layout(shape: ArrayShape) -> Layout:
    """Return the layout, the default one if there is none.

    Raises InferError for one with a physical shape of its own.
    """
    validate_layout(shape)
    layout = shape.layout or Layout.default(shape.rank)
    if any(d < 0 for d in shape.dims):
        raise InferError(f"{shape.to_string(False)} has no size", code="bad-layout")
    if layout.physical_shape is not None:
        raise InferError(
            f"layout {layout}: a physical shape does not define where elements are",
            code="unsupported",
            hint=f"the memory is that of {layout.physical_shape}, which has places",
        )
    return layout


@lru_cache(maxsize=1 << 10)
def tilings(shape: ArrayShape, layout: Layout) -> tuple[Tiling, ...]:
    """Return the tilings that turn the dimensions, major to minor, into the physical dimensions."""
    dims = tuple(shape.dims[d] for d in layout.minor_to_major[::-1])
    steps: list[Tiling] = []
    for tile in layout.tiles:
        steps.append(_tiling(dims, tile))
        dims = steps[-1].inner
    return tuple(steps)


def physical_dims(shape: ArrayShape) -> tuple[int, ...]:
    """Return the dimensions in memory, major to minor, with padding to whole tiles."""
    layout = checked_layout(shape)
    steps = tilings(shape, layout)
    return steps[-1].inner if steps else tuple(shape.dims[d] for d in layout.minor_to_major[::-1])


def physical_elements(shape: ArrayShape) -> int:
    """Return the number of elements in memory, with the padding of tiles and tail."""
    align = checked_layout(shape).tail_padding
    count = -(-math.prod(physical_dims(shape)) // align) * align
    if count > MAX_ELEMENTS:
        raise InferError(f"{shape} has more elements than 64 bits can count", code="bad-layout")
    return count


def element_bits(shape: ArrayShape) -> int:
    """Return the bits that one element takes in memory."""
    bits = shape.layout.element_bits if shape.layout is not None else 0
    return bits or shape.element_type.byte_width * 8


@lru_cache(maxsize=1 << 12)
def physical_bytes(shape: ArrayShape) -> int:
    """Return the size of the buffer: prefix, elements, padding."""
    layout = checked_layout(shape)
    return layout.dynamic_prefix_bytes + -(-physical_elements(shape) * element_bits(shape) // 8)


# --- indices ------------------------------------------------------------------------------------


def linear_index(shape: ArrayShape, index: Sequence[Any]) -> Any:
    """Return the position of an element, in elements from the start of the (unprefixed) buffer.

    index: one int for each dimension, or arrays of one shape. Raises InferError if out of bounds.
    """
    checked_layout(shape)
    if len(index) != shape.rank:
        raise InferError(
            f"{shape.to_string(False)} has {shape.rank} dimensions, the index {len(index)}",
            code="index-out-of-range",
        )
    for d, (i, size) in enumerate(zip(map(np.asarray, index), shape.dims, strict=True)):
        if np.any((i < 0) | (i >= size)):
            raise InferError(
                f"an index is outside dimension {d} of {shape.to_string(False)}",
                code="index-out-of-range",
            )
    linear = position_of(shape, [np.asarray(i, np.int64) for i in index])
    return int(linear) if np.ndim(linear) == 0 else linear


def position_of(shape: ArrayShape, index: Sequence[Any]) -> Any:
    """Return `linear_index` of an index in bounds, with elements as for `Tiling.into_tiles`."""
    layout = checked_layout(shape)
    at = [index[d] for d in layout.minor_to_major[::-1]]
    for step in tilings(shape, layout):
        at = step.into_tiles(at)
    linear: Any = 0
    for i, size in zip(at, physical_dims(shape), strict=True):
        linear = linear * size + i
    return linear


def multi_index(shape: ArrayShape, linear: int) -> tuple[int, ...] | None:
    """Return the index of the element at a position in the buffer, or None for padding.

    The inverse of `linear_index`. Raises InferError for a position outside the buffer.
    """
    layout = checked_layout(shape)
    if not 0 <= linear < physical_elements(shape):
        raise InferError(
            f"{linear} is outside the {physical_elements(shape)} elements of {shape}",
            code="index-out-of-range",
        )
    dims = physical_dims(shape)
    if linear >= math.prod(dims):
        return None  # the tail
    at = unravel(linear, dims)
    for step in reversed(tilings(shape, layout)):
        outer = step.out_of_tiles(at)
        if outer is None:
            return None
        at = outer
    logical = dict(zip(layout.minor_to_major[::-1], at, strict=True))
    return tuple(logical[d] for d in range(shape.rank))


def unravel(linear: int, dims: Sequence[int]) -> list[int]:
    """Return the index at a position of a row-major array."""
    index: list[int] = []
    for size in reversed(dims):
        linear, i = divmod(linear, size)
        index.append(i)
    return index[::-1]
