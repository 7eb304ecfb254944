"""Element loops over arrays that are read transposed: in tiles, through shared memory.

Such an array is contiguous along another loop than the innermost one, so that neighbouring threads
would read far apart. A block computes a tile of 32 by 32 elements of the result: it first reads the
array's elements for that along the array's memory, and writes them to shared memory, in lines of 33
so that threads that read across lines are in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from hlo.analysis.fusion.accesses import TransposedRead, transposed_reads
from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import Index
from hlo.codegen.loops.address import Indices, physical_index
from hlo.codegen.loops.collapse import collapsible
from hlo.codegen.loops.kernel import Kernel, grouped, indices_of, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.elements import emit_elements
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Elements on each side of a tile, and on the shortest side of an array that is worth tiles.
_SIDE, _SHORTEST = 32, 16
_THREADS = 256
# Each takes 4 KiB of shared memory, or 8.
_MOST_READS, _WIDEST = 4, 8


def plan_transposes(inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan | None:
    """Return the kernel of an instruction that reads arrays in tiles, None for any other one."""
    reads = transposed_reads(inst, roles, loop_order(inst.array_shape))
    return Plan((emit_tiles,)) if reads else None


def emit_tiles(k: Kernel) -> Grid:
    """Emit a kernel whose elements are computed from arrays that are read in tiles."""
    order = loop_order(k.shape)
    reads = [
        read
        for read in transposed_reads(k.inst, k.roles, order)
        if read.node in k.inputs.buffer_of
        and k.pointer(read.node) not in k.outputs
        and read.shape.element_type.byte_width <= _WIDEST
    ]
    if reads:
        tiles = _Tiles(k, order, reads[:_MOST_READS])
        if tiles.is_worthwhile:
            return tiles.emit()
    return emit_elements(k)


# What is done for an element of the result, which is at a row and a column of the tile.
_Body = Callable[[Indices, Index, Index], None]


class _Tiles:
    """Emission of one thread's elements of a tile."""

    def __init__(self, k: Kernel, order: Sequence[int], reads: Sequence[TransposedRead]) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.order = k, k.b, order
        self.block = Block(k.b, k.target)
        self.groups = grouped(order, collapsible(k.inst, k.roles, order))
        self.sizes = [math.prod(k.shape.dims[d] for d in g) for g in self.groups]
        along = order[reads[0].along]
        self.row = next(n for n, group in enumerate(self.groups) if along in group)
        self.column = len(self.groups) - 1
        self.reads = reads

    @property
    def is_worthwhile(self) -> bool:
        """True if most of a tile would be used."""
        return min(self.sizes[self.row], self.sizes[self.column]) >= _SHORTEST

    def emit(self) -> Grid:
        """Write the code."""
        b, k = self.b, self.k
        b.is_careful = True
        counts = [
            -(-n // _SIDE) if d in (self.row, self.column) else n for d, n in enumerate(self.sizes)
        ]
        self.corner = split_index(b, self.block.block_index(), counts)
        for d in (self.row, self.column):
            self.corner[d] = b.mul(self.corner[d], _SIDE)
        thread = self.block.thread_index()
        lane, line = b.urem(thread, _SIDE), b.udiv(thread, _SIDE)
        lines = [b.add(line, n) for n in range(0, _SIDE, _THREADS // _SIDE)]
        tiles = [_Tile(self, read) for read in self.reads]

        def fill(at: Indices, row: Index, column: Index) -> None:
            for tile in tiles:
                tile.fill(at, row, column)

        for column in lines:
            self._visit(lane, column, fill)
        self.block.barrier()

        def compute(at: Indices, row: Index, column: Index) -> None:
            for tile in tiles:
                tile.use(row, column)
            k.store(k.elements.compute(k.inst, at), at)

        for row in lines:
            self._visit(row, lane, compute)
        blocks = math.prod(counts)
        return Grid(blocks * _THREADS, 1.0, blocks, _THREADS)

    def _visit(self, row: Index, column: Index, body: _Body) -> None:
        """Write what is done for an element of the tile, if there is one."""
        b = self.b
        here = list(self.corner)
        inside = []
        for d, i in ((self.row, row), (self.column, column)):
            here[d] = b.add(here[d], i)
            if self.sizes[d] % _SIDE:
                inside.append(b.compare("slt", here[d], self.sizes[d]))
        at = indices_of(b, self.k.shape, self.groups, here)
        if not inside:
            body(at, row, column)
            return
        with b.when(b.both(inside[0], inside[-1])):
            body(at, row, column)


class _Tile:
    """A tile of an array in shared memory, the array's own lines one after the other."""

    def __init__(self, tiles: _Tiles, read: TransposedRead) -> None:
        self.b, self.k, self.order, self.read = tiles.b, tiles.k, tiles.order, read
        self.word = f"i{8 * self.shape.element_type.byte_width}"
        self.memory = tiles.block.shared_array(self.word, _SIDE * (_SIDE + 1))
        # The present element of the tile.
        self.place: Index = 0
        self.k.elements.kept[read.node] = self._load

    @property
    def shape(self) -> ArrayShape:
        return self.read.shape

    def use(self, row: Index, column: Index) -> None:
        """Say which element of the tile is computed next."""
        self.place = self.b.add(self.b.mul(column, _SIDE + 1), row)

    def fill(self, at: Indices, row: Index, column: Index) -> None:
        """Copy the array's element for an element of the result. at: the index of that."""
        b = self.b
        indices: list[Index] = list(self.read.origin)
        for dim, d in zip(self.read.loop_dims, self.order, strict=True):
            if dim is not None:
                indices[dim] = at[d]
        start = physical_index(b, self.shape, tuple(indices))
        raw = b.load(self.word, b.element_address(self.k.pointer(self.read.node), self.word, start))
        self.use(row, column)
        b.store(raw, b.element_address(self.memory, self.word, self.place))

    def _load(self, _: Indices) -> Value:
        return scalar.load(self.b, self.shape.element_type, self.memory, self.place)
