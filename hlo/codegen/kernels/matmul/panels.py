"""Copies between arrays and panels, as functions that depend on no shape.

Each copies a matrix from strides to strides and converts its elements. Which one is called is known
where the strides are: along rows in vectors, by transposing small squares, or one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.row_copies import (
    copy_alternate,
    copy_rows,
    element_bytes,
    element_lanes,
)
from hlo.codegen.llvm import FALSE, Builder, Index, ModuleBuilder, Operand, Val, i64, int_const, ptr
from hlo.codegen.loops.vectors import (
    Types,
    define,
    vector_at,
    vector_constant,
)
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type

# Squares that are transposed in registers have at most so many rows.
_SQUARE = 8


@dataclass(frozen=True)
class StridedMatrix:
    """A matrix in memory: the address of its first element, and strides in elements."""

    address: str
    row: Index
    column: Index


def copy(b: Builder, target: LlvmTarget, types: Types, to: StridedMatrix, frm: StridedMatrix,
         rows: Index, columns: Index) -> None:  # fmt: skip
    """Write the copy of a matrix; nothing is copied where rows or columns are not positive."""
    if to.column != 1 and to.row == 1:
        to, frm = (
            StridedMatrix(to.address, to.column, to.row),
            StridedMatrix(frm.address, frm.column, frm.row),
        )
        rows, columns = columns, rows
    steps = (to.column, frm.column)
    strides: tuple[Index, ...] = (to.row, frm.row)
    if steps == (1, 1):
        function = copy_rows(b.module, target, types)
    elif steps in ((1, 2), (2, 1)) and types.has_vectors(b.module):
        function = copy_alternate(b.module, target, types, *steps)
    elif to.column == 1 and frm.row == 1 and types.has_vectors(b.module):
        function = _transpose(b.module, target, types)
        strides = (to.row, frm.column)
    else:
        function = _one_by_one(b.module, types)
        strides = (to.row, to.column, frm.row, frm.column)
    numbers = [i64(n) for n in (*strides, rows, columns)]
    b.call_void(function, [ptr(to.address), ptr(frm.address), *numbers])


def _transpose(module: ModuleBuilder, target: LlvmTarget, types: Types) -> str:
    """Return the function `f(to, from, to_row, from_column, rows, columns)`.

    Columns are contiguous in memory to copy from, rows in memory to copy to.
    """
    source, result = (scalar.memory_type(t) for t in (types.chain[0], types.chain[-1]))
    side = min(_SQUARE, element_lanes(target, types))

    def write(b: Builder) -> None:
        def square(r: Index, c: Index) -> None:
            first = b.element_address("%from", source, b.add(b.mul(c, "%from_column"), r))
            raw = [
                vector_at(b, vector_type(side, source), line, source, 0)
                for line in _lines(b, first, source, "%from_column", side)
            ]
            first = b.element_address("%to", result, b.add(b.mul(r, "%to_row"), c))
            to = _lines(b, first, result, "%to_row", side)
            turned = _transposed(b, [types.convert(b, line) for line in raw])
            for address, line in zip(to, turned, strict=True):
                b.store(line, address, align=element_bytes(types.chain[-1]))

        whole_rows, whole_columns = (
            b.mul(b.udiv(b.maximum(n, 0), side), side) for n in ("%rows", "%columns")
        )
        with (
            b.loop(0, whole_rows, side, plain=True) as r,
            b.loop(0, whole_columns, side, plain=True) as c,
        ):
            square(r, c)
        with _outside(b, ("%rows", whole_rows), ("%columns", whole_columns)) as (r, c):
            value = types.load(b, "%from", b.add(b.mul(c, "%from_column"), r))
            types.store(b, value, "%to", b.add(b.mul(r, "%to_row"), c))

    parameters = "ptr noalias %to, ptr readonly %from, i64 %to_row, i64 %from_column, "
    return define(module, f"transpose.{types}", parameters + "i64 %rows, i64 %columns", write)


def _lines(b: Builder, first: str, element: str, stride: Index, number: int) -> list[str]:
    """Return the addresses of so many lines from the first one on, each from the one before."""
    found = [first]
    while len(found) < number:
        found.append(b.element_address(found[-1], element, stride))
    return found


@contextmanager
def _outside(
    b: Builder, rows: tuple[Index, Index], columns: tuple[Index, Index]
) -> Iterator[tuple[str, str]]:
    """Run the body for the rows and columns of a matrix that are not in whole squares.

    rows, columns: how many there are, and how many are in whole squares.
    """
    (number, whole_rows), (width, whole_columns) = rows, columns
    with b.loop(0, number, plain=True) as r:
        done = b.select(b.compare("slt", r, whole_rows), i64(whole_columns), i64(0))
        with b.loop(done.name, width, plain=True) as c:
            yield r, c


def _transposed(b: Builder, lines: list[Val]) -> list[Val]:
    """Return the columns of a square of vectors: halves of ever smaller squares change places."""
    n = len(lines)
    half = n // 2
    while half:
        low = [i if not i & half else n + (i ^ half) for i in range(n)]
        high = [n + i if i & half else i ^ half for i in range(n)]
        result = list(lines)
        for i in range(n):
            if not i & half:
                x, y = lines[i], lines[i | half]
                result[i], result[i | half] = (
                    b.shuffle_vector(x, y, low),
                    b.shuffle_vector(x, y, high),
                )
        lines, half = result, half // 2
    return lines


def _one_by_one(module: ModuleBuilder, types: Types) -> str:
    """Return the function for any strides.

    It is `f(to, from, to_row, to_column, from_row, from_column, rows, columns)`.
    """

    def write(b: Builder) -> None:
        with b.loop(0, "%rows", plain=True) as r, b.loop(0, "%columns", plain=True) as c:
            at = b.add(b.mul(r, "%from_row"), b.mul(c, "%from_column"))
            to = b.add(b.mul(r, "%to_row"), b.mul(c, "%to_column"))
            types.store(b, types.load(b, "%from", at), "%to", to)

    parameters = (
        "ptr noalias %to, ptr readonly %from, i64 %to_row, i64 %to_column, i64 %from_row, "
        "i64 %from_column, i64 %rows, i64 %columns"
    )
    return define(module, f"move.{types}", parameters, write)


def copy_groups(b: Builder, target: LlvmTarget, types: Types, group: int, to: StridedMatrix,
                frm: StridedMatrix, count: Index, columns: Index) -> None:  # fmt: skip
    """Write the copy of `count` rows with the elements of each `group` rows beside each other.

    The rows of a group become one, whose elements are wider: as many bits as a group's elements
    have, of which the first is in the lowest. The last group is filled up with zeros.
    """
    assert to.column == 1
    if frm.row == 1 and types.has_vectors(b.module) and _group_lanes(target, types, group) > 1:
        function = _turned_groups(b.module, target, types, group)
        numbers = [i64(n) for n in (to.row, frm.column, count, columns)]
        b.call_void(function, [ptr(to.address), ptr(frm.address), *numbers])
        return
    contiguous = frm.column == 1 and types.has_vectors(b.module)
    function = _groups(b.module, target, types, group, contiguous=contiguous)
    numbers = [i64(n) for n in (to.row, frm.row, frm.column, count, columns)]
    b.call_void(function, [ptr(to.address), ptr(frm.address), *numbers])


def _groups(
    module: ModuleBuilder, target: LlvmTarget, types: Types, group: int, *, contiguous: bool
) -> str:
    """Return the function `f(to, from, to_row, from_row, from_column, count, columns)`."""
    mem, last = (scalar.memory_type(t) for t in (types.chain[0], types.chain[-1]))
    bits = 8 * element_bytes(types.chain[-1])
    assert last == f"i{bits}", "elements are put together as integers"
    wide = f"i{group * bits}"
    lanes = max(1, target.vector_bits // (group * bits))

    def write(b: Builder) -> None:
        def joined(parts: list[Val], shift: Callable[[int], Operand]) -> Val:
            """Return the group of elements that are zero-extended already."""
            whole, *others = parts
            for n, part in enumerate(others, 1):
                whole = b.binary("or", whole, b.binary("shl", part, shift(n * bits)))
            return whole

        def vectors(at: Index, rows: list[str], present: list[Val]) -> None:
            vector, result = vector_type(lanes, mem), vector_type(lanes, wide)
            zero = Val(vector, "zeroinitializer")
            raw = [vector_at(b, vector, row, mem, at) for row in rows]
            raw[1:] = [b.select(p, x, zero) for p, x in zip(present, raw[1:], strict=True)]
            parts = [types.convert(b, x) for x in raw]
            parts = [b.cast("zext", x, result) for x in parts]
            value = joined(parts, lambda by: vector_constant(wide, [by] * lanes))
            b.store(value, b.element_address(to, wide, at), align=group * bits // 8)

        def single(at: Index, rows: list[str], present: list[Val]) -> None:
            step, zero = b.mul(at, "%from_column"), Val(wide, "0")

            def element(base: str) -> Val:
                if len(types.chain) == 1:
                    value = b.load(mem, b.element_address(base, mem, step))
                else:
                    converted = types.load(b, base, step)
                    assert isinstance(converted, Val)
                    value = scalar.to_memory(b, types.chain[-1], converted)
                return b.cast("zext", value, wide)

            parts = [element(row) for row in rows]
            parts[1:] = [b.select(p, x, zero) for p, x in zip(present, parts[1:], strict=True)]
            b.store(joined(parts, lambda by: by), b.element_address(to, wide, at))

        with b.loop(0, "%count", group, plain=True) as r:
            to = b.element_address("%to", wide, b.mul(b.udiv(r, group), "%to_row"))
            rows = [b.element_address("%from", mem, b.mul(r, "%from_row"))]
            present = [b.compare("slt", b.add(r, n), "%count") for n in range(1, group)]
            # Rows that are not there are read as the one before them, and are zero.
            for is_there in present:
                step = b.select(is_there, i64("%from_row"), i64(0)).name
                rows.append(b.element_address(rows[-1], mem, step))
            whole: Index = 0
            if contiguous:
                whole = b.mul(b.udiv(b.maximum("%columns", 0), lanes), lanes)
                with b.loop(0, whole, lanes, plain=True) as at:
                    vectors(at, rows, present)
            with b.loop(whole, "%columns", plain=True) as at:
                single(at, rows, present)

    kind = "rows" if contiguous else "spread"
    parameters = (
        "ptr noalias %to, ptr readonly %from, i64 %to_row, i64 %from_row, i64 %from_column, "
        "i64 %count, i64 %columns"
    )
    return define(module, f"groups.{kind}.{types}.{group}", parameters, write)


def _group_lanes(target: LlvmTarget, types: Types, group: int) -> int:
    """Return how many groups the widest of the types allows in a vector, a square's at the most."""
    return min(_SQUARE, element_lanes(target, types) // group)


def _turned_groups(module: ModuleBuilder, target: LlvmTarget, types: Types, group: int) -> str:
    """Return the function `f(to, from, to_row, from_column, count, columns)`.

    The elements of a group are neighbours in memory to copy from.
    """
    mem, last = (scalar.memory_type(t) for t in (types.chain[0], types.chain[-1]))
    bits, align = 8 * element_bytes(types.chain[-1]), element_bytes(types.chain[0])
    assert last == f"i{bits}", "elements are put together as integers"
    wide, size = f"i{group * bits}", group * bits // 8
    side = _group_lanes(target, types, group)

    def write(b: Builder) -> None:
        def source(c: Index, g: Index) -> str:
            at = b.add(b.mul(c, "%from_column"), b.mul(g, group))
            return b.element_address("%from", mem, at)

        def loaded(address: str, number: int) -> Val:
            """Return so many groups of a column, converted."""
            raw = b.load(vector_type(number * group, mem), address, align=align)
            return types.convert(b, raw)

        def place(g: Index, c: Index) -> str:
            return b.element_address("%to", wide, b.add(b.mul(g, "%to_row"), c))

        groups: Index = b.udiv(b.maximum("%count", 0), group)
        columns: Index = b.maximum("%columns", 0)
        whole_groups, whole_columns = (b.mul(b.udiv(n, side), side) for n in (groups, columns))
        with (
            b.loop(0, whole_columns, side, plain=True) as c,
            b.loop(0, whole_groups, side, plain=True) as g,
        ):
            lines = [
                b.cast("bitcast", loaded(address, side), vector_type(side, wide))
                for address in _lines(b, source(c, g), mem, "%from_column", side)
            ]
            places = _lines(b, place(g, c), wide, "%to_row", side)
            for address, line in zip(places, _transposed(b, lines), strict=True):
                b.store(line, address, align=size)
        with _outside(b, (columns, whole_columns), (groups, whole_groups)) as (c, g):
            value = b.cast("bitcast", loaded(source(c, g), 1), wide)
            b.store(value, place(g, c), align=size)
        # What is left of k fills up the last group with zeros.
        rest = b.sub("%count", b.mul(groups, group))
        with b.when(b.compare("sgt", rest, 0)), b.loop(0, columns, plain=True) as column:
            to = place(groups, column)
            b.store(Val(wide, "0"), to, align=size)
            start = b.add(b.mul(column, "%from_column"), b.mul(groups, group))
            with b.loop(0, rest, plain=True) as at:
                types.store(b, types.load(b, "%from", b.add(start, at)), to, at)

    parameters = "ptr noalias %to, ptr readonly %from, i64 %to_row, i64 %from_column, "
    name = f"groups.turned.{types}.{group}"
    return define(module, name, parameters + "i64 %count, i64 %columns", write)


def clear(b: Builder, address: str, size: int, count: Index) -> None:
    """Write zeros to so many groups of a panel, or elements, of `size` bytes."""
    b.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1 immarg"])
    bytes_ = b.mul(count, size)
    b.call_void("llvm.memset.p0.i64", [ptr(address), int_const(8, 0), i64(bytes_), FALSE])


def clear_rows(b: Builder, to: StridedMatrix, size: int, rows: Index, columns: Index) -> None:
    """Write zeros to a matrix of elements of `size` bytes, contiguous along columns.

    Nothing is written where rows are not positive.
    """

    def write(b: Builder) -> None:
        with b.loop(0, "%rows", plain=True) as r:
            clear(b, b.element_address("%to", "i8", b.mul(r, "%to_row")), 1, "%bytes")

    parameters = "ptr noalias %to, i64 %to_row, i64 %rows, i64 %bytes"
    function = define(b.module, "clear.rows", parameters, write, ["optnone"])
    numbers = [i64(n) for n in (b.mul(to.row, size), rows, b.mul(columns, size))]
    b.call_void(function, [ptr(to.address), *numbers])
