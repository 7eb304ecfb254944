"""Triangular systems L X = B, whose rows are solved in order, block by block (see `matrices`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.linalg.matrices import (
    OUTER_ROWS,
    element_of,
    over_blocks,
    over_triangle,
    pitch_of,
)
from hlo.codegen.kernels.linalg.planes import (
    Divisor,
    Field,
    WorkMatrix,
    conjugate,
    multiply_add,
    negated,
    over_vectors,
    spread,
    update,
)
from hlo.codegen.kernels.matmul.microkernels import Microkernel
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.kernel import Kernel, planner, slot_of, split_index
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction

# Solutions are computed for so many bytes of the right-hand side at a time, which fit the cache.
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class _Solve:
    """A triangular system, as a lower one whose unknowns are the rows of a matrix.

    swapped: the system's matrix is the operand's transpose. reversed: rows count from the last.
    """

    n: int
    columns: int
    batch: int
    field: Field
    microkernel: Microkernel
    chunk: int
    left: bool
    lower: bool
    unit: bool
    conjugated: bool
    swapped: bool

    @staticmethod
    def of(inst: Instruction, target: Target) -> _Solve:
        a, x = inst.operands[0].array_shape, inst.array_shape
        n = a.dims[-1]
        left, transpose = inst.left_side, inst.transpose_a
        columns = x.dims[-1 if left else -2]
        field = Field.of(a.element_type, target)
        kernel = field.microkernel(target, columns)
        row_bytes = kernel.nr * field.bytes * field.planes
        tiles = max(1, min(-(-columns // kernel.nr), _CHUNK_BYTES // (row_bytes * max(n, 1))))
        return _Solve(
            n, columns, math.prod(a.dims[:-2]), field, kernel, tiles * kernel.nr, left,
            inst.lower, inst.unit_diagonal, transpose == "ADJOINT",
            (transpose != "NO_TRANSPOSE") == left,
        )  # fmt: skip

    @property
    def reversed(self) -> bool:
        return self.lower == self.swapped

    @property
    def chunks(self) -> int:
        return -(-self.columns // self.chunk)

    @property
    def matrix_bytes(self) -> int:
        """Of minus the matrix below its diagonal, column by column, and of the diagonal."""
        planes = 2 * self.field.planes - 1
        return (planes * self.n * self.pitch + self.field.planes * self.n) * self.field.bytes

    @property
    def pitch(self) -> int:
        return pitch_of(self.n, self.field, self.field.lanes) if self.n > OUTER_ROWS else self.n

    @property
    def chunk_bytes(self) -> int:
        return self.field.planes * self.n * self.chunk * self.field.bytes

    def matrix(self, k: Kernel, number: Index) -> WorkMatrix:
        base = k.b.element_address(k.scratch[0], "i8", k.b.mul(number, self.matrix_bytes))
        return WorkMatrix(self.field, base, self.pitch, self.n * self.pitch)

    def diagonal(self, k: Kernel, number: Index) -> WorkMatrix:
        whole = self.matrix(k, number)
        at = (2 * self.field.planes - 1) * self.n * self.pitch
        base = k.b.element_address(whole.base, self.field.type, at)
        return WorkMatrix(self.field, base, self.n, self.n)

    def unknowns(self, k: Kernel, slot: Index) -> WorkMatrix:
        base = k.b.element_address(k.scratch[1], "i8", k.b.mul(slot, self.chunk_bytes))
        return WorkMatrix(self.field, base, self.chunk, self.n * self.chunk)

    def row(self, b: Builder, i: Index) -> Index:
        """Return the row of an unknown."""
        return b.sub(self.n - 1, i) if self.reversed else i


@planner("triangular-solve")
def _plan_solve(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    if not inst.array_shape.num_elements:
        return Plan(())
    s = _Solve.of(inst, target)
    count = target.slots(s.batch * s.chunks)
    return Plan((_load_system, _solve), (s.batch * s.matrix_bytes, count * s.chunk_bytes))


def _load_system(k: Kernel) -> Extent:
    """Copy the given triangle, negated, and its diagonal."""
    b, s = k.b, _Solve.of(k.inst, k.target)
    operand = k.inst.operands[0]
    shape = operand.array_shape
    with b.loop(k.begin, k.end, plain=True) as number:
        matrix, diagonal = s.matrix(k, number), s.diagonal(k, number)

        def element(row: Index, column: Index) -> list[Val]:
            value = k.elements.at(operand, element_of(b, shape, number, row, column))
            parts = s.field.parts(b, value)
            return conjugate(b, parts) if s.conjugated else parts

        def copy(row: Index, column: Index) -> None:
            parts = negated(b, element(row, column))
            i, kk = (column, row) if s.swapped else (row, column)
            matrix.store(b, [*parts, *negated(b, parts[1:])], s.row(b, kk), s.row(b, i))

        over_triangle(b, shape, s.lower, False, copy)
        if not s.unit:
            with b.loop(0, s.n, rolled=True) as i:
                diagonal.store(b, element(i, i), 0, s.row(b, i))
    return Extent(s.batch, s.n * s.n / 2)


def _solve(k: Kernel) -> Extent:
    """Solve for a chunk of the columns of the right-hand sides."""
    b, s = k.b, _Solve.of(k.inst, k.target)
    x = s.unknowns(k, slot_of(k, s.batch * s.chunks))
    with b.loop(k.begin, k.end, plain=True) as at:
        number, chunk = split_index(b, at, [s.batch, s.chunks])
        matrix, diagonal = s.matrix(k, number), s.diagonal(k, number)
        first = b.mul(chunk, s.chunk)
        count = b.minimum(s.chunk, b.sub(s.columns, first))
        _exchange(k, s, x, number, first, count, to_memory=False)

        def finish(begin: Index, end: Index) -> None:
            _finish_rows(k, s, matrix, diagonal, x, begin, end, count)

        def inside(begin: Index, last: Index, end: Index) -> None:
            update(
                k,
                s.microkernel,
                matrix,
                x,
                x,
                rows=(last, end),
                inner=(begin, last),
                columns=(0, count),
            )

        def after(begin: Index, end: Index) -> None:
            update(
                k,
                s.microkernel,
                matrix,
                x,
                x,
                rows=(end, s.n),
                inner=(begin, end),
                columns=(0, count),
            )

        over_blocks(b, s.n, finish, inside, after)
        _exchange(k, s, x, number, first, count, to_memory=True)
    return Extent(s.batch * s.chunks, s.n * s.n * s.chunk / s.field.lanes + 3 * s.n * s.chunk)


def _exchange(
    k: Kernel,
    s: _Solve,
    x: WorkMatrix,
    number: Index,
    first: Index,
    count: Index,
    *,
    to_memory: bool,
) -> None:
    """Copy some columns of the right-hand side to the workspace, or of the solution from it."""
    b, operand, shape = k.b, k.inst.operands[1], k.shape
    source = shape if to_memory else operand.array_shape

    def copy(row: Index, column: Index) -> None:
        i, j = (row, b.add(column, first)) if s.left else (b.add(row, first), column)
        unknown, rhs = (row, column) if s.left else (column, row)
        place = element_of(b, source, number, i, j)
        if to_memory:
            k.store(s.field.value(b, x.load(b, s.row(b, unknown), rhs)), place)
        else:
            parts = s.field.parts(b, k.elements.at(operand, place))
            x.store(b, parts, s.row(b, unknown), rhs)

    assert source.layout is not None
    order = source.layout.minor_to_major
    rows, columns = ((0, s.n), (0, count)) if s.left else ((0, count), (0, s.n))
    if order.index(source.rank - 1) < order.index(source.rank - 2):
        with b.loop(*rows, plain=True) as row, b.loop(*columns, rolled=True) as column:
            copy(row, column)
    else:
        with b.loop(*columns, plain=True) as column, b.loop(*rows, rolled=True) as row:
            copy(row, column)


def _finish_rows(
    k: Kernel,
    s: _Solve,
    matrix: WorkMatrix,
    diagonal: WorkMatrix,
    x: WorkMatrix,
    begin: Index,
    end: Index,
    count: Index,
) -> None:
    """Solve for a few rows, from which all previous ones have been subtracted."""
    b, f = k.b, s.field
    with b.loop(begin, end, plain=True) as row:
        if not s.unit:
            divisor = Divisor(b, f, diagonal.load(b, 0, row))

            def scale(j: str, row: Index = row, divisor: Divisor = divisor) -> None:
                x.store_vector(b, divisor.divide(x.vector(b, row, j)), row, j)

            over_vectors(b, f, 0, count, scale)
        with b.loop(b.add(row, 1), end, plain=True) as other:
            factor = spread(b, f, matrix.load(b, row, other))

            def take(
                j: str, row: Index = row, other: Index = other, factor: Sequence[Val] = factor
            ) -> None:
                total = multiply_add(b, list(factor), x.vector(b, row, j), x.vector(b, other, j))
                x.store_vector(b, total, other, j)

            over_vectors(b, f, 0, count, take)
