"""Square tiles of matrices in a block's shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.kernels.linalg.planes import Field, Parts, WorkMatrix
from hlo.codegen.llvm import Index, Val
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.gpu.block import Block

# Rows and columns of a tile, of numbers of at most 8 bytes and of larger ones.
_SIDE, _LARGE_SIDE, _LARGE_BYTES = 32, 16, 16
THREADS = 256


def side_of(field: Field) -> int:
    """Return how many rows and columns a tile has."""
    return _LARGE_SIDE if field.planes * field.bytes >= _LARGE_BYTES else _SIDE


@dataclass(frozen=True)
class Tiles:
    """Tiles of a block, of which each thread has some elements: those of one row, some columns
    apart. Threads of a warp have all rows.

    rows, columns: of the matrices that the block computes elements of.
    """

    block: Block
    field: Field
    rows: int
    columns: int

    @property
    def side(self) -> int:
        return side_of(self.field)

    @property
    def threads(self) -> int:
        """The threads of a block: some may have no elements, but help to fill tiles."""
        lanes = self.block.gpu.lanes
        wanted = self.side * (self.columns if self.rows <= self.side else self.side)
        return min(THREADS, -(-wanted // lanes) * lanes)

    @property
    def each(self) -> int:
        """How many elements a thread has."""
        return -(-self.side * self.columns // self.threads)

    def new(self) -> WorkMatrix:
        """Define a tile in shared memory; columns are in different banks."""
        pitch = self.side + 1
        base = self.block.shared_array(self.field.type, self.field.planes * self.side * pitch)
        return WorkMatrix(self.field, base, pitch, self.side * pitch)

    @property
    def row(self) -> Index:
        """The row of the thread's elements."""
        return self.block.b.urem(self.block.thread_index(), self.side)

    def column(self, number: int) -> Index:
        """Return the column of an element of the thread, by its number."""
        b = self.block.b
        first = b.udiv(self.block.thread_index(), self.side)
        return b.add(first, number * (self.threads // self.side))

    @contextmanager
    def each_place(self, *, by_columns: bool = False) -> Iterator[tuple[Index, Index]]:
        """Emit the body for the thread's share of a tile: row, column.

        Neighbouring threads have neighbours in a row, or in a column.
        """
        b, side = self.block.b, self.side
        with b.loop(self.block.thread_index(), side * side, self.threads) as at:
            slow, fast = b.udiv(at, side), b.urem(at, side)
            yield (fast, slow) if by_columns else (slow, fast)

    def fill(
        self, tile: WorkMatrix, element: Callable[[Index, Index], Parts], *,
        by_columns: bool = False,
    ) -> None:  # fmt: skip
        """Fill a tile by row and column."""
        with self.each_place(by_columns=by_columns) as (row, column):
            tile.store(self.block.b, element(row, column), row, column)

    def own(self, tile: WorkMatrix) -> list[Val]:
        """Return the thread's elements of a tile, one after the other."""
        found: list[Val] = []
        for number in range(self.each):
            found += tile.load(self.block.b, self.row, self.column(number))
        return found

    def put(self, tile: WorkMatrix, parts: Sequence[Val]) -> None:
        """Set the thread's elements of a tile."""
        planes = self.field.planes
        for number in range(self.each):
            value = parts[number * planes : (number + 1) * planes]
            tile.store(self.block.b, value, self.row, self.column(number))

    def divide(self, x: Parts, y: Parts) -> Parts:
        """Return the quotient of numbers."""
        b, f = self.block.b, self.field
        if f.planes == 1:
            return [b.binary("fdiv", x[0], y[0])]
        found = scalar.arithmetic(b, "divide", f.et, [Cplx(*x), Cplx(*y)])
        assert isinstance(found, Cplx)
        return [found.re, found.im]
