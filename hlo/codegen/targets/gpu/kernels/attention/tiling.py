"""How an attention is cut into tiles, and how these lie in shared memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from hlo.codegen.kernels.matmul.product import Product, count
from hlo.codegen.targets.gpu.kernels.matmul.layouts import CHUNK, TileLayout
from hlo.codegen.targets.gpu.kernels.matmul.staging import runs_along_k
from hlo.codegen.targets.gpu.kernels.matmul.units import COLUMNS, Unit

# Rows of a warp.
ROWS = 16
# Keys of a tile, and the tiles of K and V that there is room for.
KEYS, SLOTS = 32, 2
# The least bytes of a line of a tile, so that all threads of a block copy something.
_LINE = 64


@dataclass(frozen=True)
class Attention:
    """Two products of which the second one's rows are made of those of the first.

    first: C[rows, keys] of Q and K. last: with the rows, as A, and V. units: which `mma` computes
    each. batch_steps, row_steps: the distance, in rows of the space, of neighbours in each of the
    dimensions of the batch, and of rows. warps: of a block. aligned: what the addresses of Q, K and
    V are multiples of.
    """

    first: Product
    last: Product
    units: tuple[Unit, Unit]
    batch_steps: tuple[int, ...]
    row_steps: tuple[int, ...]
    warps: int
    aligned: tuple[int, int, int]

    @property
    def rows(self) -> int:
        """The rows of a block."""
        return self.warps * ROWS

    @property
    def blocks(self) -> int:
        return count(self.last.batch) * self.row_blocks

    @property
    def row_blocks(self) -> int:
        """The blocks of each batch."""
        return -(-count(self.last.m) // self.rows)

    @property
    def length(self) -> int:
        """How many keys there are."""
        return count(self.last.k)

    @property
    def tiles(self) -> int:
        """How many tiles of keys there are."""
        return -(-self.length // KEYS)

    @property
    def steps(self) -> int:
        """How many steps along what the first product sums over."""
        return -(-count(self.first.k) // self.units[0].depth)

    @property
    def fragments(self) -> int:
        """How many fragments V has, which are read in pairs."""
        return -(-count(self.last.n) // (2 * COLUMNS)) * 2

    @property
    def turned(self) -> Product:
        """The first product as if keys were summed over: a tile of K is like one of V then."""
        return replace(self.first, n=self.first.k, k=self.first.n)

    @cached_property
    def q(self) -> TileLayout:
        """The tile of Q."""
        size, along_k = self.units[0].size, runs_along_k(self.first, "a")
        depth = _room(count(self.first.k), size)
        return TileLayout(self.rows, depth, size, along_k, size < 4 or along_k)

    @cached_property
    def k(self) -> TileLayout:
        """A tile of K, as it is copied."""
        size, along_keys = self.units[0].size, runs_along_k(self.turned, "b")
        free = _room(count(self.first.k), size)
        return TileLayout(free, KEYS, size, along_keys, size < 4 or not along_keys)

    @cached_property
    def k_read(self) -> TileLayout:
        """A tile of K, as it is multiplied."""
        return replace(self.k, free=self.k.depth, depth=self.k.free, along_k=not self.k.along_k)

    @cached_property
    def v(self) -> TileLayout:
        """A tile of V."""
        size, along_keys = self.units[1].size, runs_along_k(self.last, "b")
        free = _room(count(self.last.n), size)
        # Of 32 bits, four lanes that read every other line begin in different banks.
        return TileLayout(free, KEYS, size, along_keys, size < 4, padding=CHUNK)

    @property
    def slot_bytes(self) -> int:
        """The bytes of a tile of K and one of V."""
        return self.k.bytes + self.v.bytes

    @property
    def shared_bytes(self) -> int:
        return SLOTS * self.slot_bytes + self.q.bytes


def _room(length: int, size: int) -> int:
    """Return how many elements a line has room for: chunks are in any order of a power of two."""
    return 1 << (max(length, _LINE // size) - 1).bit_length()
