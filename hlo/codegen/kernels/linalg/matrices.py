"""Blocked algorithms on matrices, shared by factorizations and systems.

Matrices are copied to the workspace in one form, whatever their layout, type and side: an upper
factor U with A = U* U, or a lower system L X = B whose rows are solved in order. Rows are finished
eight at a time by plain vector loops; the update of the rows below is a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable

from hlo.codegen.kernels.linalg.planes import Field
from hlo.codegen.llvm import Builder, Index
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import split_index
from hlo.values.types import ArrayShape

# The number of rows finished by vector loops, and of rows after which all others are updated.
INNER_ROWS, OUTER_ROWS = 8, 64
# Rows a multiple of so many bytes apart conflict in few cache sets.
_POWER = 1024


def element_of(b: Builder, shape: ArrayShape, matrix: Index, row: Index, column: Index) -> Indices:
    """Return the indices of an element of a matrix, by the number of the matrix."""
    batch = shape.dims[:-2]
    return (*(split_index(b, matrix, batch) if batch else ()), row, column)


def pitch_of(columns: int, field: Field, unit: int) -> int:
    """Return the distance of rows of so many columns, in units.

    Rows a large power of two apart would conflict in few cache sets.
    """
    pitch = -(-columns // unit) * unit
    return pitch if pitch * field.bytes % _POWER else pitch + unit


def each_element(
    b: Builder,
    shape: ArrayShape,
    within: Callable[[Index], tuple[Index, Index]],
    across: Callable[[Index], tuple[Index, Index]],
    body: Callable[[Index, Index], None],
) -> None:
    """Emit the body for each row and column of a part of a matrix, in memory order.

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


def over_triangle(
    b: Builder, shape: ArrayShape, lower: bool, diagonal: bool, body: Callable[[Index, Index], None]
) -> None:
    """Emit the body for each row and column of a triangle, with or without its diagonal."""
    n, extra = shape.dims[-1], int(diagonal)

    def below(i: Index) -> tuple[Index, Index]:
        return 0, b.add(i, extra)

    def above(i: Index) -> tuple[Index, Index]:
        return b.add(i, 1 - extra), n

    each_element(b, shape, below if lower else above, above if lower else below, body)


def over_blocks(
    b: Builder,
    n: int,
    finish: Callable[[Index, Index], None],
    inside: Callable[[Index, Index, Index], None],
    after: Callable[[Index, Index], None],
) -> None:
    """Process n rows in blocks.

    finish(first, last): a few rows; inside(first, last, end): update those up to the block's end;
    after(first, last): update everything after the block.
    """
    with b.loop(0, n, OUTER_ROWS, plain=True) as first:
        end = b.minimum(b.add(first, OUTER_ROWS), n)
        over_block(b, first, end, finish, inside)
        with b.when(b.compare("slt", end, n)):
            after(first, end)


def over_block(
    b: Builder,
    first: Index,
    end: Index,
    finish: Callable[[Index, Index], None],
    inside: Callable[[Index, Index, Index], None],
) -> None:
    """Process the rows from `first` to `end` a few at a time, see `over_blocks`."""
    with b.loop(first, end, INNER_ROWS, plain=True) as at:
        last = b.minimum(b.add(at, INNER_ROWS), end)
        finish(at, last)
        with b.when(b.compare("slt", last, end)):
            inside(at, last, end)
