"""Cholesky factors and triangular systems: blocks of rows, updated by the kernels of products.

Matrices are copied into work space in one form, whatever their layout, type and side: an upper
factor U with A = U* U, or a lower system L X = B whose rows are solved in order. Rows are finished
eight at a time by plain vector loops; what they take from the rows below is a matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hlo.codegen import scalar
from hlo.codegen.element import Indices
from hlo.codegen.fusion import Role
from hlo.codegen.kernel import Extent, Kernel, Plan, planner, slot_of, slots, split_index
from hlo.codegen.kernels.microkernel import Tile
from hlo.codegen.kernels.planes import (
    Divisor,
    Field,
    Rows,
    conjugate,
    multiply_add,
    negated,
    over_vectors,
    spread,
    update,
)
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.target import Target
from hlo.ir import Instruction
from hlo.types import ArrayShape

# Rows that are finished by vector loops, and rows after which all others are updated at once.
_INNER, _OUTER = 8, 64
# Solutions are computed for so many bytes of the right-hand side at a time: they stay in a cache.
_CHUNK_BYTES = 1 << 18
_POWER = 1024
# From this size on a factor's updates are shared out between threads.
_SHARED = 512


def _array(inst: Instruction) -> ArrayShape:
    assert isinstance(inst.shape, ArrayShape)
    return inst.shape


def _place(b: Builder, shape: ArrayShape, matrix: Index, row: Index, column: Index) -> Indices:
    """Return the indices of an element of a matrix, by the number of the matrix."""
    batch = shape.dims[:-2]
    return (*(split_index(b, matrix, batch) if batch else ()), row, column)


def _pitch(columns: int, field: Field, unit: int) -> int:
    """Return the distance of rows of so many columns, in units.

    Rows that are a large power of two apart would share few lines of a cache.
    """
    pitch = -(-columns // unit) * unit
    return pitch if pitch * field.bytes % _POWER else pitch + unit


def _each_element(
    b: Builder,
    shape: ArrayShape,
    within: Callable[[Index], tuple[Index, Index]],
    across: Callable[[Index], tuple[Index, Index]],
    body: Callable[[Index, Index], None],
) -> None:
    """Run the body for row and column of a part of a matrix, in the order of memory.

    within: the columns of a row; across: the rows of a column. They describe the same part.
    """
    assert shape.layout is not None
    order = shape.layout.minor_to_major
    rows, columns = shape.dims[-2:]
    if order.index(shape.rank - 1) < order.index(shape.rank - 2):
        with b.loop(0, rows, plain=True) as row, b.loop(*within(row), rolled=True) as column:
            body(row, column)
    else:
        with b.loop(0, columns, plain=True) as column, b.loop(*across(column), rolled=True) as row:
            body(row, column)


def _triangle(
    b: Builder, shape: ArrayShape, lower: bool, diagonal: bool, body: Callable[[Index, Index], None]
) -> None:
    """Run the body for row and column of a triangle, with or without its diagonal."""
    n, extra = shape.dims[-1], int(diagonal)

    def below(i: Index) -> tuple[Index, Index]:
        return 0, b.add(i, extra)

    def above(i: Index) -> tuple[Index, Index]:
        return b.add(i, 1 - extra), n

    _each_element(b, shape, below if lower else above, above if lower else below, body)


def _blocks(
    b: Builder,
    n: int,
    finish: Callable[[Index, Index], None],
    inside: Callable[[Index, Index, Index], None],
    after: Callable[[Index, Index], None],
) -> None:
    """Run through n rows in blocks.

    finish(first, last): a few rows; inside(first, last, end): update those up to the block's end;
    after(first, last): update what is behind the block.
    """
    with b.loop(0, n, _OUTER, plain=True) as first:
        end = b.minimum(b.add(first, _OUTER), n)
        _block(b, first, end, finish, inside)
        with b.when(b.compare("slt", end, n)):
            after(first, end)


def _block(
    b: Builder,
    first: Index,
    end: Index,
    finish: Callable[[Index, Index], None],
    inside: Callable[[Index, Index, Index], None],
) -> None:
    with b.loop(first, end, _INNER, plain=True) as at:
        last = b.minimum(b.add(at, _INNER), end)
        finish(at, last)
        with b.when(b.compare("slt", last, end)):
            inside(at, last, end)


# --- cholesky -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Factor:
    """A Cholesky factorization: where everything lies in its work space."""

    n: int
    batch: int
    field: Field
    tile: Tile

    @staticmethod
    def of(shape: ArrayShape, target: Target) -> _Factor:
        field = Field.of(shape.element_type, target)
        n = shape.dims[-1]
        return _Factor(n, math.prod(shape.dims[:-2]), field, field.tile(target, n))

    @property
    def pitch(self) -> int:
        return _pitch(self.n, self.field, self.tile.columns)

    @property
    def matrix_bytes(self) -> int:
        """Of the factor."""
        return self.field.planes * self.n * self.pitch * self.field.bytes

    @property
    def panel_bytes(self) -> int:
        """Of the block of rows by which others are updated: minus its conjugate."""
        return (2 * self.field.planes - 1) * _OUTER * self.pitch * self.field.bytes

    def rows(self, k: Kernel, scratch: int, number: Index) -> Rows:
        base = k.b.element_address(k.scratch[scratch], "i8", k.b.mul(number, self.matrix_bytes))
        return Rows(self.field, base, self.pitch, self.n * self.pitch)

    def panel(self, k: Kernel, scratch: int, number: Index) -> Rows:
        base = k.b.element_address(k.scratch[scratch], "i8", k.b.mul(number, self.panel_bytes))
        return Rows(self.field, base, self.pitch, _OUTER * self.pitch)

    def load(self, k: Kernel, u: Rows, matrix: Index) -> None:
        """Copy the triangle that is given into the upper one."""
        b, (operand,) = k.b, k.inst.operands
        shape, lower = _array(operand), k.inst.attrs["lower"]

        def copy(row: Index, column: Index) -> None:
            value = k.elements.at(operand, _place(b, shape, matrix, row, column))
            parts = self.field.parts(b, value)
            if lower:
                u.store(b, conjugate(b, parts), column, row)
            else:
                u.store(b, parts, row, column)

        _triangle(b, shape, lower, True, copy)

    def finish(self, k: Kernel, u: Rows, failed: Val, first: Index, last: Index) -> None:
        """Turn rows into rows of the factor, given that all before have been taken from them."""
        b, f = k.b, self.field
        with b.loop(first, last, plain=True) as row:
            pivot, *imaginary = u.load(b, row, row)
            zero = scalar.constant(f.part, f.part.dtype.type(0))
            assert isinstance(zero, Val)
            good = b.op("i1", f"fcmp ogt {pivot}, {zero.name}")
            with b.when(b.op("i1", f"xor {good}, true")):
                b.write(f"store i8 1, ptr {failed.name}")
            size = "f64" if pivot.type == "double" else "f32"
            root = b.intrinsic(f"sqrt.{size}", pivot.type, [pivot])
            divisor = spread(b, f, [root])[0]

            def scale(j: str, row: Index = row, divisor: Val = divisor) -> None:
                parts = [
                    b.op(x.type, f"fdiv {x}, {divisor.name}") for x in u.vector(b, row, j)
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

    def negate(self, k: Kernel, u: Rows, panel: Rows, first: Index, last: Index) -> None:
        """Write minus the conjugate of rows into the panel."""
        b, f = k.b, self.field
        with b.loop(first, last, plain=True) as row:
            at = b.sub(row, first)

            def copy(j: str, row: Index = row, at: Index = at) -> None:
                parts = u.vector(b, row, j)
                # Minus the conjugate of a complex number: its second part is as it was.
                panel.store_vector(b, [*negated(b, parts[:1]), *parts[1:], *negated(b, parts[1:])],
                                   at, j)  # fmt: skip

            over_vectors(b, f, first, self.n, copy)

    def update(
        self, k: Kernel, u: Rows, panel: Rows, inner: tuple[Index, Index], rows: tuple[Index, Index]
    ) -> None:
        """Take the products of finished rows from others, right of their diagonal."""
        b = k.b
        first, last = inner
        update(
            k, self.tile, _shifted(b, panel, first), u, u, rows=rows, inner=(first, last),
            columns=(self._column(b, rows[0]), self.n),
        )  # fmt: skip

    def _column(self, b: Builder, row: Index) -> Index:
        """Return the first column of the tile that has a column."""
        return b.mul(b.udiv(row, self.tile.columns), self.tile.columns)

    def store(self, k: Kernel, u: Rows, failed: Val, matrix: Index) -> None:
        """Write the factor, with zeros in the other triangle; or NaN everywhere."""
        b, f, shape, lower = k.b, self.field, k.shape, k.inst.attrs["lower"]
        bad = b.op("i1", f"icmp ne {b.effect('i8', f'load i8, ptr {failed.name}')}, 0")
        nan, zero = (scalar.constant(f.part, f.part.dtype.type(x)) for x in (math.nan, 0.0))
        assert isinstance(nan, Val) and isinstance(zero, Val)

        def copy(row: Index, column: Index) -> None:
            i, j = (column, row) if lower else (row, column)
            parts = u.load(b, i, j)
            if lower:
                parts = conjugate(b, parts)
            inside = b.compare("sle", i, j)
            kept = [b.select(inside, x, zero) for x in parts]
            # NaN as numpy makes it: in the real part alone.
            wrong = [nan, zero][: len(parts)]
            final = [b.select(bad, x, y) for x, y in zip(wrong, kept, strict=True)]
            k.store(f.value(b, final), _place(b, shape, matrix, row, column))

        def all_(_: Index) -> tuple[Index, Index]:
            return 0, self.n

        _each_element(b, shape, all_, all_, copy)


def _shifted(b: Builder, panel: Rows, first: Index) -> Rows:
    """Return a panel whose first row is to be called `first`."""
    at = b.mul(b.sub(0, first), panel.pitch)
    return Rows(panel.field, b.element_address(panel.base, panel.field.type, at), panel.pitch,
                panel.plane)  # fmt: skip


@planner("cholesky")
def _plan_cholesky(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    shape = _array(inst)
    if not shape.num_elements:
        return Plan(())
    f = _Factor.of(shape, target)
    if f.n >= _SHARED and f.batch < 4:
        steps = [_load_factor]
        for first in range(0, f.n, _OUTER):
            steps.append(_factor_rows)
            if first + _OUTER < f.n:
                steps.append(_update_rows)
        steps.append(_store_factor)
        # What a step has to know of those before: the row it begins at, and what failed.
        state = 16 + f.batch
        return Plan(tuple(steps), (f.batch * f.matrix_bytes, f.batch * f.panel_bytes, state))
    count = slots(f.batch)
    return Plan((_factor_whole,), (count * f.matrix_bytes, count * f.panel_bytes))


def _factor_whole(k: Kernel) -> Extent:
    """Factor matrices, one after the other."""
    b, f = k.b, _Factor.of(k.shape, k.target)
    slot = slot_of(k, f.batch)
    u, panel = f.rows(k, 0, slot), f.panel(k, 1, slot)
    failed = b.alloca("i8")
    with b.loop(k.begin, k.end, plain=True) as matrix:
        b.write(f"store i8 0, ptr {failed.name}")
        f.load(k, u, matrix)

        def finish(first: Index, last: Index) -> None:
            f.finish(k, u, failed, first, last)

        def inside(first: Index, last: Index, end: Index) -> None:
            f.negate(k, u, panel, first, last)
            f.update(k, u, panel, (first, last), (last, end))

        def after(first: Index, last: Index) -> None:
            f.negate(k, u, panel, first, last)
            with b.loop(last, f.n, _OUTER, plain=True) as row:
                f.update(k, u, panel, (first, last), (row, b.minimum(b.add(row, _OUTER), f.n)))

        _blocks(b, f.n, finish, inside, after)
        f.store(k, u, failed, matrix)
    return Extent(f.batch, f.n**3 / 3 / f.field.lanes + f.n**2)


def _load_factor(k: Kernel) -> Extent:
    b, f = k.b, _Factor.of(k.shape, k.target)
    with b.loop(k.begin, k.end, plain=True) as matrix:
        f.load(k, f.rows(k, 0, matrix), matrix)
        b.write(f"store i8 0, ptr {_failed(k, matrix).name}")
        b.write(f"store i64 0, ptr {k.scratch[2]}")
    return Extent(f.batch, f.n * f.n / 2)


def _failed(k: Kernel, matrix: Index) -> Val:
    at = k.b.element_address(k.scratch[2], "i8", k.b.add(matrix, 16))
    return Val("ptr", at)


def _factor_rows(k: Kernel) -> Extent:
    """Finish the next block of rows of every matrix."""
    b, f = k.b, _Factor.of(k.shape, k.target)
    first = b.effect("i64", f"load i64, ptr {k.scratch[2]}").name
    end = b.minimum(b.add(first, _OUTER), f.n)
    with b.loop(k.begin, k.end, plain=True) as matrix:
        u, panel = f.rows(k, 0, matrix), f.panel(k, 1, matrix)
        failed = _failed(k, matrix)

        def finish(at: Index, last: Index) -> None:
            f.finish(k, u, failed, at, last)

        def inside(at: Index, last: Index, end: Index) -> None:
            f.negate(k, u, panel, at, last)
            f.update(k, u, panel, (at, last), (last, end))

        _block(b, first, end, finish, inside)
        f.negate(k, u, panel, first, end)
    # The others read the first word, the next step the second.
    _note(k, 1, end)
    return Extent(f.batch, 1.0)


def _note(k: Kernel, word: int, row: Index) -> None:
    """Write where the next step begins, once."""
    with k.b.when(k.b.compare("eq", k.begin, 0)):
        address = k.b.element_address(k.scratch[2], "i64", word)
        k.b.write(f"store i64 {row}, ptr {address}")


def _update_rows(k: Kernel) -> Extent:
    """Update all rows behind those that have been finished; threads share the blocks of rows."""
    b, f = k.b, _Factor.of(k.shape, k.target)
    last = b.effect("i64", f"load i64, ptr {b.element_address(k.scratch[2], 'i64', 1)}").name
    first = b.mul(b.udiv(b.sub(last, 1), _OUTER), _OUTER)
    blocks = -(-f.n // _OUTER)
    with b.loop(k.begin, k.end, plain=True) as at:
        matrix, block = split_index(b, at, [f.batch, blocks])
        row = b.mul(block, _OUTER)
        with b.when(b.compare("sge", row, last)):
            u, panel = f.rows(k, 0, matrix), f.panel(k, 1, matrix)
            end = b.minimum(b.add(row, _OUTER), f.n)
            f.update(k, u, panel, (first, last), (row, end))
    _note(k, 0, last)
    return Extent(f.batch * blocks, _OUTER * _OUTER * f.n / f.field.lanes)


def _store_factor(k: Kernel) -> Extent:
    b, f = k.b, _Factor.of(k.shape, k.target)
    with b.loop(k.begin, k.end, plain=True) as matrix:
        f.store(k, f.rows(k, 0, matrix), _failed(k, matrix), matrix)
    return Extent(f.batch, f.n * f.n)


# --- triangular-solve ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Solve:
    """A triangular system, as a lower one whose unknowns are the rows of a matrix.

    swapped: the system's matrix is the operand's transpose. reversed: rows count from the last.
    """

    n: int
    columns: int
    batch: int
    field: Field
    tile: Tile
    chunk: int
    left: bool
    lower: bool
    unit: bool
    conjugated: bool
    swapped: bool

    @staticmethod
    def of(inst: Instruction, target: Target) -> _Solve:
        a, x = _array(inst.operands[0]), _array(inst)
        attrs, n = inst.attrs, a.dims[-1]
        left, transpose = attrs["left_side"], attrs["transpose_a"]
        columns = x.dims[-1 if left else -2]
        field = Field.of(a.element_type, target)
        tile = field.tile(target, columns)
        row_bytes = tile.columns * field.bytes * field.planes
        tiles = max(1, min(-(-columns // tile.columns), _CHUNK_BYTES // (row_bytes * max(n, 1))))
        return _Solve(
            n, columns, math.prod(a.dims[:-2]), field, tile, tiles * tile.columns, left,
            attrs["lower"], attrs["unit_diagonal"], transpose == "ADJOINT",
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
        return _pitch(self.n, self.field, self.field.lanes) if self.n > _OUTER else self.n

    @property
    def chunk_bytes(self) -> int:
        return self.field.planes * self.n * self.chunk * self.field.bytes

    def matrix(self, k: Kernel, number: Index) -> Rows:
        base = k.b.element_address(k.scratch[0], "i8", k.b.mul(number, self.matrix_bytes))
        return Rows(self.field, base, self.pitch, self.n * self.pitch)

    def diagonal(self, k: Kernel, number: Index) -> Rows:
        whole = self.matrix(k, number)
        at = (2 * self.field.planes - 1) * self.n * self.pitch
        base = k.b.element_address(whole.base, self.field.type, at)
        return Rows(self.field, base, self.n, self.n)

    def unknowns(self, k: Kernel, slot: Index) -> Rows:
        base = k.b.element_address(k.scratch[1], "i8", k.b.mul(slot, self.chunk_bytes))
        return Rows(self.field, base, self.chunk, self.n * self.chunk)

    def row(self, b: Builder, i: Index) -> Index:
        """Return where an unknown stands among the rows."""
        return b.sub(self.n - 1, i) if self.reversed else i


@planner("triangular-solve")
def _plan_solve(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    if not _array(inst).num_elements:
        return Plan(())
    s = _Solve.of(inst, target)
    count = slots(s.batch * s.chunks)
    return Plan((_load_system, _solve), (s.batch * s.matrix_bytes, count * s.chunk_bytes))


def _load_system(k: Kernel) -> Extent:
    """Copy the triangle that is given, with minus signs, and its diagonal."""
    b, s = k.b, _Solve.of(k.inst, k.target)
    operand = k.inst.operands[0]
    shape = _array(operand)
    with b.loop(k.begin, k.end, plain=True) as number:
        matrix, diagonal = s.matrix(k, number), s.diagonal(k, number)

        def element(row: Index, column: Index) -> list[Val]:
            value = k.elements.at(operand, _place(b, shape, number, row, column))
            parts = s.field.parts(b, value)
            return conjugate(b, parts) if s.conjugated else parts

        def copy(row: Index, column: Index) -> None:
            parts = negated(b, element(row, column))
            i, kk = (column, row) if s.swapped else (row, column)
            matrix.store(b, [*parts, *negated(b, parts[1:])], s.row(b, kk), s.row(b, i))

        _triangle(b, shape, s.lower, False, copy)
        if not s.unit:
            with b.loop(0, s.n, rolled=True) as i:
                diagonal.store(b, element(i, i), 0, s.row(b, i))
    return Extent(s.batch, s.n * s.n / 2)


def _solve(k: Kernel) -> Extent:
    """Solve for a share of the columns of the right-hand sides."""
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
                k, s.tile, matrix, x, x, rows=(last, end), inner=(begin, last), columns=(0, count)
            )

        def after(begin: Index, end: Index) -> None:
            update(k, s.tile, matrix, x, x, rows=(end, s.n), inner=(begin, end), columns=(0, count))

        _blocks(b, s.n, finish, inside, after)
        _exchange(k, s, x, number, first, count, to_memory=True)
    return Extent(s.batch * s.chunks, s.n * s.n * s.chunk / s.field.lanes + 3 * s.n * s.chunk)


def _exchange(
    k: Kernel, s: _Solve, x: Rows, number: Index, first: Index, count: Index, *, to_memory: bool
) -> None:
    """Copy some columns of the right-hand side into work space, or of the solution out of it."""
    b, operand, shape = k.b, k.inst.operands[1], k.shape
    source = shape if to_memory else _array(operand)

    def copy(row: Index, column: Index) -> None:
        i, j = (row, b.add(column, first)) if s.left else (b.add(row, first), column)
        unknown, rhs = (row, column) if s.left else (column, row)
        place = _place(b, source, number, i, j)
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
    matrix: Rows,
    diagonal: Rows,
    x: Rows,
    begin: Index,
    end: Index,
    count: Index,
) -> None:
    """Solve for a few rows, given that all before have been taken from them."""
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
