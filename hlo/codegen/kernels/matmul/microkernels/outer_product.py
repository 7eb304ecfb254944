"""Outer products: vectors run along n, and each element of A is broadcast to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.microkernels.record import (
    ANY_SIZE,
    Microkernel,
    PanelFormat,
    PanelOrder,
    Writes,
)
from hlo.codegen.kernels.matmul.microkernels.registry import family
from hlo.codegen.llvm import Builder, Val
from hlo.codegen.loops.vectors import lanes_of, prefetch, vector_at
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type
from hlo.values.types import ElementType

# Steps of a tile whose result is fetched beforehand.
_SHORT = 128

# Adds the products of two vectors of groups to a vector of sums.
MultiplyAdd = Callable[[Builder, Val, Val, Val], Val]


@family
def outer_products(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for any types: operands are converted to the type of sums."""
    for (rows, vectors), m in register_tiles(target):
        yield outer_product(total, rows, vectors, lanes_of(target, total), m=m)


def register_tiles(target: LlvmTarget) -> list[tuple[tuple[int, int], range]]:
    """Return tiles that fill a target's registers: rows, vectors, and the m that they are for."""
    shapes = [(4, 4), (8, 2), (8, 1)] if target.vector_registers >= 32 else [(6, 2), (6, 1)]
    one = range(1, 2)
    several = range(2, ANY_SIZE.stop)
    return [*((s, several) for s in shapes), ((1, 4), one), ((1, 1), one)]


def outer_product(
    total: ElementType,
    rows: int,
    vectors: int,
    lanes: int,
    *,
    m: range = ANY_SIZE,
    element: ElementType | None = None,
    group: int = 1,
    kind: str = "",
    multiply_add: MultiplyAdd | None = None,
    features: frozenset[str] = frozenset(),
) -> Microkernel:
    """Return the microkernel of a tile of so many rows and vectors of columns.

    With groups of an element type along k, `multiply_add` adds the products of each group to a sum,
    and `kind` names it.
    """
    element = element or total
    multiply_add = multiply_add or Arithmetic(total).multiply_add

    def emit(b: Builder, kernel: Microkernel) -> None:
        _emit_tile(b, kernel, multiply_add)

    return Microkernel(
        name=f"outer.{total}{kind}.{rows}x{vectors}x{lanes}",
        mr=rows,
        nr=vectors * lanes,
        kr=group,
        lhs=PanelFormat(element, PanelOrder.ANY, group),
        rhs=PanelFormat(element, PanelOrder.K_OUTERMOST, group, is_padded=True),
        total=total,
        # One addition a vector and row; two loads in a cycle at the best; and a sum that waits for
        # the one before.
        cycles=max(rows * vectors, 0.6 * (rows + vectors), 4.0),
        tile_cycles=15 + rows * vectors,
        emit=emit,
        writes=Writes.ROWS,
        lanes=lanes,
        m=m,
        features=features,
    )


def _emit_tile(b: Builder, kernel: Microkernel, multiply_add: MultiplyAdd) -> None:
    s, align, lanes = kernel.arithmetic.type, kernel.arithmetic.bytes, kernel.lanes
    vector, right_type = vector_type(lanes, s), vector_type(lanes, kernel.rhs.type)
    # Rows from `rows` on repeat the last one, so that nothing beyond A is read.
    last = b.sub("%rows", 1)
    numbers = [b.minimum(i, last) if i else 0 for i in range(kernel.mr)]
    lefts = [b.element_address("%a", kernel.lhs.type, b.mul(i, "%a_row")) for i in numbers]
    targets = [b.element_address("%c", s, b.mul(i, "%c_row")) for i in numbers]
    starts = range(0, kernel.nr, lanes)
    places = [(i, j) for i in range(kernel.mr) for j in starts]

    # The lines to be written are fetched while sums are taken, unless those take so long that
    # fetching does not matter.
    is_short = b.compare("sle", "%k", _SHORT)
    with b.when(b.binary("or", is_short, "%more")):
        for i, j in places:
            prefetch(b, b.element_address(targets[i], s, j), to_write=True)
    zero = Val(vector, "zeroinitializer")
    with b.carrying(0, "%k", [zero] * len(places), plain=True) as turn:
        right = b.element_address("%b", kernel.rhs.type, b.mul(turn.index, "%b_k"))
        columns = [vector_at(b, right_type, right, kernel.rhs.type, j) for j in starts]
        at = b.mul(turn.index, "%a_k")
        old = iter(turn.values)
        following = []
        for left in lefts:
            address = b.element_address(left, kernel.lhs.type, at)
            spread = b.splat(b.load(kernel.lhs.type, address), lanes)
            for column in columns:
                following.append(multiply_add(b, spread, column, next(old)))
        turn.values = following
    sums = turn.values

    def added() -> Sequence[Val]:
        # At the end: a sum that begins with what is there would be rounded more.
        return [
            kernel.arithmetic.add(b, vector_at(b, vector, targets[i], s, j), total)
            for (i, j), total in zip(places, sums, strict=True)
        ]

    totals = b.choose(Val("i1", "%more"), added, lambda: sums)
    done = b.new_label("done")
    for (i, j), total in zip(places, totals, strict=True):
        if i and not j:
            more = b.new_label("row")
            present = b.compare("slt", i, "%rows")
            b.branch(present, more, done)
            b.place(more)
        address = b.element_address(targets[i], s, j)
        b.store(total, address, align=align)
    b.jump(done)
    b.place(done)
