"""Triangular systems: a block some columns of the right-hand sides.

It solves for one tile of rows after the other: first it subtracts the products with the rows that
are known, then lanes that have the rows of the tile exchange solutions.
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
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.linalg.tiles import Tiles, side_of
from hlo.ir import Instruction


@dataclass(frozen=True)
class _System:
    """A lower system L X = B.

    swapped: L is the operand's transpose. reversed: rows count from the last.
    """

    n: int
    columns: int
    batch: int
    left: bool
    unit: bool
    conjugated: bool
    swapped: bool
    reversed: bool

    @staticmethod
    def of(inst: Instruction) -> _System:
        a, x, left = inst.operands[0].array_shape, inst.array_shape, inst.left_side
        swapped = (inst.transpose_a != "NO_TRANSPOSE") == left
        return _System(
            a.dims[-1], x.dims[-1 if left else -2], math.prod(a.dims[:-2]), left,
            inst.unit_diagonal, inst.transpose_a == "ADJOINT", swapped, inst.lower == swapped,
        )  # fmt: skip

    def row(self, b: Builder, i: Index) -> Index:
        """Return the row of the operands of a row that exists, or of the last one."""
        i = b.minimum(i, self.n - 1)
        return b.sub(self.n - 1, i) if self.reversed else i


class _Solver:
    """Emission of the solution for some columns of one system."""

    def __init__(self, k: Kernel, s: _System) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.s = k, k.b, s
        field = Field.of(k.shape.element_type, k.target)
        self.block = Block(k.b, k.target)
        self.chunk = min(side_of(field), s.columns)
        self.tiles = Tiles(self.block, field, s.n, self.chunk)
        self.chunks = -(-s.columns // self.chunk)
        number = self.block.block_index()
        self.system = k.b.udiv(number, self.chunks)
        self.first = k.b.mul(k.b.urem(number, self.chunks), self.chunk)
        self.matrix, self.known = self.tiles.new(), self.tiles.new()

    def coefficient(self, i: Index, j: Index) -> Parts:
        """Return an element of the system's matrix."""
        b, s, operand = self.b, self.s, self.k.inst.operands[0]
        row, column = s.row(b, i), s.row(b, j)
        if s.swapped:
            row, column = column, row
        at = element_of(b, operand.array_shape, self.system, row, column)
        parts = self.tiles.field.parts(b, self.k.elements.at(operand, at))
        return conjugate(b, parts) if s.conjugated else parts

    def _place(self, i: Index, column: Index) -> tuple[Index, ...]:
        b, s = self.b, self.s
        row, at = s.row(b, i), b.minimum(b.add(self.first, column), s.columns - 1)
        return element_of(b, self.k.shape, self.system, *((row, at) if s.left else (at, row)))

    def right_hand_side(self, i: Index, column: Index) -> Parts:
        value = self.k.elements.at(self.k.inst.operands[1], self._place(i, column))
        return self.tiles.field.parts(self.b, value)

    def solution(self, i: Index, column: Index) -> Parts:
        """Return what has been stored."""
        return self.work.load(self.b, i, self._work_column(column))

    def store(self, i: Index, column: Index, parts: Parts) -> None:
        """Store an element of the solution if there is one."""
        b, s = self.b, self.s
        is_there = b.both(
            b.compare("slt", i, s.n), b.compare("slt", b.add(self.first, column), s.columns)
        )
        with b.when(b.both(is_there, b.compare("slt", column, self.chunk))):
            self.work.store(b, parts, i, self._work_column(column))
            self.k.store(self.tiles.field.value(b, parts), self._place(i, column))

    @property
    def work(self) -> WorkMatrix:
        """The solutions of the system, which are rounded in the result."""
        f, s, b = self.tiles.field, self.s, self.b
        size = s.n * s.columns
        base = b.element_address(self.k.scratch[0], f.type, b.mul(self.system, f.planes * size))
        return WorkMatrix(f, base, s.columns, size)

    def _work_column(self, column: Index) -> Index:
        return self.b.minimum(self.b.add(self.first, column), self.s.columns - 1)


def _emit_solve(k: Kernel) -> Grid:
    """Solve for some columns in a block."""
    s = _System.of(k.inst)
    solver = _Solver(k, s)
    b, tiles, block = k.b, solver.tiles, solver.block
    side = tiles.side
    with b.loop(0, s.n, side, plain=True) as first:

        def given(i: Index, j: Index, first: Index = first) -> Parts:
            return solver.right_hand_side(b.add(first, i), j)

        tiles.fill(solver.known, given, by_columns=not s.left)
        block.barrier()
        held = tiles.own(solver.known)
        block.barrier()
        with b.carrying(0, first, held, side, plain=True) as turn:
            done = turn.index

            def coefficient(i: Index, j: Index, first: Index = first, done: Index = done) -> Parts:
                return solver.coefficient(b.add(first, i), b.add(done, j))

            def solution(i: Index, j: Index, done: Index = done) -> Parts:
                return solver.solution(b.add(done, i), j)

            tiles.fill(solver.matrix, coefficient, by_columns=s.swapped)
            tiles.fill(solver.known, solution)
            block.barrier()
            turn.values = _without_products(solver, turn.values)
            block.barrier()

        def diagonal(i: Index, j: Index, first: Index = first) -> Parts:
            return solver.coefficient(b.add(first, i), b.add(first, j))

        tiles.fill(solver.matrix, diagonal, by_columns=s.swapped)
        block.barrier()
        tiles.put(solver.known, _solved(solver, turn.values))
        block.barrier()
        with tiles.each_place(by_columns=not s.left) as (i, j):
            solver.store(b.add(first, i), j, solver.known.load(b, i, j))
        block.barrier()
    blocks = s.batch * solver.chunks
    return Grid(blocks, 1.0, blocks, tiles.threads)


def _without_products(solver: _Solver, held: list[Val]) -> list[Val]:
    """Subtract the products of a tile of the matrix and known solutions."""
    b, tiles = solver.b, solver.tiles
    planes = tiles.field.planes
    with b.carrying(0, tiles.side, held, rolled=True) as turn:
        factor = negated(b, solver.matrix.load(b, tiles.row, turn.index))
        found: list[Val] = []
        for number in range(tiles.each):
            x = solver.known.load(b, turn.index, tiles.column(number))
            total = turn.values[number * planes : (number + 1) * planes]
            found += multiply_add(b, factor, x, total)
        turn.values = found
    return turn.values


def _solved(solver: _Solver, held: list[Val]) -> list[Val]:
    """Solve the system of a tile: lanes have its rows, and take the solutions of those before."""
    b, tiles, block = solver.b, solver.tiles, solver.block
    side, planes, row = tiles.side, tiles.field.planes, tiles.row
    lane = block.lane()
    group = b.binary("sub", lane, b.cast("trunc", Val("i64", str(row)), "i32"))
    diagonal = solver.matrix.load(b, row, row)
    with b.carrying(0, side, held, plain=True) as turn:
        r = turn.index
        source = b.binary("add", group, b.cast("trunc", Val("i64", r), "i32"))
        factor = negated(b, solver.matrix.load(b, row, r))
        is_own, is_later = b.compare("eq", row, r), b.compare("sgt", row, r)
        found: list[Val] = []
        for number in range(tiles.each):
            own = turn.values[number * planes : (number + 1) * planes]
            mine = own if solver.s.unit else tiles.divide(own, diagonal)
            x = [block.from_lane(part, source) for part in mine]
            later = multiply_add(b, factor, x, own)
            found += [
                b.select(is_own, new, b.select(is_later, rest, old))
                for new, rest, old in zip(x, later, own, strict=True)
            ]
        turn.values = found
    return turn.values


def plan_triangular_solve(inst: Instruction, _: Mapping[Instruction, Role], gpu: Gpu) -> Plan:
    """Plan the solution of systems."""
    if not inst.array_shape.num_elements:
        return Plan(())
    field = Field.of(inst.array_shape.element_type, gpu)
    return Plan((_emit_solve,), (inst.array_shape.num_elements * field.planes * field.bytes,))


PLANNERS = {"triangular-solve": plan_triangular_solve}
