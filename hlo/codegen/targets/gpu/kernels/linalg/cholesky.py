"""Cholesky factors A = L L*, a panel of columns at a time.

A launch computes one panel, a block each of its tiles: from the panels before it subtracts what
they contribute to the tile and to the panel's diagonal tile, which all blocks compute. Then it
eliminates the columns of both, one by one: the tile's rows are more rows of the diagonal tile. All
panels are the same kernels: the number of the panel is in the device's memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.linalg.matrices import element_of
from hlo.codegen.kernels.linalg.planes import (
    Field,
    Parts,
    WorkMatrix,
    conjugate,
    multiply_add,
    negated,
)
from hlo.codegen.llvm import FALSE, Index, Val, i32, i64
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.grid import over_threads
from hlo.codegen.targets.gpu.kernels.linalg.tiles import Tiles, side_of
from hlo.ir import Instruction
from hlo.values.types import ArrayShape

# Scratch memory: the factors, whether each has failed, and the number of the next panel.
_FACTORS, _FAILED, _NEXT = range(3)


@dataclass(frozen=True)
class _Sizes:
    """Matrices of n rows in tiles. A factor is stored as L, whichever triangle is asked for."""

    n: int
    batch: int
    field: Field

    @staticmethod
    def of(shape: ArrayShape, gpu: Gpu) -> _Sizes:
        return _Sizes(shape.dims[-1], math.prod(shape.dims[:-2]), Field.of(shape.element_type, gpu))

    @property
    def panels(self) -> int:
        return -(-self.n // side_of(self.field))

    @property
    def factor_bytes(self) -> int:
        return self.field.planes * self.n * self.n * self.field.bytes

    def factor(self, k: Kernel, matrix: Index) -> WorkMatrix:
        base = k.b.element_address(k.scratch[_FACTORS], "i8", k.b.mul(matrix, self.factor_bytes))
        return WorkMatrix(self.field, base, self.n, self.n * self.n)

    def failed(self, k: Kernel, matrix: Index) -> str:
        return k.b.element_address(k.scratch[_FAILED], "i32", matrix)


class _Tile:
    """Emission of one tile of a panel, and of the panel's diagonal tile."""

    def __init__(self, k: Kernel, panel: Index, tiles: Tiles) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.tiles = k, k.b, tiles
        self.sizes = _Sizes.of(k.shape, k.target)
        number = tiles.block.block_index()
        self.matrix = k.b.udiv(number, self.sizes.panels)
        self.at = k.b.urem(number, self.sizes.panels)
        self.top, self.left = (k.b.mul(x, tiles.side) for x in (self.at, panel))
        self.factor = self.sizes.factor(k, self.matrix)
        self.mine, self.diagonal = tiles.new(), tiles.new()

    def given(self, row: Index, column: Index) -> Parts:
        """Return an element of the matrix, below the diagonal; rows behind the last are that."""
        k, b, last = self.k, self.b, self.sizes.n - 1
        low, high = b.minimum(b.maximum(row, column), last), b.minimum(row, column)
        at = (low, b.minimum(high, last)) if k.inst.lower else (b.minimum(high, last), low)
        operand = k.inst.operands[0]
        value = k.elements.at(operand, element_of(b, operand.array_shape, self.matrix, *at))
        parts = self.tiles.field.parts(b, value)
        return parts if k.inst.lower else conjugate(b, parts)

    def known(self, row: Index, column: Index) -> Parts:
        """Return an element of the factor."""
        return self.factor.load(self.b, self.b.minimum(row, self.sizes.n - 1), column)

    def subtract(self) -> None:
        """Fill both tiles with the elements of the matrix, less the products of panels before."""
        b, tiles = self.b, self.tiles
        rows, pivots = tiles.new(), tiles.new()
        for tile, top in ((rows, self.top), (pivots, self.left)):

            def given(i: Index, j: Index, top: Index = top) -> Parts:
                return self.given(b.add(top, i), b.add(self.left, j))

            tiles.fill(tile, given, by_columns=not self.k.inst.lower)
        tiles.block.barrier()
        held = [*tiles.own(rows), *tiles.own(pivots)]
        tiles.block.barrier()
        with b.carrying(0, self.left, held, tiles.side, plain=True) as turn:
            done = turn.index
            for tile, top in ((rows, self.top), (pivots, self.left)):

                def element(i: Index, j: Index, top: Index = top, done: Index = done) -> Parts:
                    return self.known(b.add(top, i), b.add(done, j))

                tiles.fill(tile, element)
            tiles.block.barrier()
            turn.values = self._without_products(rows, pivots, turn.values)
            tiles.block.barrier()
        half = len(held) // 2
        tiles.put(self.mine, turn.values[:half])
        tiles.put(self.diagonal, turn.values[half:])
        tiles.block.barrier()

    def _without_products(self, rows: WorkMatrix, pivots: WorkMatrix, held: list[Val]) -> list[Val]:
        b, tiles = self.b, self.tiles
        planes = tiles.field.planes
        with b.carrying(0, tiles.side, held, rolled=True) as turn:
            values = [turn.values[n : n + planes] for n in range(0, len(held), planes)]
            found: list[Val] = []
            for n, tile in enumerate((rows, pivots)):
                factor = negated(b, tile.load(b, tiles.row, turn.index))
                for number in range(tiles.each):
                    other = conjugate(b, pivots.load(b, tiles.column(number), turn.index))
                    found += multiply_add(b, factor, other, values[n * tiles.each + number])
            turn.values = found
        return turn.values

    def eliminate(self) -> Val:
        """Eliminate the columns of both tiles; returns whether a pivot is not positive.

        Column j is left as it is: its elements are those of the factor times the root of the pivot.
        """
        b, tiles = self.b, self.tiles
        row = tiles.row
        count = b.minimum(b.sub(self.sizes.n, self.left), tiles.side)
        with b.carrying(0, count, [FALSE], plain=True) as turn:
            j = turn.index
            pivot = self.diagonal.load(b, j, j)[0]
            zero = scalar.constant(tiles.field.part, tiles.field.part.dtype.type(0))
            assert isinstance(zero, Val)
            is_bad = b.binary("xor", b.fcmp("ogt", pivot, zero), "true")
            turn.values = [b.binary("or", turn.values[0], is_bad)]
            for tile in (self.mine, self.diagonal):
                own = tile.load(b, row, j)
                factor = negated(b, [b.binary("fdiv", part, pivot) for part in own])
                for number in range(tiles.each):
                    column = tiles.column(number)
                    with b.when(b.compare("sgt", column, j)):
                        other = conjugate(b, self.diagonal.load(b, column, j))
                        total = tile.load(b, row, column)
                        tile.store(b, multiply_add(b, factor, other, total), row, column)
            tiles.block.barrier()
        return turn.values[0]

    def store(self) -> None:
        """Write the tile to the factor: that is the diagonal one of the first block."""
        b, n = self.b, self.sizes.n
        with self.tiles.each_place() as (row, column):
            i, j = b.add(self.top, row), b.add(self.left, column)
            is_there = b.both(b.compare("slt", i, n), b.compare("sle", j, i))
            with b.when(is_there):
                pivot, *imaginary = self.diagonal.load(b, column, column)
                root = b.intrinsic("sqrt", pivot.type, [pivot])
                value = [b.binary("fdiv", x, root) for x in self.mine.load(b, row, column)]
                zero = scalar.constant(self.tiles.field.part, self.tiles.field.part.dtype.type(0))
                assert isinstance(zero, Val)
                exact = [root, *(zero for _ in imaginary)]
                is_diagonal = b.compare("eq", i, j)
                parts = [b.select(is_diagonal, x, y) for x, y in zip(exact, value, strict=True)]
                self.factor.store(b, parts, i, j)


@dataclass(frozen=True)
class _Panel:
    """Compute a panel. number: of it, but for the word that tells: the first one is known."""

    number: int

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        b, block, sizes = k.b, Block(k.b, k.target), _Sizes.of(k.shape, k.target)
        tiles = Tiles(block, sizes.field, sizes.n, side_of(sizes.field))
        panel: Index = 0
        if self.number:
            panel = b.load("i64", self._word(k, self.number % 2)).name
        tile = _Tile(k, panel, tiles)
        with b.when(b.compare("sge", tile.at, panel)):
            tile.subtract()
            is_bad = tile.eliminate()
            tile.store()
            is_noted = b.both(block.is_first_thread(), b.compare("eq", tile.at, panel))
            with b.when(is_noted):
                failed = b.cast("zext", is_bad, "i32")
                address = sizes.failed(k, tile.matrix)
                if self.number:
                    failed = b.binary("or", failed, b.load("i32", address))
                b.store(failed, address)
        is_first = b.both(block.is_first_thread(), b.icmp("eq", block.block(), 0))
        with b.when(is_first):
            b.store(i64(b.add(panel, 1)), self._word(k, 1 - self.number % 2))
        blocks = sizes.batch * sizes.panels
        return Grid(blocks, 1.0, blocks, tiles.threads)

    def _word(self, k: Kernel, number: int) -> str:
        return k.b.element_address(k.scratch[_NEXT], "i64", number)


def _emit_result(k: Kernel) -> Grid:
    """Write the factor, with zeros in the other triangle; or NaN everywhere."""
    assert isinstance(k.target, Gpu)
    b, sizes = k.b, _Sizes.of(k.shape, k.target)
    f, lower = sizes.field, k.inst.lower
    nan, zero = (scalar.constant(f.part, f.part.dtype.type(x)) for x in (math.nan, 0.0))
    assert isinstance(nan, Val) and isinstance(zero, Val)

    def element(at: Index) -> None:
        matrix, row, column = split_index(b, at, [sizes.batch, sizes.n, sizes.n])
        i, j = (row, column) if lower else (column, row)
        is_bad = b.icmp("ne", b.load("i32", sizes.failed(k, matrix)), i32(0))
        is_inside = b.compare("sge", i, j)
        # The other triangle is not written.
        parts = sizes.factor(k, matrix).load(b, b.maximum(i, j), b.minimum(i, j))
        if not lower:
            parts = conjugate(b, parts)
        # NaN as in numpy: in the real part only.
        wrong = [nan, zero][: len(parts)]
        kept = [b.select(is_inside, x, zero) for x in parts]
        final = [b.select(is_bad, x, y) for x, y in zip(wrong, kept, strict=True)]
        k.store(f.value(b, final), element_of(b, k.shape, matrix, row, column))

    return over_threads(k, sizes.batch * sizes.n * sizes.n, element)


def plan_cholesky(inst: Instruction, _: Mapping[Instruction, Role], gpu: Gpu) -> Plan:
    """Plan the factors of matrices."""
    if not inst.array_shape.num_elements:
        return Plan(())
    sizes = _Sizes.of(inst.array_shape, gpu)
    # The second panel and the fourth are the same kernel, and so on.
    panels = [_Panel(n if n < 2 else 2 - n % 2) for n in range(sizes.panels)]
    memory = (sizes.batch * sizes.factor_bytes, 4 * sizes.batch, 16)
    return Plan((*panels, _emit_result), memory)


PLANNERS = {"cholesky": plan_cholesky}
