"""Tiled products by multiply-adds, for every element type.

A block of 16 by 16 threads has a tile of each operand in shared memory, in the type of sums, k
outermost. A thread has the sums of a few rows by a few columns in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Product, count
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.cost import fma_work
from hlo.codegen.targets.gpu.kernels.matmul.operands import Operand, Place, place_at
from hlo.codegen.targets.gpu.kernels.matmul.results import Ending
from hlo.codegen.targets.gpu.kernels.matmul.staging import runs_along_k
from hlo.codegen.targets.gpu.kernels.matmul.sums import parts_of, value_of
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Share, Stager, Tiling, over_tiles, share_of
from hlo.values.types import ElementType

# Threads along each side of a block's tile.
_SIDE = 16
THREADS = _SIDE * _SIDE
_SLOTS = 2
# Neighbouring elements that a thread reads from shared memory at once.
_RUN = 4


@dataclass(frozen=True)
class FmaProduct:
    """A tiled product. tiling: of 16 times a power of two rows, and as many columns, or others."""

    p: Product
    tiling: Tiling
    ending: Ending

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        b, p, tiling, sums = k.b, self.p, self.tiling, self.ending.sum
        b.is_careful = True
        block = Block(b, k.target)
        share = share_of(block, p, tiling)
        a = ElementTiles(k, block, p, "a", share, tiling, sums.total)
        c = ElementTiles(k, block, p, "b", share, tiling, sums.total)
        thread = block.thread_index()
        y, x = b.udiv(thread, _SIDE), b.urem(thread, _SIDE)
        rows, columns = _places(tiling.m), _places(tiling.n)
        own = [[b.add(b.mul(at, width), n) for n, width in places]
               for at, places in ((y, rows), (x, columns))]  # fmt: skip

        def compute(slot: Index, totals: Sequence[Val]) -> Sequence[Val]:
            with b.carrying(0, tiling.k, totals) as turn:
                left = [a.element(slot, turn.index, at) for at in own[0]]
                right = [c.element(slot, turn.index, at) for at in own[1]]
                held, found = iter(_values(turn.values, sums.parts)), []
                for m in left:
                    for n in right:
                        found += parts_of(sums.multiply_add(b, m, n, next(held)))
                turn.values = found
            return turn.values

        zeros = sums.zero() * (len(rows) * len(columns))
        nothing = _nothing
        totals = over_tiles(block, tiling, share, _SLOTS, (a, c), zeros, compute, nothing, nothing)
        self._end(k, share, own, _values(totals, sums.parts))
        done = fma_work(p, sums, tiling).work
        return Grid(tiling.blocks(p), count(p.k), tiling.blocks(p), THREADS, 0, done)

    def _end(
        self, k: Kernel, share: Share, own: Sequence[Sequence[Index]], values: Sequence[Value]
    ) -> None:
        """Write the sums that are of the product."""
        b, p, tiling = k.b, self.p, self.tiling
        checks = count(p.m) % tiling.m != 0, count(p.n) % tiling.n != 0
        columns = [place_at(b, p.n, b.add(share.column, at), is_checked=checks[1]) for at in own[1]]
        found = iter(values)
        for at in own[0]:
            row = place_at(b, p.m, b.add(share.row, at), is_checked=checks[0])
            for column in columns:
                with b.when(b.both(row.inside, column.inside)):
                    self.ending.put(k, p, share.part, share.batch, row, column, next(found))


def _nothing() -> None:
    """There is nothing to wait for."""


def _values(parts: Sequence[Val], each: int) -> list[Value]:
    return [value_of(parts[n : n + each]) for n in range(0, len(parts), each)]


def _places(size: int) -> list[tuple[int, int]]:
    """Return where a thread's rows or columns are: so far on, and for each thread before so many.

    Each thread has runs of a few, next to those of its neighbours, so that no two read from one
    bank of shared memory.
    """
    own = size // _SIDE
    run = min(own, _RUN)
    return [(n // run * run * _SIDE + n % run, run) for n in range(own)]


class ElementTiles(Stager):
    """Tiles of an operand whose elements are loaded one by one, in the type of sums."""

    def __init__(
        self, k: Kernel, block: Block, p: Product, side: str, share: Share, tiling: Tiling,
        et: ElementType,
    ) -> None:  # fmt: skip
        self.k, self.p, self.share, self.et = k, p, share, et
        self.operand = Operand(k, p, side, et)
        b = k.b
        self.size = tiling.m if side == "a" else tiling.n
        self.pitch = self.size + _RUN
        self.memory = scalar.memory_type(et)
        self.parts = 2 if et.is_complex else 1
        self.slot_size = tiling.k * self.pitch * self.parts
        self.base = block.shared_array(self.memory, _SLOTS * self.slot_size)
        self.checks_k = count(p.k) % tiling.k != 0
        thread, dims = block.thread_index(), p.free(side)
        first = share.row if side == "a" else share.column
        checks = count(dims) % self.size != 0
        # Which elements of a tile are the thread's: index along m or n, and along k.
        self.own: list[tuple[Index, Place, Index]] = []
        along_k = runs_along_k(p, side)
        inner = tiling.k if along_k else self.size
        for n in range(self.size * tiling.k // THREADS):
            at = b.add(thread, n * THREADS)
            far, near = b.udiv(at, inner), b.urem(at, inner)
            if THREADS % inner == 0:
                far = b.add(b.udiv(thread, inner), n * THREADS // inner)
                near = b.urem(thread, inner)
            free, depth = (far, near) if along_k else (near, far)
            place = place_at(b, dims, b.add(first, free), is_checked=checks)
            self.own.append((free, place, depth))
        self.loaded: list[Value] = []

    def begin(self, first: Index, slot: Index) -> None:
        b, p = self.k.b, self.p
        self.loaded = []
        for _, place, depth in self.own:
            inner = place_at(b, p.k, b.add(first, depth), is_checked=self.checks_k)
            self.loaded.append(self.operand.at(self.share.batch, place, inner))

    def finish(self, slot: Index) -> None:
        b = self.k.b
        for (free, _, depth), value in zip(self.own, self.loaded, strict=True):
            at = b.add(b.mul(depth, self.pitch), free)
            scalar.store(b, self.et, value, self._slot(slot), at)

    def element(self, slot: Index, depth: Index, free: Index) -> Value:
        """Return an element of the tile in a slot."""
        b = self.k.b
        at = b.add(b.mul(depth, self.pitch), free)
        return scalar.load(b, self.et, self._slot(slot), at)

    def _slot(self, slot: Index) -> str:
        b = self.k.b
        return b.element_address(self.base, self.memory, b.mul(slot, self.slot_size))
