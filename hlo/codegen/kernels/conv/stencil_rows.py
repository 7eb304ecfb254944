"""The inner loops of convolutions whose groups have one feature, as functions of no shape.

They run over a panel: the part of the input that some positions see, padded, converted. Its columns
lie in `step` phases: column j is element j / step of phase j % step, so that neighbours in the
result are neighbours in the panel whatever the stride of the window. A position's taps are a few
rows and columns further on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val
from hlo.codegen.loops.vectors import define, lanes_below, masked_load, masked_store, vector_at
from hlo.llvm import vector_type


@dataclass(frozen=True)
class Taps:
    """What is multiplied at once: rows and columns of a window, `jump` columns apart.

    step: the number of phases that columns of a panel have.
    """

    rows: int
    columns: int
    step: int
    jump: int

    @property
    def number(self) -> int:
        return self.rows * self.columns

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}by{self.step}.{self.jump}"

    def offsets(self, b: Builder, row: Index, phase: Index) -> list[Index]:
        """Return where the taps are from a position, row by row.

        row: the distance of tap rows; phase: that of phases.
        """
        return [
            b.add(b.mul(row, i), b.add(b.mul(phase, at % self.step), at // self.step))
            for i in range(self.rows)
            for at in range(0, self.columns * self.jump, self.jump)
        ]


_PANEL = "ptr readonly %x, i64 %x_row, i64 %x_tap, i64 %x_phase"
# Of filters in vectors of features.
FILTER_PARAMETERS = (
    f"{_PANEL}, i64 %x_column, ptr readonly %w, i64 %w_tap, ptr noalias %c, i64 %c_row, "
    "i64 %c_column, i64 %rows, i64 %columns, i64 %count"
)


def filter_row(module: ModuleBuilder, arithmetic: Arithmetic, taps: Taps, lanes: int) -> str:
    """Return the function that filters a panel in vectors along its columns.

    `void f(x, x_row, x_tap, x_phase, w, c, c_row, rows, columns)`: row r of C is the sum over taps
    of their factor in w, all in a row, and row r of the panel, moved by the tap. x_row: the
    distance of the rows of positions; x_tap: that of the rows of taps. Up to a vector is read
    beyond the columns of the panel.
    """

    def write(b: Builder) -> None:
        s, align = arithmetic.type, arithmetic.bytes
        vector = vector_type(lanes, s)
        factors = [
            b.splat(b.load(s, b.element_address("%w", s, i)), lanes) for i in range(taps.number)
        ]
        offsets = taps.offsets(b, "%x_tap", "%x_phase")
        whole = b.mul(b.udiv("%columns", lanes), lanes)
        rest = b.sub("%columns", whole)
        mask = lanes_below(b, 0, str(rest), lanes)
        with b.loop(0, "%rows", plain=True) as r:
            source = b.element_address("%x", s, b.mul(r, "%x_row"))
            target = b.element_address("%c", s, b.mul(r, "%c_row"))

            def total(at: Index) -> Val:
                total = Val(vector, "zeroinitializer")
                for factor, offset in zip(factors, offsets, strict=True):
                    x = vector_at(b, vector, source, s, b.add(at, offset))
                    total = arithmetic.multiply_add(b, factor, x, total)
                return total

            with b.loop(0, whole, lanes, plain=True) as at:
                address = b.element_address(target, s, at)
                b.store(total(at), address, align=align)
            with b.when(b.compare("sgt", rest, 0)):
                masked_store(b, total(whole), b.element_address(target, s, whole), mask, align)

    parameters = f"{_PANEL}, ptr readonly %w, ptr noalias %c, i64 %c_row, i64 %rows, i64 %columns"
    return define(module, f"filter.row.{arithmetic.name}.{taps}.{lanes}", parameters, write)


def filter_groups(module: ModuleBuilder, arithmetic: Arithmetic, taps: Taps, lanes: int) -> str:
    """Return the function that filters a panel in vectors across groups.

    `void f(x, x_row, x_tap, x_phase, x_column, w, w_tap, c, c_row, c_column, rows, columns,
    count)`: the panel has vectors of groups as elements, x_column apart; w has such a vector for
    each tap. Of each vector of C, `count` elements are written.
    """

    def write(b: Builder) -> None:
        s, align = arithmetic.type, arithmetic.bytes
        vector = vector_type(lanes, s)
        factors = [vector_at(b, vector, "%w", s, b.mul("%w_tap", i)) for i in range(taps.number)]
        offsets = _group_offsets(b, taps)
        mask = lanes_below(b, 0, "%count", lanes)
        whole = b.compare("sge", "%count", lanes)

        def place(at: str, to: str) -> None:
            total = Val(vector, "zeroinitializer")
            for factor, offset in zip(factors, offsets, strict=True):
                total = arithmetic.multiply_add(
                    b, factor, vector_at(b, vector, at, s, offset), total
                )

            def store() -> Sequence[Val]:
                b.store(total, to, align=align)
                return ()

            def part() -> Sequence[Val]:
                masked_store(b, total, to, mask, align)
                return ()

            b.choose(whole, store, part)

        with b.loop(0, "%rows", plain=True) as r:
            at = b.element_address("%x", s, b.mul(r, "%x_row"))
            to = b.element_address("%c", s, b.mul(r, "%c_row"))
            starts = [Val("ptr", at), Val("ptr", to)]
            with b.carrying(0, "%columns", starts, plain=True) as turn:
                here, result = turn.values
                place(here.name, result.name)
                turn.values = [
                    b.following(here, s, "%x_column"),
                    b.following(result, s, "%c_column"),
                ]

    name = f"filter.groups.{arithmetic.name}.{taps}.{lanes}"
    return define(module, name, FILTER_PARAMETERS, write)


def _group_offsets(b: Builder, taps: Taps) -> list[Index]:
    """Return where the taps are from a position, in a panel of groups."""
    return [
        b.add(
            b.mul("%x_tap", i),
            b.add(b.mul("%x_phase", at % taps.step), b.mul("%x_column", at // taps.step)),
        )
        for i in range(taps.rows)
        for at in range(0, taps.columns * taps.jump, taps.jump)
    ]


def correlate_row(module: ModuleBuilder, arithmetic: Arithmetic, taps: Taps, lanes: int) -> str:
    """Return the function that sums products of a panel and another in vectors along columns.

    `void f(x, x_row, x_tap, x_phase, y, y_row, c, rows, columns)`: element t of C gets added the
    sum of the products of all elements of y with those of the panel under them, moved by tap t.
    """

    def write(b: Builder) -> None:
        s = arithmetic.type
        vector = vector_type(lanes, s)
        offsets = taps.offsets(b, "%x_tap", "%x_phase")
        whole = b.mul(b.udiv("%columns", lanes), lanes)
        rest = b.sub("%columns", whole)
        mask = lanes_below(b, 0, str(rest), lanes)
        zero = Val(vector, "zeroinitializer")
        with b.carrying(0, "%rows", [zero] * taps.number, plain=True) as row:
            source = b.element_address("%x", s, b.mul(row.index, "%x_row"))
            other = b.element_address("%y", s, b.mul(row.index, "%y_row"))

            def step(
                at: Index, sums: Sequence[Val], read: Callable[[str, Index], Val]
            ) -> list[Val]:
                y, here = read(other, at), b.element_address(source, s, at)
                return [
                    arithmetic.multiply_add(b, read(here, o), y, total)
                    for o, total in zip(offsets, sums, strict=True)
                ]

            with b.carrying(0, whole, row.values, lanes, plain=True) as turn:
                turn.values = step(
                    turn.index, turn.values, lambda base, at: vector_at(b, vector, base, s, at)
                )
            main = turn.values

            def last() -> Sequence[Val]:
                return step(
                    whole, main,
                    lambda base, at: masked_load(
                        b, vector, b.element_address(base, s, at), mask, arithmetic.bytes
                    ),
                )  # fmt: skip

            row.values = b.choose(b.compare("sgt", rest, 0), last, lambda: main)
        for i, total in enumerate(row.values):
            (sums,) = arithmetic.add_lanes(b, [total], lanes)
            new = b.extract_element(sums, 0)
            address = b.element_address("%c", s, i)
            old = b.load(s, address)
            b.store(arithmetic.add(b, old, new), address)

    parameters = f"{_PANEL}, ptr readonly %y, i64 %y_row, ptr noalias %c, i64 %rows, i64 %columns"
    return define(module, f"correlate.row.{arithmetic.name}.{taps}.{lanes}", parameters, write)


def correlate_groups(module: ModuleBuilder, arithmetic: Arithmetic, taps: Taps, lanes: int) -> str:
    """Return the function that sums products of a panel and another in vectors across groups.

    `void f(x, x_row, x_tap, x_phase, x_column, y, y_row, y_column, c, c_tap, rows, columns)`: both
    panels have vectors of groups as elements; vector t of C gets added the sums for tap t.
    """

    def write(b: Builder) -> None:
        s, align = arithmetic.type, arithmetic.bytes
        vector = vector_type(lanes, s)
        offsets = _group_offsets(b, taps)
        places = [b.mul("%c_tap", i) for i in range(taps.number)]
        old = [vector_at(b, vector, "%c", s, at) for at in places]
        with b.carrying(0, "%rows", old, plain=True) as row:
            from_x, from_y = b.mul(row.index, "%x_row"), b.mul(row.index, "%y_row")
            starts = [
                Val("ptr", b.element_address(base, s, at))
                for base, at in (("%x", from_x), ("%y", from_y))
            ]
            with b.carrying(0, "%columns", [*starts, *row.values], plain=True) as turn:
                x, y, *sums = turn.values
                factor = vector_at(b, vector, y.name, s, 0)
                turn.values = [
                    b.following(x, s, "%x_column"),
                    b.following(y, s, "%y_column"),
                    *(
                        arithmetic.multiply_add(b, vector_at(b, vector, x.name, s, o), factor, t)
                        for o, t in zip(offsets, sums, strict=True)
                    ),
                ]
            row.values = turn.values[2:]
        for at, total in zip(places, row.values, strict=True):
            b.store(total, b.element_address("%c", s, at), align=align)

    parameters = (
        f"{_PANEL}, i64 %x_column, ptr readonly %y, i64 %y_row, i64 %y_column, ptr noalias %c, "
        "i64 %c_tap, i64 %rows, i64 %columns"
    )
    return define(module, f"correlate.groups.{arithmetic.name}.{taps}.{lanes}", parameters, write)
