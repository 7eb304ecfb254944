"""What the lanes of a block's warps have summed up, and how it gets to memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Dims, Product, count
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.operands import Place, place_at
from hlo.codegen.targets.gpu.kernels.matmul.results import Ending
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Share, WarpTiling
from hlo.codegen.targets.gpu.kernels.matmul.units import COLUMNS, Unit

# Elements between the rows of a band in shared memory, beside its own: four rows that are written
# together begin in different banks.
_PADDING = 8


@dataclass(frozen=True)
class WarpSums:
    """The sums of a block's tile in the registers of its lanes.

    firsts: the row and the column in the tile at which the warp's part begins. numbers: of tiles of
    `mma` in a warp's part, along m and n. totals: the sums of each of these, row by row.
    """

    k: Kernel
    block: Block
    p: Product
    unit: Unit
    tiles: WarpTiling
    ending: Ending
    share: Share
    firsts: tuple[Index, Index]
    numbers: tuple[int, int]
    totals: Sequence[Val]

    @property
    def _halves(self) -> int:
        """How many rows of a tile of `mma` a lane has elements of."""
        return self.unit.rows // COLUMNS

    def store(self) -> None:
        """Store them from registers, or through shared memory where more is computed of each."""
        b, p = self.k.b, self.p
        down, across = self._own()
        rows = self._rows(down)
        columns = self._columns(across)
        # Neighbouring columns are stored together where both are there or none.
        together = 2 if count(p.n) % 2 == 0 else 1
        for m, row in enumerate(rows):
            for n in range(0, len(columns), together):
                with b.when(b.both(row.inside, columns[n].inside)):
                    for i in range(n, n + together):
                        self._put(row, columns[i], self._sum(m, i))

    def store_through(self, base: str, shared_bytes: int) -> None:
        """Store them from shared memory, where lanes put them first, a band of rows after another.

        What is computed of each is written once then, for all that a thread has. base: the address
        of shared memory that nothing else is kept in.
        """
        b, tiles = self.k.b, self.tiles
        tiling, threads = tiles.tiling, tiles.warps * 32
        memory, size = self.totals[0].type, self.unit.total.byte_width
        pitch = tiling.n + _PADDING
        # How many tiles along m of each warp are in a band.
        number = next(
            n
            for n in range(self.numbers[0], 0, -1)
            if self.numbers[0] % n == 0 and self._band_rows(n) * pitch * size <= shared_bytes
        )
        height = number * self.unit.rows
        down, across = self._own()
        first = b.sub(down[0], self.firsts[0])
        warp = b.mul(b.udiv(self.firsts[0], self.numbers[0] * self.unit.rows), height)
        for band in range(self.numbers[0] // number):
            self.block.barrier()
            for m in range(number * self._halves):
                line = b.mul(b.add(b.add(warp, first), COLUMNS * m), pitch)
                for n, column in enumerate(across):
                    value = self._sum(band * number * self._halves + m, n)
                    b.store(value, b.element_address(base, memory, b.add(line, column)))
            self.block.barrier()
            with b.loop(0, self._band_rows(number) * tiling.n // threads, plain=True) as turn:
                at = b.add(b.mul(turn, threads), self.block.thread_index())
                line, column = b.udiv(at, tiling.n), b.urem(at, tiling.n)
                place = b.add(b.mul(line, pitch), column)
                which, inside = b.udiv(line, height), b.urem(line, height)
                row = b.add(b.mul(which, tiling.m // tiles.rows), inside)
                (left,) = self._rows([b.add(row, band * height)])
                (above,) = self._columns([column])
                with b.when(b.both(left.inside, above.inside)):
                    self._put(left, above, b.load(memory, b.element_address(base, memory, place)))

    def _band_rows(self, number: int) -> int:
        return self.tiles.rows * number * self.unit.rows

    def _own(self) -> tuple[list[Index], list[Index]]:
        """Return the rows and the columns of the tile that the lane has elements of."""
        b = self.k.b
        lane = self.block.index(self.block.lane())
        row = b.add(self.firsts[0], b.udiv(lane, 4))
        column = b.add(self.firsts[1], b.mul(b.urem(lane, 4), 2))
        rows = [b.add(row, COLUMNS * n) for n in range(self.numbers[0] * self._halves)]
        columns = [b.add(column, COLUMNS * n + i) for n in range(self.numbers[1]) for i in (0, 1)]
        return rows, columns

    def _sum(self, row: int, column: int) -> Val:
        """Return the sum of a row and a column, by their numbers among the lane's own."""
        tile = (row // self._halves) * self.numbers[1] + column // 2
        return self.totals[tile * self.unit.sums + (row % self._halves) * 2 + column % 2]

    def _rows(self, steps: Sequence[Index]) -> list[Place]:
        """Return the places of rows of the tile."""
        dims, checks = self.p.m, count(self.p.m) % self.tiles.tiling.m != 0
        return self._places(dims, self.share.row, steps, checks)

    def _columns(self, steps: Sequence[Index]) -> list[Place]:
        """Return the places of columns of the tile."""
        dims, checks = self.p.n, count(self.p.n) % self.tiles.tiling.n != 0
        return self._places(dims, self.share.column, steps, checks)

    def _places(
        self, dims: Dims, first: Index, steps: Sequence[Index], is_checked: bool
    ) -> list[Place]:
        b = self.k.b
        return [place_at(b, dims, b.add(first, n), is_checked=is_checked) for n in steps]

    def _put(self, row: Place, column: Place, value: Val) -> None:
        total = _as_total(self.k.b, value, scalar.ssa_type(self.ending.sum.total))
        share = self.share
        self.ending.put(self.k, self.p, share.part, share.batch, row, column, total)


def _as_total(b: Builder, value: Val, wanted: str) -> Val:
    """Return what the tensor core has added up in the type of sums."""
    return value if value.type == wanted else b.cast("trunc", value, wanted)
