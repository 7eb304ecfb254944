"""Matrices that are contiguous along the other dimension in the workspace than in memory.

They are copied tile by tile: a tile is transposed in registers, and everything else runs along
rows of both.
"""

from __future__ import annotations

from collections.abc import Callable

from hlo.codegen.kernels.linalg.planes import Parts, WorkMatrix
from hlo.codegen.llvm import Builder, Index, i64, ptr
from hlo.codegen.loops.tiled_transpose import turn_function
from hlo.codegen.loops.vectors import vector_at
from hlo.llvm import vector_type

# Rows and columns of a tile of 4-byte numbers, and of 8-byte ones.
_SIDES = {4: 16, 8: 8}


class TurnedTile:
    """A tile of a matrix in the workspace, transposed, on the stack."""

    def __init__(self, b: Builder, u: WorkMatrix) -> None:
        f = u.field
        self.b, self.u, self.side = b, u, _SIDES[f.bytes]
        size = self.side * self.side
        memory = b.alloca(f.type, size * f.planes, align=64).name
        self.tile = WorkMatrix(f, memory, self.side, size)
        self._spare = b.alloca(f.type, size, align=64).name

    def _turn(self, target: str, source: str, pitch: int) -> None:
        function = turn_function(self.b.module, f"i{8 * self.u.field.bytes}", self.side)
        self.b.call_void(function, [ptr(target), ptr(source), i64(pitch)])

    def read(self, row: Index, column: Index) -> None:
        """Fill the tile with that of the matrix from a row and column on."""
        for p in range(self.u.field.planes):
            source = self.u.address(self.b, row, column, p)
            self._turn(self.tile.address(self.b, 0, 0, p), source, self.u.pitch)

    def write(self, row: Index, column: Index) -> None:
        """Write the tile to the matrix from a row and column on."""
        b, f, side = self.b, self.u.field, self.side
        for p in range(f.planes):
            self._turn(self._spare, self.tile.address(b, 0, 0, p), side)
            with b.loop(0, side, plain=True) as i:
                line = vector_at(b, vector_type(side, f.type), self._spare, f.type, b.mul(i, side))
                b.store(line, self.u.address(b, b.add(row, i), column, p), align=f.bytes)


def load_turned(
    b: Builder, u: WorkMatrix, n: int, element: Callable[[Index, Index], Parts]
) -> None:
    """Copy one triangle of a matrix to u's upper one.

    element: returns that on a line, contiguous in memory, and at a position up to the diagonal, of
    some beyond it, too.
    """
    tile = TurnedTile(b, u)
    side, whole = tile.side, n // tile.side * tile.side
    with (
        b.loop(0, whole, side, plain=True) as line,
        b.loop(0, b.add(line, side), side, plain=True) as at,
    ):
        with b.loop(0, side, plain=True) as i, b.loop(0, side, rolled=True) as j:
            tile.tile.store(b, element(b.add(line, i), b.add(at, j)), i, j)
        tile.write(at, line)
    with b.loop(whole, n, plain=True) as line, b.loop(0, b.add(line, 1), plain=True) as at:
        u.store(b, element(line, at), at, line)


def store_turned(
    b: Builder, u: WorkMatrix, n: int, store: Callable[[Index, Index, Parts], None]
) -> None:
    """Copy u, whose columns are lines that are contiguous in memory.

    store: takes a line, a position, and the element there.
    """
    tile = TurnedTile(b, u)
    side, whole = tile.side, n // tile.side * tile.side
    with b.loop(0, whole, side, plain=True) as line:
        with b.loop(0, whole, side, plain=True) as at:
            tile.read(at, line)
            with b.loop(0, side, plain=True) as i, b.loop(0, side, rolled=True) as j:
                store(b.add(line, i), b.add(at, j), tile.tile.load(b, i, j))
    with b.loop(0, n, plain=True) as line:
        first = b.select(b.compare("slt", line, whole), i64(whole), i64(0)).name
        with b.loop(first, n, plain=True) as at:
            store(line, at, u.load(b, at, line))
