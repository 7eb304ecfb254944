"""Loops over blocks, for arrays that lie across the innermost loop, as in a transpose.

Reading such an array element by element takes a cache line for each. So the loops go block by
block, and at the beginning of each the array's part of it is turned over, in registers, to where
the loops find it row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hlo.codegen import scalar
from hlo.codegen.address import Indices, physical_index
from hlo.codegen.kernel import Extent, Kernel, grouped, indices_of, loop_order, split_index
from hlo.codegen.kernels.vectors import define
from hlo.codegen.llvm import Builder, Index, Module, Val, i64, ptr
from hlo.codegen.merge import Crossing
from hlo.codegen.scalar import Value
from hlo.types import ArrayShape

# Elements on each side of a block: a cache line of those of four bytes, or of those of eight.
_SIDE, _SHORT_SIDE = 16, 8
# So many blocks follow each other along the array: cache lines that are neighbours.
_TALL = 4


class Blocks:
    """The loops of a kernel over a shape, block by block.

    merged: for each pair of neighbours among the dimensions, in memory order, whether one loop runs
    over both. across: arrays that lie across the innermost loop, all along the same other loop.
    """

    def __init__(
        self, shape: ArrayShape, merged: Sequence[bool], across: Sequence[Crossing]
    ) -> None:
        self.shape = shape
        self.across = across
        self.order = loop_order(shape)
        self.groups = grouped(self.order, merged)
        self.sizes = [math.prod(shape.dims[d] for d in g) for g in self.groups]
        along = self.order[across[0].along]
        self.row = next(n for n, group in enumerate(self.groups) if along in group)
        self.column = len(self.groups) - 1
        widths = [c.shape.element_type.byte_width for c in across]
        self.side = _SIDE if max(widths) < 8 else _SHORT_SIDE

    @property
    def is_worthwhile(self) -> bool:
        """True when there are whole blocks."""
        return min(self.sizes[self.row], self.sizes[self.column]) >= self.side

    def run(self, k: Kernel, body: Callable[[Indices], None]) -> Extent:
        """Loop over the elements like `over_elements`."""
        b, row, column, sizes = k.b, self.row, self.column, self.sizes
        side = self.side
        heights = {row: side * _TALL, column: side}
        counts = [-(-n // heights.get(d, 1)) for d, n in enumerate(sizes)]
        blocks = [_Block(k, c, side) for c in self.across]
        with b.loop(k.begin, k.end) as number:
            at = split_index(b, number, counts)
            for d, height in heights.items():
                at[d] = b.mul(at[d], height)
            bottom = b.minimum(b.add(at[row], side * _TALL), sizes[row])
            columns = _extent(b, at[column], side, sizes[column])
            with b.loop(at[row], bottom, side, rolled=True) as top:
                rows = _extent(b, top, side, sizes[row])
                first = self._indices(b, [*at[:row], top, *at[row + 1 :]])
                for block in blocks:
                    block.fill([first[d] for d in self.order], rows, columns)
                with b.loop(0, rows, rolled=True) as i, b.loop(0, columns) as j:
                    for block in blocks:
                        block.place = b.add(b.mul(i, side), j)
                    here = [*at[:row], b.add(top, i), *at[row + 1 : column], b.add(at[column], j)]
                    body(self._indices(b, here))
        return Extent(math.prod(counts), math.prod(sizes) / max(math.prod(counts), 1))

    def _indices(self, b: Builder, found: Sequence[Index]) -> Indices:
        return indices_of(b, self.shape, self.groups, found)


def _extent(b: Builder, first: Index, side: int, size: int) -> Index:
    """Return how many elements a block has from the first one on: less than a side at the end."""
    return b.minimum(b.sub(size, first), side) if size % side else side


class _Block:
    """A block of an array, turned over, on the stack."""

    def __init__(self, k: Kernel, crossing: Crossing, side: int) -> None:
        self.k = k
        self.crossing = crossing
        self.side = side
        self.shape = crossing.shape
        self.word = f"i{8 * crossing.shape.element_type.byte_width}"
        self.memory = k.b.alloca(self.word, side * side, align=64).name
        # Which element the loops are at.
        self.place: Index = 0
        k.elements.kept[crossing.node] = self._read

    def _read(self, indices: Indices) -> Value:
        return scalar.load(self.k.b, self.shape.element_type, self.memory, self.place)

    def fill(self, corner: Sequence[Index], rows: Index, columns: Index) -> None:
        """Read the block. corner: where the loops are at its first element."""
        b, places = self.k.b, self.crossing.places
        first: list[Index] = list(self.crossing.origin)
        for place, i in zip(places, corner, strict=True):
            if place is not None:
                first[place] = i
        start = physical_index(b, self.shape, tuple(first))
        last = places[-1]
        assert last is not None
        stride = physical_index(
            b, self.shape, tuple(int(d == last) for d in range(self.shape.rank))
        )
        base = self.k.pointer(self.crossing.node)

        def turn() -> Sequence[Val]:
            corner_at = b.element_address(base, self.word, start)
            function = _turn(b.module, self.word, self.side)
            b.call_void(function, [ptr(self.memory), ptr(corner_at), i64(stride)])
            return ()

        def element_by_element() -> Sequence[Val]:
            with b.loop(0, columns, plain=True) as j, b.loop(0, rows, plain=True) as i:
                at = b.add(b.add(start, b.mul(j, stride)), i)
                address = b.element_address(base, self.word, at)
                raw = b.load(self.word, address)
                to = b.element_address(self.memory, self.word, b.add(b.mul(i, self.side), j))
                b.store(raw, to)
            return ()

        if rows == columns == self.side:
            turn()
        else:
            is_whole = (b.compare("eq", n, self.side) for n in (rows, columns))
            b.choose(b.both(*is_whole), turn, element_by_element)


def _turn(module: Module, word: str, side: int) -> str:
    """Return the function `(to, from, stride)` that turns a whole block of words over.

    All kernels have it in common: of what they need to read a block it is the most code.
    """

    def write(b: Builder) -> None:
        vector, align = f"<{side} x {word}>", int(word[1:]) // 8
        lines: list[Val] = []
        for j in range(side):
            at = b.element_address("%from", word, b.mul("%stride", j))
            lines.append(b.load(vector, at, align=align))
        # Halves of the lines are interleaved until each holds what was a column.
        for _ in range(side.bit_length() - 1):
            lines = [
                line
                for x, y in zip(lines[: side // 2], lines[side // 2 :], strict=True)
                for line in (_interleave(b, x, y, side, 0), _interleave(b, x, y, side, side // 2))
            ]
        for i, line in enumerate(lines):
            to = b.element_address("%to", word, i * side)
            b.store(line, to, align=min(64, side * align))

    name = f"turn_{side}x{side}_{word}"
    return define(module, name, "ptr noalias %to, ptr noalias %from, i64 %stride", write)


def _interleave(b: Builder, x: Val, y: Val, side: int, first: int) -> Val:
    """Return lanes of x and y in turn, as many of each as half a vector has."""
    return b.shuffle_vector(
        x, y, [n for i in range(first, first + side // 2) for n in (i, side + i)]
    )
