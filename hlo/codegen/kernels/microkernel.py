"""The inner loops of matrix products, as functions that depend on no shape.

A module has each of them at most once, however many products of however many shapes it has:
  - a block multiplies panels tile by tile. Vectors run along the columns of the tile, whose rows
    are single elements of A spread over a vector (`outer_block`); or, where both operands are
    contiguous along k, vectors run along k and are added up in the end (`inner_block`);
  - copies bring parts of operands into panels, and sums to where results belong, changing types.
Strides are in elements. Every sum is taken in an order that its place does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.codegen import scalar
from hlo.codegen.kernels.vectors import (
    define,
    lanes_below,
    masked_load,
    masked_store,
    prefetch,
    vector_at,
)
from hlo.codegen.llvm import FALSE, Builder, Index, Module, Val, i64, ptr
from hlo.types import ElementType

# Turns of the inner loop of a tile whose result is fetched beforehand.
_SHORT = 128


# Whether a tile of the result is added to what is there.
_MORE = Val("i1", "%more")


@dataclass(frozen=True)
class Arithmetic:
    """What a product is computed in.

    total: the element type of sums. pairs: operands are two s16 numbers in 32 bits, neighbours
    along k, whose two products are added to a sum of 32 bits.
    """

    total: ElementType
    pairs: bool = False

    @property
    def name(self) -> str:
        return f"{self.total}.pairs" if self.pairs else self.total.name

    @property
    def type(self) -> str:
        """The LLVM type of sums, and of operands in panels."""
        return scalar.memory_type(self.total)

    @property
    def bytes(self) -> int:
        return max(8, self.total.bits) // 8

    def add(self, b: Builder, x: Val, y: Val) -> Val:
        """Return x + y; "any" for truth values."""
        if self.total.is_pred:
            return b.binary("or", x, y)
        return self._operation(b, "add", x, y)

    def multiply_add(self, b: Builder, x: Val, y: Val, total: Val) -> Val:
        """Return x * y + total, on vectors."""
        if self.pairs:
            return self.add(b, total, _pair_products(b, x, y))
        if self.total.is_pred:
            return self.add(b, total, b.binary("and", x, y))
        return self.add(b, total, self._operation(b, "mul", x, y))

    def _operation(self, b: Builder, name: str, x: Val, y: Val) -> Val:
        if self.total.is_float:
            return b.binary(f"f{name}", x, y, "contract")
        return b.binary(name, x, y)


def _pair_products(b: Builder, x: Val, y: Val) -> Val:
    """Return x.low * y.low + x.high * y.high in each lane: one instruction where there is one."""
    lanes = int(x.type[1:].split(" ")[0])
    narrow, wide = f"<{2 * lanes} x i16>", f"<{2 * lanes} x i32>"
    halves = [b.cast("bitcast", v, narrow) for v in (x, y)]
    p, q = (b.cast("sext", v, wide) for v in halves)
    product = b.binary("mul", p, q, "nsw")
    even, odd = (b.shuffle_vector(product, product, range(i, 2 * lanes, 2)) for i in (0, 1))
    return b.binary("add", even, odd)


# --- vectors along columns ----------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """Rows and columns that are kept in registers: columns are vectors of so many lanes."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors}x{self.lanes}"


def outer_block(module: Module, arithmetic: Arithmetic, tile: Tile) -> str:
    """Return the function that multiplies a block of A by a panel of B.

    `void f(a, a_row, a_k, rows, b, b_k, b_strip, columns, k, c, c_row, more)`: C, contiguous along
    columns, becomes A * B, or with `more` C + A * B. The panel has a strip for each tile's columns,
    b_strip apart, which has to be readable in full width.
    """
    name = f"outer.{arithmetic.name}.{tile}"

    def write(b: Builder) -> None:
        s, rows, columns = arithmetic.type, tile.rows, tile.columns
        inner = _outer_tile(module, arithmetic, tile)
        spare = b.alloca(s, rows * columns, align=64)
        with b.loop(0, "%columns", columns, plain=True) as j:
            strip = b.element_address("%b", s, b.mul(b.udiv(j, columns), "%b_strip"))
            here = b.sub("%columns", j)
            whole = b.compare("sge", here, columns)
            with b.loop(0, "%rows", rows, plain=True) as i:
                left = b.element_address("%a", s, b.mul(i, "%a_row"))
                target = b.element_address("%c", s, b.add(b.mul(i, "%c_row"), j))
                rows_here = b.sub("%rows", i)
                operands = [
                    ptr(left), i64("%a_row"), i64("%a_k"), i64(rows_here), ptr(strip), i64("%b_k"),
                    i64("%k"),
                ]  # fmt: skip

                def full(operands: Sequence[Val] = operands, target: str = target) -> Sequence[Val]:
                    b.call_void(inner, [*operands, ptr(target), i64("%c_row"), _MORE])
                    return ()

                def part(
                    operands: Sequence[Val] = operands, target: str = target,
                    rows_here: Index = rows_here, here: Index = here,
                ) -> Sequence[Val]:  # fmt: skip
                    b.call_void(inner, [*operands, spare, i64(columns), FALSE])
                    edge = _edge(module, arithmetic, tile)
                    counts = i64("%c_row"), i64(rows_here), i64(here)
                    b.call_void(edge, [spare, ptr(target), *counts, _MORE])
                    return ()

                b.choose(whole, full, part)

    return define(
        module, name,
        "ptr readonly %a, i64 %a_row, i64 %a_k, i64 %rows, ptr readonly %b, i64 %b_k, "
        "i64 %b_strip, i64 %columns, i64 %k, ptr noalias %c, i64 %c_row, i1 %more", write,
    )  # fmt: skip


def _outer_tile(module: Module, arithmetic: Arithmetic, tile: Tile) -> str:
    """Return the function that computes a tile, `rows` rows of it, in all its columns."""
    name = f"outer.tile.{arithmetic.name}.{tile}"

    def write(b: Builder) -> None:
        s, align = arithmetic.type, arithmetic.bytes
        vector = f"<{tile.lanes} x {s}>"
        # Rows from `rows` on repeat the last one, so that nothing beyond A is read.
        last = b.sub("%rows", 1)
        numbers = [b.minimum(i, last) if i else 0 for i in range(tile.rows)]
        lefts = [b.element_address("%a", s, b.mul(i, "%a_row")) for i in numbers]
        targets = [b.element_address("%c", s, b.mul(i, "%c_row")) for i in numbers]
        places = [(i, j) for i in range(tile.rows) for j in range(tile.vectors)]

        # The lines to be written are fetched while sums are taken, unless those take so long that
        # fetching does not matter.
        is_short = b.compare("sle", "%k", _SHORT)
        with b.when(b.binary("or", is_short, "%more")):
            for i, j in places:
                prefetch(b, b.element_address(targets[i], s, j * tile.lanes), to_write=True)
        zero = Val(vector, "zeroinitializer")
        with b.carrying(0, "%k", [zero] * len(places), plain=True) as turn:
            right = b.element_address("%b", s, b.mul(turn.index, "%b_k"))
            columns = [vector_at(b, vector, right, s, j * tile.lanes) for j in range(tile.vectors)]
            at = b.mul(turn.index, "%a_k")
            old = iter(turn.values)
            following = []
            for left in lefts:
                one = b.load(s, b.element_address(left, s, at))
                spread = b.splat(one, tile.lanes)
                for column in columns:
                    following.append(arithmetic.multiply_add(b, spread, column, next(old)))
            turn.values = following
        sums = turn.values

        def added() -> Sequence[Val]:
            # At the end: a sum that begins with what is there would be rounded more.
            return [
                arithmetic.add(b, vector_at(b, vector, targets[i], s, j * tile.lanes), total)
                for (i, j), total in zip(places, sums, strict=True)
            ]

        totals = b.choose(_MORE, added, lambda: sums)
        done = b.new_label("done")
        for (i, j), total in zip(places, totals, strict=True):
            if i and not j:
                more = b.new_label("row")
                present = b.compare("slt", i, "%rows")
                b.branch(present, more, done)
                b.place(more)
            address = b.element_address(targets[i], s, j * tile.lanes)
            b.store(total, address, align=align)
        b.jump(done)
        b.place(done)

    return define(
        module, name,
        "ptr readonly %a, i64 %a_row, i64 %a_k, i64 %rows, ptr readonly %b, i64 %b_k, i64 %k, "
        "ptr noalias %c, i64 %c_row, i1 %more", write,
    )  # fmt: skip


def _edge(module: Module, arithmetic: Arithmetic, tile: Tile) -> str:
    """Return the function that brings the columns of a tile that exist to their place."""
    name = f"outer.edge.{arithmetic.name}.{tile}"

    def write(b: Builder) -> None:
        s, lanes, align = arithmetic.type, tile.lanes, arithmetic.bytes
        vector = f"<{lanes} x {s}>"
        limit = b.minimum("%rows", tile.rows)
        masks = [lanes_below(b, j * lanes, "%columns", lanes) for j in range(tile.vectors)]
        with b.loop(0, limit, plain=True) as i:
            source = b.element_address("%tile", s, b.mul(i, tile.columns))
            target = b.element_address("%c", s, b.mul(i, "%c_row"))
            for j, mask in enumerate(masks):
                new = vector_at(b, vector, source, s, j * lanes)
                address = b.element_address(target, s, j * lanes)
                none = Val(mask.type, "zeroinitializer")
                wanted = b.select(_MORE, mask, none)
                old = masked_load(b, vector, address, wanted, align)
                masked_store(b, arithmetic.add(b, old, new), address, mask, align)

    return define(
        module, name,
        "ptr readonly %tile, ptr noalias %c, i64 %c_row, i64 %rows, i64 %columns, i1 %more", write,
    )  # fmt: skip


# --- vectors along k ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Dots:
    """Rows and columns whose sums are taken at once, in vectors of so many lanes along k."""

    rows: int
    columns: int
    lanes: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.lanes}"


def inner_block(module: Module, arithmetic: Arithmetic, dots: Dots) -> str:
    """Return the function that multiplies rows of A by columns of B, both contiguous along k.

    `void f(a, a_row, rows, b, b_column, columns, k, c, c_row, c_column, more)`: C becomes A * B, or
    with `more` C + A * B.
    """
    name = f"inner.{arithmetic.name}.{dots}"

    def write(b: Builder) -> None:
        s = arithmetic.type
        sums = _inner_tile(module, arithmetic, dots)
        spare = b.alloca(s, max(dots.rows * dots.columns, dots.lanes), align=64)
        # The side with more in a tile runs inside: it is the one that is read once.
        with (
            b.loop(0, "%columns", dots.columns, plain=True) as j,
            b.loop(0, "%rows", dots.rows, plain=True) as i,
        ):
            left = b.element_address("%a", s, b.mul(i, "%a_row"))
            right = b.element_address("%b", s, b.mul(j, "%b_column"))
            rows, columns = b.sub("%rows", i), b.sub("%columns", j)
            b.call_void(
                sums,
                [
                    ptr(left), i64("%a_row"), i64(rows), ptr(right), i64("%b_column"),
                    i64(columns), i64("%k"), spare,
                ],
            )  # fmt: skip
            with (
                b.loop(0, b.minimum(rows, dots.rows), plain=True) as ii,
                b.loop(0, b.minimum(columns, dots.columns), plain=True) as jj,
            ):
                at = b.add(b.mul(ii, dots.columns), jj)
                new = b.load(s, b.element_address(spare.name, s, at))
                row = b.mul(b.add(i, ii), "%c_row")
                address = b.element_address(
                    "%c", s, b.add(row, b.mul(b.add(j, jj), "%c_column"))
                )  # fmt: skip
                zero = Val(s, "0.0" if arithmetic.total.is_float else "0")

                def old(address: str = address) -> Sequence[Val]:
                    return [b.load(s, address)]

                def none(zero: Val = zero) -> Sequence[Val]:
                    return [zero]

                (before,) = b.choose(_MORE, old, none)
                b.store(arithmetic.add(b, before, new), address)

    return define(
        module, name,
        "ptr readonly %a, i64 %a_row, i64 %rows, ptr readonly %b, i64 %b_column, i64 %columns, "
        "i64 %k, ptr noalias %c, i64 %c_row, i64 %c_column, i1 %more", write,
    )  # fmt: skip


def _inner_tile(module: Module, arithmetic: Arithmetic, dots: Dots) -> str:
    """Return the function that stores the sums of a tile, row by row."""
    name = f"inner.tile.{arithmetic.name}.{dots}"

    def write(b: Builder) -> None:
        s, align = arithmetic.type, arithmetic.bytes
        lanes, vector = dots.lanes, f"<{dots.lanes} x {arithmetic.type}>"

        def starts(base: str, count: int, limit: str, stride: str) -> list[str]:
            last = b.sub(limit, 1)
            numbers = [b.minimum(i, last) if i else 0 for i in range(count)]
            return [b.element_address(base, s, b.mul(i, stride)) for i in numbers]

        lefts = starts("%a", dots.rows, "%rows", "%a_row")
        rights = starts("%b", dots.columns, "%columns", "%b_column")

        def step(sums: Sequence[Val], read: Callable[[str], Val]) -> list[Val]:
            x, y = [read(p) for p in lefts], [read(p) for p in rights]
            totals = iter(sums)
            return [arithmetic.multiply_add(b, p, q, next(totals)) for p in x for q in y]

        zero = Val(vector, "zeroinitializer")
        whole = b.mul(b.udiv("%k", lanes), lanes)
        with b.carrying(0, whole, [zero] * (dots.rows * dots.columns), lanes, plain=True) as turn:
            at = turn.index
            turn.values = step(turn.values, lambda p: vector_at(b, vector, p, s, at))
        rest = b.sub("%k", whole)
        mask = lanes_below(b, 0, str(rest), lanes)
        main = turn.values

        def finish() -> Sequence[Val]:
            return step(
                main,
                lambda p: masked_load(b, vector, b.element_address(p, s, whole), mask, align),
            )

        sums = b.choose(b.compare("sgt", rest, 0), finish, lambda: main)
        for n, part in enumerate(add_lanes(b, arithmetic, sums, lanes)):
            address = b.element_address("%out", s, n * lanes)
            b.store(part, address, align=align)

    return define(
        module, name,
        "ptr readonly %a, i64 %a_row, i64 %rows, ptr readonly %b, i64 %b_column, i64 %columns, "
        "i64 %k, ptr noalias %out", write,
    )  # fmt: skip


def add_lanes(b: Builder, arithmetic: Arithmetic, vectors: Sequence[Val], lanes: int) -> list[Val]:
    """Return the sums of each vector's lanes, in order, as few vectors.

    Two vectors become one that has the sums of their halves; every lane is added up by the same
    tree.
    """
    parts, width = list(vectors), lanes
    while width > 1:
        half = width // 2
        size = int(parts[0].type[1:].split(" ")[0])
        low = [i + k for i in range(0, size, width) for k in range(half)]
        if len(parts) == 1:
            (x,) = parts
            first, second = (
                b.shuffle_vector(x, x, low),
                b.shuffle_vector(x, x, [i + half for i in low]),
            )
            parts = [arithmetic.add(b, first, second)]
        else:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            low += [i + size for i in low]
            parts = [
                arithmetic.add(
                    b, b.shuffle_vector(x, y, low), b.shuffle_vector(x, y, [i + half for i in low])
                )
                for x, y in pairs
            ]
        width = half
    return parts
