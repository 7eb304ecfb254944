"""Cholesky factorization: an upper factor U with A = U* U, by blocks of rows (see `matrices`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.linalg.matrices import (
    OUTER_ROWS,
    each_element,
    element_of,
    over_block,
    over_blocks,
    over_triangle,
    pitch_of,
)
from hlo.codegen.kernels.linalg.planes import (
    Field,
    WorkMatrix,
    conjugate,
    multiply_add,
    negated,
    over_vectors,
    spread,
    update,
)
from hlo.codegen.kernels.linalg.turned import load_turned, store_turned
from hlo.codegen.kernels.matmul.microkernels import Microkernel
from hlo.codegen.llvm import Builder, Index, Val, i64
from hlo.codegen.loops.kernel import Kernel, planner, slot_of, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.types import ArrayShape

# From this size on a factor's updates are distributed over threads.
_SHARED = 512


@dataclass(frozen=True)
class _Factor:
    """A Cholesky factorization and its workspace."""

    n: int
    batch: int
    field: Field
    microkernel: Microkernel

    @staticmethod
    def of(shape: ArrayShape, target: Target) -> _Factor:
        field = Field.of(shape.element_type, target)
        n = shape.dims[-1]
        return _Factor(n, math.prod(shape.dims[:-2]), field, field.microkernel(target, n))

    @property
    def pitch(self) -> int:
        return pitch_of(self.n, self.field, self.microkernel.nr)

    @property
    def matrix_bytes(self) -> int:
        """Of the factor."""
        return self.field.planes * self.n * self.pitch * self.field.bytes

    @property
    def panel_bytes(self) -> int:
        """Of the block of rows that updates others: its negated conjugate."""
        return (2 * self.field.planes - 1) * OUTER_ROWS * self.pitch * self.field.bytes

    def rows(self, k: Kernel, scratch: int, number: Index) -> WorkMatrix:
        base = k.b.element_address(k.scratch[scratch], "i8", k.b.mul(number, self.matrix_bytes))
        return WorkMatrix(self.field, base, self.pitch, self.n * self.pitch)

    def panel(self, k: Kernel, scratch: int, number: Index) -> WorkMatrix:
        base = k.b.element_address(k.scratch[scratch], "i8", k.b.mul(number, self.panel_bytes))
        return WorkMatrix(self.field, base, self.pitch, OUTER_ROWS * self.pitch)

    def is_turned(self, shape: ArrayShape, lower: bool) -> bool:
        """True if neighbours in the workspace are not neighbours in memory."""
        assert shape.layout is not None
        order = shape.layout.minor_to_major
        is_row_major = order.index(shape.rank - 1) < order.index(shape.rank - 2)
        return is_row_major == lower

    def load(self, k: Kernel, u: WorkMatrix, matrix: Index) -> None:
        """Copy the given triangle to the upper one."""
        b, (operand,) = k.b, k.inst.operands
        shape, lower = operand.array_shape, k.inst.lower

        def element(row: Index, column: Index) -> list[Val]:
            value = k.elements.at(operand, element_of(b, shape, matrix, row, column))
            parts = self.field.parts(b, value)
            return conjugate(b, parts) if lower else parts

        if self.is_turned(shape, lower):
            load_turned(b, u, self.n, element if lower else lambda line, at: element(at, line))
            return

        def copy(row: Index, column: Index) -> None:
            u.store(b, element(row, column), *((column, row) if lower else (row, column)))

        over_triangle(b, shape, lower, True, copy)

    def finish(self, k: Kernel, u: WorkMatrix, failed: Val, first: Index, last: Index) -> None:
        """Turn rows into rows of the factor, after all previous ones have been subtracted."""
        b, f = k.b, self.field
        with b.loop(first, last, plain=True) as row:
            pivot, *imaginary = u.load(b, row, row)
            zero = scalar.constant(f.part, f.part.dtype.type(0))
            assert isinstance(zero, Val)
            good = b.fcmp("ogt", pivot, zero)
            with b.when(b.binary("xor", good, "true")):
                b.store(Val("i8", "1"), failed.name)
            root = b.intrinsic("sqrt", pivot.type, [pivot])
            divisor = spread(b, f, [root])[0]

            def scale(j: str, row: Index = row, divisor: Val = divisor) -> None:
                parts = [
                    b.binary("fdiv", x, divisor) for x in u.vector(b, row, j)
                ]  # fmt: skip
                u.store_vector(b, parts, row, j)

            over_vectors(b, f, row, self.n, scale)
            u.store(b, [root, *(zero for _ in imaginary)], row, row)
            with b.loop(b.add(row, 1), last, plain=True) as other:
                factor = spread(b, f, negated(b, conjugate(b, u.load(b, row, other))))

                def take(
                    j: str, row: Index = row, other: Index = other, factor: list[Val] = factor
                ) -> None:
                    total = multiply_add(b, factor, u.vector(b, row, j), u.vector(b, other, j))
                    u.store_vector(b, total, other, j)

                over_vectors(b, f, other, self.n, take)

    def negate(
        self, k: Kernel, u: WorkMatrix, panel: WorkMatrix, first: Index, last: Index
    ) -> None:
        """Write the negated conjugate of rows to the panel."""
        b, f = k.b, self.field
        with b.loop(first, last, plain=True) as row:
            at = b.sub(row, first)

            def copy(j: str, row: Index = row, at: Index = at) -> None:
                parts = u.vector(b, row, j)
                # The negated conjugate of a complex number: its imaginary part is unchanged.
                panel.store_vector(b, [*negated(b, parts[:1]), *parts[1:], *negated(b, parts[1:])],
                                   at, j)  # fmt: skip

            over_vectors(b, f, first, self.n, copy)

    def update(
        self,
        k: Kernel,
        u: WorkMatrix,
        panel: WorkMatrix,
        inner: tuple[Index, Index],
        rows: tuple[Index, Index],
    ) -> None:
        """Subtract the products of finished rows from others, right of their diagonal."""
        b = k.b
        first, last = inner
        update(
            k, self.microkernel, _shifted(b, panel, first), u, u, rows=rows, inner=(first, last),
            columns=(self._column(b, rows[0]), self.n),
        )  # fmt: skip

    def _column(self, b: Builder, row: Index) -> Index:
        """Return the first column of the tile that contains a column."""
        return b.mul(b.udiv(row, self.microkernel.nr), self.microkernel.nr)

    def store(self, k: Kernel, u: WorkMatrix, failed: Val, matrix: Index) -> None:
        """Write the factor, with zeros in the other triangle; or NaN everywhere."""
        b, f, shape, lower = k.b, self.field, k.shape, k.inst.lower
        bad = b.icmp("ne", b.load("i8", failed.name), 0)
        nan, zero = (scalar.constant(f.part, f.part.dtype.type(x)) for x in (math.nan, 0.0))
        assert isinstance(nan, Val) and isinstance(zero, Val)

        def put(i: Index, j: Index, parts: list[Val]) -> None:
            if lower:
                parts = conjugate(b, parts)
            inside = b.compare("sle", i, j)
            kept = [b.select(inside, x, zero) for x in parts]
            # NaN as in numpy: in the real part only.
            wrong = [nan, zero][: len(parts)]
            final = [b.select(bad, x, y) for x, y in zip(wrong, kept, strict=True)]
            row, column = (j, i) if lower else (i, j)
            k.store(f.value(b, final), element_of(b, shape, matrix, row, column))

        if self.is_turned(shape, lower):
            store_turned(b, u, self.n, lambda line, at, parts: put(at, line, parts))
            return

        def copy(row: Index, column: Index) -> None:
            i, j = (column, row) if lower else (row, column)
            put(i, j, u.load(b, i, j))

        def all_(_: Index) -> tuple[Index, Index]:
            return 0, self.n

        each_element(b, shape, all_, all_, copy)


def _shifted(b: Builder, panel: WorkMatrix, first: Index) -> WorkMatrix:
    """Return a panel whose first row is numbered `first`."""
    at = b.mul(b.sub(0, first), panel.pitch)
    return WorkMatrix(panel.field, b.element_address(panel.base, panel.field.type, at), panel.pitch,
                panel.plane)  # fmt: skip


@planner("cholesky")
def _plan_cholesky(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    shape = inst.array_shape
    if not shape.num_elements:
        return Plan(())
    f = _Factor.of(shape, target)
    if f.n >= _SHARED and f.batch < 4:
        steps = [_load_factor]
        for first in range(0, f.n, OUTER_ROWS):
            steps.append(_factor_rows)
            if first + OUTER_ROWS < f.n:
                steps.append(_update_rows)
        steps.append(_store_factor)
        # State between steps: the next row, and which matrices failed.
        state = 16 + f.batch
        return Plan(tuple(steps), (f.batch * f.matrix_bytes, f.batch * f.panel_bytes, state))
    count = target.slots(f.batch)
    return Plan((_factor_whole,), (count * f.matrix_bytes, count * f.panel_bytes))


def _factor_whole(k: Kernel) -> Extent:
    """Factor matrices in sequence."""
    b, f = k.b, _Factor.of(k.shape, k.target)
    slot = slot_of(k, f.batch)
    u, panel = f.rows(k, 0, slot), f.panel(k, 1, slot)
    failed = b.alloca("i8")
    with b.loop(k.begin, k.end, plain=True) as matrix:
        b.store(Val("i8", "0"), failed.name)
        f.load(k, u, matrix)

        def finish(first: Index, last: Index) -> None:
            f.finish(k, u, failed, first, last)

        def inside(first: Index, last: Index, end: Index) -> None:
            f.negate(k, u, panel, first, last)
            f.update(k, u, panel, (first, last), (last, end))

        def after(first: Index, last: Index) -> None:
            f.negate(k, u, panel, first, last)
            with b.loop(last, f.n, OUTER_ROWS, plain=True) as row:
                f.update(k, u, panel, (first, last), (row, b.minimum(b.add(row, OUTER_ROWS), f.n)))

        over_blocks(b, f.n, finish, inside, after)
        f.store(k, u, failed, matrix)
    return Extent(f.batch, f.n**3 / 3 / f.field.lanes + f.n**2)


def _load_factor(k: Kernel) -> Extent:
    b, f = k.b, _Factor.of(k.shape, k.target)
    with b.loop(k.begin, k.end, plain=True) as matrix:
        f.load(k, f.rows(k, 0, matrix), matrix)
        b.store(Val("i8", "0"), _failed(k, matrix).name)
        b.store(i64(0), k.scratch[2])
    return Extent(f.batch, f.n * f.n / 2)


def _failed(k: Kernel, matrix: Index) -> Val:
    at = k.b.element_address(k.scratch[2], "i8", k.b.add(matrix, 16))
    return Val("ptr", at)


def _factor_rows(k: Kernel) -> Extent:
    """Finish the next block of rows of every matrix."""
    b, f = k.b, _Factor.of(k.shape, k.target)
    first = b.load("i64", k.scratch[2]).name
    end = b.minimum(b.add(first, OUTER_ROWS), f.n)
    with b.loop(k.begin, k.end, plain=True) as matrix:
        u, panel = f.rows(k, 0, matrix), f.panel(k, 1, matrix)
        failed = _failed(k, matrix)

        def finish(at: Index, last: Index) -> None:
            f.finish(k, u, failed, at, last)

        def inside(at: Index, last: Index, end: Index) -> None:
            f.negate(k, u, panel, at, last)
            f.update(k, u, panel, (at, last), (last, end))

        over_block(b, first, end, finish, inside)
        f.negate(k, u, panel, first, end)
    # The others read the first word, the next step the second.
    _note(k, 1, end)
    return Extent(f.batch, 1.0)


def _note(k: Kernel, word: int, row: Index) -> None:
    """Write the first row of the next step, once."""
    with k.b.when(k.b.compare("eq", k.begin, 0)):
        address = k.b.element_address(k.scratch[2], "i64", word)
        k.b.store(i64(row), address)


def _update_rows(k: Kernel) -> Extent:
    """Update all rows after the finished ones; blocks of rows are distributed over threads."""
    b, f = k.b, _Factor.of(k.shape, k.target)
    last = b.load("i64", b.element_address(k.scratch[2], "i64", 1)).name
    first = b.mul(b.udiv(b.sub(last, 1), OUTER_ROWS), OUTER_ROWS)
    blocks = -(-f.n // OUTER_ROWS)
    with b.loop(k.begin, k.end, plain=True) as at:
        matrix, block = split_index(b, at, [f.batch, blocks])
        row = b.mul(block, OUTER_ROWS)
        with b.when(b.compare("sge", row, last)):
            u, panel = f.rows(k, 0, matrix), f.panel(k, 1, matrix)
            end = b.minimum(b.add(row, OUTER_ROWS), f.n)
            f.update(k, u, panel, (first, last), (row, end))
    _note(k, 0, last)
    return Extent(f.batch * blocks, OUTER_ROWS * OUTER_ROWS * f.n / f.field.lanes)


def _store_factor(k: Kernel) -> Extent:
    b, f = k.b, _Factor.of(k.shape, k.target)
    with b.loop(k.begin, k.end, plain=True) as matrix:
        f.store(k, f.rows(k, 0, matrix), _failed(k, matrix), matrix)
    return Extent(f.batch, f.n * f.n)
