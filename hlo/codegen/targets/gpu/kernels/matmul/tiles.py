"""Tiles: which part of a product a block computes, and the loop over its tiles of k."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Product, count
from hlo.codegen.llvm import Builder, Index, Val, i64
from hlo.codegen.loops.kernel import split_index
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.operands import Place, place_at

# So many rows of tiles are computed side by side: the blocks that run at a time then read few
# tiles of each operand, which stay in the second-level cache.
_BAND = 8


@dataclass(frozen=True)
class Tiling:
    """How a product is cut into blocks: of m rows and n columns; k at a time.

    parts: of k, each summed by blocks of its own.
    """

    m: int
    n: int
    k: int
    parts: int = 1

    def rows(self, p: Product) -> int:
        return -(-count(p.m) // self.m)

    def columns(self, p: Product) -> int:
        return -(-count(p.n) // self.n)

    def steps(self, p: Product) -> int:
        """Return how many tiles there are along k."""
        return -(-count(p.k) // self.k)

    def each(self, p: Product) -> int:
        """Return how many tiles along k a part has."""
        return -(-self.steps(p) // self.parts)

    def blocks(self, p: Product) -> int:
        return count(p.batch) * self.rows(p) * self.columns(p) * self.parts


@dataclass(frozen=True)
class WarpTiling:
    """The tile of a block, and by how many warps along m and n it is computed.

    slots: how many tiles of each operand there is room for.
    """

    tiling: Tiling
    rows: int
    columns: int
    slots: int

    @property
    def warps(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class Share:
    """What a block computes: the tile from a row and a column on, tiles `begin` to `end` of k."""

    part: Index
    batch: Place
    row: Index
    column: Index
    begin: Index
    end: Index


def share_of(block: Block, p: Product, tiling: Tiling) -> Share:
    """Return what the block of the present thread computes."""
    b = block.b
    rows, columns = tiling.rows(p), tiling.columns(p)
    outer, tile = split_index(
        b, block.block_index(), [count(p.batch) * tiling.parts, rows * columns]
    )
    part, number = split_index(b, outer, [tiling.parts, count(p.batch)])
    # Bands of rows, columns along them; the last band may have fewer rows.
    band, inside = split_index(b, tile, [-(-rows // _BAND), min(_BAND, rows) * columns])
    if rows % min(_BAND, rows) == 0:
        column, row = split_index(b, inside, [columns, min(_BAND, rows)])
    else:
        is_last = b.compare("eq", band, rows // _BAND)
        left = b.select(is_last, i64(rows % _BAND), i64(_BAND)).name
        column = b.binary("udiv", i64(inside), left).name
        row = b.sub(inside, b.mul(column, left))
    row = b.add(b.mul(band, _BAND), row)
    each = tiling.each(p)
    begin: Index = b.mul(part, each)
    end = b.minimum(b.add(begin, each), tiling.steps(p)) if tiling.parts > 1 else each
    return Share(
        part, place_at(b, p.batch, number), b.mul(row, tiling.m), b.mul(column, tiling.n), begin,
        end,
    )  # fmt: skip


class Stager(ABC):
    """Copies the tiles of one operand to shared memory, which has several slots for them."""

    @abstractmethod
    def begin(self, first: Index, slot: Index) -> None:
        """Begin to copy the tile from an index of k on to a slot."""

    @abstractmethod
    def finish(self, slot: Index) -> None:
        """Write what had to be loaded first."""


def over_tiles(
    block: Block, tiling: Tiling, share: Share, slots: int, stagers: Sequence[Stager],
    sums: Sequence[Val], compute: Callable[[Index, Sequence[Val]], Sequence[Val]],
    commit: Callable[[], None], wait: Callable[[], None],
) -> list[Val]:  # fmt: skip
    """Copy tiles ahead of the sums that are taken of them; returns the sums.

    compute: adds to sums the products of the tiles in a slot. commit, wait: end what was begun
    together, and wait until all but the last `slots - 2` of these are there.
    """
    b = block.b
    last = b.sub(share.end, 1)

    def stage(tile: Index, slot: Index, between: Callable[[], None]) -> None:
        # Beyond the end the last tile is copied again: that is not looked at.
        first = b.mul(b.minimum(tile, last), tiling.k)
        for stager in stagers:
            stager.begin(first, slot)
        commit()
        between()
        for stager in stagers:
            stager.finish(slot)

    # A loop, as code that computes places of operands is long.
    with b.loop(0, slots - 1, plain=True) as ahead:
        stage(b.add(share.begin, ahead), ahead, lambda: None)
    state = [*sums, i64(0)]
    with b.carrying(share.begin, share.end, state, plain=True) as turn:
        *totals, current = turn.values
        wait()
        block.barrier()
        slot = current.name
        found: list[Val] = []

        def add(slot: Index = slot) -> None:
            found.extend(compute(slot, totals))

        stage(b.add(turn.index, slots - 1), _turned(b, slot, slots - 1, slots), add)
        turn.values = [*found, i64(_turned(b, slot, 1, slots))]
    return list(turn.values[:-1])


def _turned(b: Builder, slot: Index, by: int, slots: int) -> Index:
    """Return the slot that comes so many after another."""
    if slots == 1:
        return 0
    if slots == 2:
        return b.sub(1, slot) if by == 1 else slot
    moved = b.add(slot, by)
    wraps = b.compare("sge", moved, slots)
    return b.select(wraps, i64(b.sub(moved, slots)), i64(moved)).name
