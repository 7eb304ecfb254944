"""Tiled loops, for arrays that a kernel reads transposed: contiguous along an outer loop.

Reading such an array element by element takes a cache line for each. So the loops are tiled, and
before each tile its part of the array is transposed, in registers, into a buffer on the stack where
the innermost loop is contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hlo.analysis.fusion.accesses import TransposedRead
from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val, i64, ptr
from hlo.codegen.loops.address import Indices, physical_index
from hlo.codegen.loops.kernel import Kernel, grouped, indices_of, split_index
from hlo.codegen.loops.vectors import define
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent
from hlo.llvm import vector_type
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Elements on each side of a tile: a cache line of 4-byte, or of 8-byte elements.
_SIDE, _SHORT_SIDE = 16, 8
# So many consecutive tiles along the array: adjacent cache lines.
_TALL = 4


class TiledLoops:
    """The loops of a kernel over a shape, tile by tile.

    merged: for each pair of adjacent dimensions, in memory order, whether they are collapsed into
    one loop. reads: the arrays that are read transposed, all along the same loop.
    """

    def __init__(
        self, shape: ArrayShape, merged: Sequence[bool], reads: Sequence[TransposedRead]
    ) -> None:
        self.shape = shape
        self.reads = reads
        self.order = loop_order(shape)
        self.groups = grouped(self.order, merged)
        self.sizes = [math.prod(shape.dims[d] for d in g) for g in self.groups]
        along = self.order[reads[0].along]
        self.row = next(n for n, group in enumerate(self.groups) if along in group)
        self.column = len(self.groups) - 1
        widths = [c.shape.element_type.byte_width for c in reads]
        self.side = _SIDE if max(widths) < 8 else _SHORT_SIDE

    @property
    def is_worthwhile(self) -> bool:
        """True if there are whole tiles."""
        return min(self.sizes[self.row], self.sizes[self.column]) >= self.side

    def run(self, k: Kernel, body: Callable[[Indices], None]) -> Extent:
        """Loop over the elements like `over_elements`."""
        b, row, column, sizes = k.b, self.row, self.column, self.sizes
        side = self.side
        heights = {row: side * _TALL, column: side}
        counts = [-(-n // heights.get(d, 1)) for d, n in enumerate(sizes)]
        tiles = [_Tile(k, c, side) for c in self.reads]
        with b.loop(k.begin, k.end) as number:
            at = split_index(b, number, counts)
            for d, height in heights.items():
                at[d] = b.mul(at[d], height)
            bottom = b.minimum(b.add(at[row], side * _TALL), sizes[row])
            columns = _extent(b, at[column], side, sizes[column])
            with b.loop(at[row], bottom, side, rolled=True) as top:
                rows = _extent(b, top, side, sizes[row])
                first = self._indices(b, [*at[:row], top, *at[row + 1 :]])
                for tile in tiles:
                    tile.fill([first[d] for d in self.order], rows, columns)
                with b.loop(0, rows, rolled=True) as i, b.loop(0, columns) as j:
                    for tile in tiles:
                        tile.position = b.add(b.mul(i, side), j)
                    here = [*at[:row], b.add(top, i), *at[row + 1 : column], b.add(at[column], j)]
                    body(self._indices(b, here))
        return Extent(math.prod(counts), math.prod(sizes) / max(math.prod(counts), 1))

    def _indices(self, b: Builder, found: Sequence[Index]) -> Indices:
        return indices_of(b, self.shape, self.groups, found)


def _extent(b: Builder, first: Index, side: int, size: int) -> Index:
    """Return how many elements a tile has from `first` on: fewer at the end."""
    return b.minimum(b.sub(size, first), side) if size % side else side


class _Tile:
    """A tile of an array, transposed, on the stack."""

    def __init__(self, k: Kernel, read: TransposedRead, side: int) -> None:
        self.k = k
        self.read = read
        self.side = side
        self.shape = read.shape
        self.word = f"i{8 * read.shape.element_type.byte_width}"
        self.memory = k.b.alloca(self.word, side * side, align=64).name
        # The current element of the loops.
        self.position: Index = 0
        k.elements.kept[read.node] = self._load

    def _load(self, indices: Indices) -> Value:
        return scalar.load(self.k.b, self.shape.element_type, self.memory, self.position)

    def fill(self, corner: Sequence[Index], rows: Index, columns: Index) -> None:
        """Fill the tile. corner: the indices of its first element."""
        b, loop_dims = self.k.b, self.read.loop_dims
        first: list[Index] = list(self.read.origin)
        for dim, i in zip(loop_dims, corner, strict=True):
            if dim is not None:
                first[dim] = i
        start = physical_index(b, self.shape, tuple(first))
        last = loop_dims[-1]
        assert last is not None
        stride = physical_index(
            b, self.shape, tuple(int(d == last) for d in range(self.shape.rank))
        )
        base = self.k.pointer(self.read.node)

        def in_registers() -> Sequence[Val]:
            corner_at = b.element_address(base, self.word, start)
            function = turn_function(b.module, self.word, self.side)
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
            in_registers()
        else:
            is_whole = (b.compare("eq", n, self.side) for n in (rows, columns))
            b.choose(b.both(*is_whole), in_registers, element_by_element)


def turn_function(module: ModuleBuilder, word: str, side: int) -> str:
    """Return the function `(to, from, stride)` that transposes a whole tile of words.

    Shared by all kernels, as it is most of the code for reading a tile.
    """

    def write(b: Builder) -> None:
        vector, align = vector_type(side, word), int(word[1:]) // 8
        lines: list[Val] = []
        for j in range(side):
            at = b.element_address("%from", word, b.mul("%stride", j))
            lines.append(b.load(vector, at, align=align))
        # Halves of the rows are interleaved until each is a former column.
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
    """Interleave half the lanes of x with half of y's."""
    return b.shuffle_vector(
        x, y, [n for i in range(first, first + side // 2) for n in (i, side + i)]
    )
