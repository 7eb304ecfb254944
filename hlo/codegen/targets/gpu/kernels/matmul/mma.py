"""Tiled products on tensor cores.

Tiles of both operands are copied to shared memory, some steps ahead of the sums. A warp has the
sums of a part of the block's tile in registers, and reads of each operand what `mma` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Product, count
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.cost import mma_work
from hlo.codegen.targets.gpu.kernels.matmul.fragment_products import add_products, joined
from hlo.codegen.targets.gpu.kernels.matmul.fragments import fragments_of
from hlo.codegen.targets.gpu.kernels.matmul.layouts import TileLayout
from hlo.codegen.targets.gpu.kernels.matmul.results import Ending
from hlo.codegen.targets.gpu.kernels.matmul.staging import (
    Slots,
    commit_copies,
    runs_along_k,
    tiles_of,
    wait_for_copies,
)
from hlo.codegen.targets.gpu.kernels.matmul.tiles import WarpTiling, over_tiles, share_of
from hlo.codegen.targets.gpu.kernels.matmul.units import COLUMNS, Unit
from hlo.codegen.targets.gpu.kernels.matmul.warp_sums import WarpSums

# Static shared memory that kernels in small loops may have; more is dynamic.
_STATIC = 16 << 10


@dataclass(frozen=True)
class MmaProduct:
    """A product on tensor cores. aligned: what the operands' addresses are multiples of."""

    p: Product
    unit: Unit
    tiles: WarpTiling
    ending: Ending
    aligned: tuple[int, int]

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        b, p, unit, tiling = k.b, self.p, self.unit, self.tiles.tiling
        b.is_careful = True
        block = Block(b, k.target)
        threads = self.tiles.warps * k.target.lanes
        share = share_of(block, p, tiling)
        layouts = [self.layout("a"), self.layout("b")]
        slot_bytes = sum(x.bytes for x in layouts)
        total_bytes = slot_bytes * self.tiles.slots
        if total_bytes <= _STATIC:
            base = block.shared_array("i8", total_bytes, 128)
        else:
            base = block.dynamic_shared()
        places = [Slots(base, 0, slot_bytes), Slots(base, layouts[0].bytes, slot_bytes)]
        ets = unit.lhs, unit.rhs
        stagers = [
            tiles_of(
                k, block, p, side, share, layouts[n], places[n], ets[n], threads, self.aligned[n]
            )
            for n, side in enumerate("ab")
        ]
        warp = block.index(block.warp())
        down, across = b.udiv(warp, self.tiles.columns), b.urem(warp, self.tiles.columns)
        height, width = tiling.m // self.tiles.rows, tiling.n // self.tiles.columns
        firsts = b.mul(down, height), b.mul(across, width)
        numbers = height // unit.rows, width // COLUMNS
        readers = [
            fragments_of(block, side, unit, layouts[n], firsts[n], numbers[n])
            for n, side in enumerate("ab")
        ]

        def compute(slot: Index, totals: Sequence[Val]) -> Sequence[Val]:
            found = list(totals)
            bases = [place.address(b, slot) for place in places]
            for step in range(tiling.k // unit.depth):
                x, y = (r.read(base, step) for r, base in zip(readers, bases, strict=True))
                add_products(b, unit, x, y, found)
            return found

        zero = scalar.constant(unit.total, unit.total.dtype.type(0))
        assert isinstance(zero, Val)
        number = numbers[0] * numbers[1] * unit.sums * (2 if unit.is_split else 1)
        totals = over_tiles(
            block, tiling, share, self.tiles.slots, stagers, [zero] * number, compute,
            lambda: commit_copies(b), lambda: wait_for_copies(b, self.tiles.slots - 2),
        )  # fmt: skip
        if unit.is_split:
            totals = joined(b, totals)
        sums = WarpSums(k, block, p, unit, self.tiles, self.ending, share, firsts, numbers, totals)
        if self.ending.path and self.ending.partial < 0:
            wait_for_copies(b, 0)
            sums.store_through(base, total_bytes)
        else:
            sums.store()
        dynamic = total_bytes if total_bytes > _STATIC else 0
        done = mma_work(p, unit, self.tiles).work
        blocks = tiling.blocks(p)
        return Grid(
            blocks, count(p.k), blocks, threads, dynamic, done, is_final=True, is_large=True
        )

    def layout(self, side: str) -> TileLayout:
        """Return how tiles of an operand lie in shared memory."""
        unit, tiling = self.unit, self.tiles.tiling
        free = tiling.m if side == "a" else tiling.n
        # Matrices of bytes are not turned when they are loaded.
        along_k = runs_along_k(self.p, side) or unit.size == 1
        is_swizzled = unit.size < 4 or (unit.size == 4 and along_k)
        return TileLayout(free, tiling.k, unit.size, along_k, is_swizzled)
