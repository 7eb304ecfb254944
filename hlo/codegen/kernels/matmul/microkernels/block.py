"""The loop over the tiles of a block, which is the same for all microkernels.

A module has the functions of a microkernel at most once, however many products of however many
shapes it has. Every sum is taken in an order that its place does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.kernels.matmul.microkernels.record import Microkernel, PanelOrder, Writes
from hlo.codegen.llvm import FALSE, Builder, Index, ModuleBuilder, Val, i64, ptr
from hlo.codegen.loops.vectors import define, lanes_below, masked_load, masked_store, vector_at
from hlo.llvm import vector_type

# Whether the sums of a tile are added to what is there.
_MORE = Val("i1", "%more")


def block_function(module: ModuleBuilder, kernel: Microkernel, *, is_light: bool) -> str:
    """Return the function that multiplies a block of A by a panel of B.

    is_light: tiles take so little time that the loop over them is worth registers.

    Its parameters are the strides of the operands that the formats leave open, in groups, and
    sizes: `void f(a, a_row?, a_k?, rows, b, (b_k, b_strip | b_column), columns, k, c, c_row,
    c_column?, more)`. C becomes A * B, or with `more` C + A * B. b_strip: the distance of the
    columns of one tile from those of the next. c_column is there for `Writes.SUMS` only; otherwise
    C is contiguous along columns.
    """

    def write(b: Builder) -> None:
        tile = _Tile(b, kernel)
        if kernel.prologue is not None:
            kernel.prologue(b)
        # The side with more in a tile runs inside: it is the one that is read once.
        with b.loop(0, "%columns", kernel.nr, plain=True) as j:
            strip = tile.strip(j)
            columns = b.sub("%columns", j)
            with b.loop(0, "%rows", kernel.mr, plain=True) as i:
                if kernel.writes is Writes.SUMS:
                    tile.add_sums(i, j, strip, columns)
                else:
                    tile.write(i, j, strip, columns)
        if kernel.epilogue is not None:
            kernel.epilogue(b)

    # What a unit is set up with may need more than code without optimization has.
    if is_light or kernel.prologue is not None:
        return define(module, kernel.name, _parameters(kernel), write, kernel.attributes)
    name, attributes = f"{kernel.name}.tiles", ("optnone", *kernel.attributes)
    return define(module, name, _parameters(kernel), write, attributes)


def _parameters(kernel: Microkernel) -> str:
    lhs = ["ptr readonly %a", *kernel.strides("a"), "i64 %rows"]
    strip = ["i64 %b_strip"] if kernel.rhs.order is PanelOrder.K_OUTERMOST else []
    rhs = ["ptr readonly %b", *kernel.strides("b"), *strip, "i64 %columns"]
    c_column = ["i64 %c_column"] if kernel.writes is Writes.SUMS else []
    result = ["ptr noalias %c", "i64 %c_row", *c_column, "i1 %more"]
    return ", ".join(map(str, [*lhs, *rhs, "i64 %k", *result]))


class _Tile:
    """Emission of what is done for one tile."""

    def __init__(self, b: Builder, kernel: Microkernel) -> None:
        self.b, self.kernel = b, kernel
        self.function = _tile_function(b.module, kernel)
        self.type = kernel.arithmetic.type
        if kernel.writes is not Writes.PART:
            self.spare = b.alloca(self.type, kernel.mr * kernel.nr, align=64)

    def strip(self, j: Index) -> str:
        """Return where B is from column j on, a multiple of the tile's columns."""
        b, rhs = self.b, self.kernel.rhs
        if rhs.order is PanelOrder.K_OUTERMOST:
            at = b.mul(b.udiv(j, self.kernel.nr), "%b_strip")
        else:
            at = b.mul(j, "%b_column")
        return b.element_address("%b", rhs.type, at)

    def _left(self, i: Index) -> str:
        """Return where A is from row i on."""
        b, lhs = self.b, self.kernel.lhs
        at = i if lhs.order is PanelOrder.K_OUTERMOST else b.mul(i, "%a_row")
        return b.element_address("%a", lhs.type, at)

    def _call(
        self, left: str, rows: Index, strip: str, columns: Index, result: Sequence[Val]
    ) -> None:
        """Call the function of a tile."""
        kernel = self.kernel
        lhs = [ptr(left), *kernel.strides("a"), i64(rows)]
        limit = [i64(columns)] if kernel.asks_columns else []
        rhs = [ptr(strip), *kernel.strides("b"), *limit]
        self.b.call_void(self.function, [*lhs, *rhs, i64("%k"), *result])

    def write(self, i: Index, j: Index, strip: str, columns: Index) -> None:
        """Write a tile in place, or what there is of it by way of memory that has room for all."""
        b, kernel = self.b, self.kernel
        left = self._left(i)
        target = b.element_address("%c", self.type, b.add(b.mul(i, "%c_row"), j))
        rows = b.sub("%rows", i)

        def whole() -> Sequence[Val]:
            self._call(left, rows, strip, columns, [ptr(target), i64("%c_row"), _MORE])
            return ()

        if kernel.writes is Writes.PART:
            whole()
            return
        is_whole = b.compare("sge", columns, kernel.nr)
        if kernel.writes is Writes.TILE:
            is_whole = b.both(is_whole, b.compare("sge", rows, kernel.mr))

        def part() -> Sequence[Val]:
            self._call(left, rows, strip, columns, [self.spare, i64(kernel.nr), FALSE])
            counts = [i64("%c_row"), i64(rows), i64(columns)]
            edge = _edge_function(b.module, kernel)
            b.call_void(edge, [self.spare, ptr(target), *counts, _MORE])
            return ()

        b.choose(is_whole, whole, part)

    def add_sums(self, i: Index, j: Index, strip: str, columns: Index) -> None:
        """Add the sums of a tile to C one by one."""
        b, s, kernel = self.b, self.type, self.kernel
        left, rows = self._left(i), b.sub("%rows", i)
        self._call(left, rows, strip, columns, [self.spare])
        at = b.add(b.mul(i, "%c_row"), b.mul(j, "%c_column"))
        strides = [i64("%c_row"), i64("%c_column")]
        arguments = [ptr(b.element_address("%c", s, at)), *strides, i64(rows), i64(columns), _MORE]
        b.call_void(_add_function(b.module, kernel), [self.spare, *arguments])


def _tile_function(module: ModuleBuilder, kernel: Microkernel) -> str:
    """Return the function of a tile."""
    return define(
        module, f"{kernel.name}.tile", kernel.parameters, lambda b: kernel.emit(b, kernel),
        kernel.attributes,
    )  # fmt: skip


def _edge_function(module: ModuleBuilder, kernel: Microkernel) -> str:
    """Return the function that brings the rows and columns of a tile that exist to their place."""

    def write(b: Builder) -> None:
        s, lanes, align = kernel.arithmetic.type, kernel.lanes, kernel.arithmetic.bytes
        vector = vector_type(lanes, s)
        limit = b.minimum("%rows", kernel.mr)
        starts = range(0, kernel.nr, lanes)
        masks = [lanes_below(b, j, "%columns", lanes) for j in starts]
        with b.loop(0, limit, plain=True) as i:
            source = b.element_address("%tile", s, b.mul(i, kernel.nr))
            target = b.element_address("%c", s, b.mul(i, "%c_row"))
            for j, mask in zip(starts, masks, strict=True):
                new = vector_at(b, vector, source, s, j)
                address = b.element_address(target, s, j)
                none = Val(mask.type, "zeroinitializer")
                wanted = b.select(_MORE, mask, none)
                old = masked_load(b, vector, address, wanted, align)
                masked_store(b, kernel.arithmetic.add(b, old, new), address, mask, align)

    return define(
        module, f"{kernel.name}.edge",
        "ptr readonly %tile, ptr noalias %c, i64 %c_row, i64 %rows, i64 %columns, i1 %more", write,
        kernel.attributes,
    )  # fmt: skip


def _add_function(module: ModuleBuilder, kernel: Microkernel) -> str:
    """Return the function that adds the sums of a tile that exist to C one by one."""

    def write(b: Builder) -> None:
        s = kernel.arithmetic.type
        zero = Val(s, "0.0" if kernel.total.is_float else "0")
        with (
            b.loop(0, b.minimum("%rows", kernel.mr), plain=True) as i,
            b.loop(0, b.minimum("%columns", kernel.nr), plain=True) as j,
        ):
            new = b.load(s, b.element_address("%tile", s, b.add(b.mul(i, kernel.nr), j)))
            place = b.add(b.mul(i, "%c_row"), b.mul(j, "%c_column"))
            address = b.element_address("%c", s, place)
            before = b.select(_MORE, b.load(s, address), zero)
            b.store(kernel.arithmetic.add(b, before, new), address)

    return define(
        module, f"{kernel.name}.add",
        "ptr readonly %tile, ptr noalias %c, i64 %c_row, i64 %c_column, i64 %rows, i64 %columns, "
        "i1 %more", write, kernel.attributes,
    )  # fmt: skip
