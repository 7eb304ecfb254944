"""Dot products: where both operands are contiguous along k, vectors run along k.

The lanes of a sum are added up in the end, all sums of a tile at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hlo.codegen.kernels.matmul.microkernels.record import (
    ANY_SIZE,
    Microkernel,
    PanelFormat,
    PanelOrder,
    Writes,
)
from hlo.codegen.kernels.matmul.microkernels.registry import family
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.vectors import lanes_below, lanes_of, masked_load, vector_at
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type
from hlo.values.types import ElementType


@family
def dot_products(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for any types: operands are converted to the type of sums."""
    lanes = lanes_of(target, total)
    yield dot_product(total, 4, 4 if target.vector_registers >= 32 else 2, lanes)
    # Of a matrix times a vector each element is read once: there is nothing to keep in a cache.
    yield dot_product(total, 8, 1, lanes, n=range(1, 2), blocks_k=False)


def dot_product(
    total: ElementType,
    rows: int,
    columns: int,
    lanes: int,
    *,
    n: range = ANY_SIZE,
    blocks_k: bool = True,
) -> Microkernel:
    """Return the microkernel of a tile of so many rows and columns, with a vector for each sum."""
    panel = PanelFormat(total, PanelOrder.K_INNERMOST)
    return Microkernel(
        name=f"inner.{total}.{rows}x{columns}x{lanes}",
        mr=rows,
        nr=columns,
        kr=lanes,
        lhs=panel,
        rhs=panel,
        total=total,
        # As many loads as the tile's sides in each step, and the sums of lanes for each tile.
        cycles=max(rows * columns, 1.1 * (rows + columns), 4.0),
        tile_cycles=30 + 4 * rows * columns,
        emit=_emit_tile,
        writes=Writes.SUMS,
        pads_k=False,
        blocks_k=blocks_k,
        n=n,
    )


def _emit_tile(b: Builder, kernel: Microkernel) -> None:
    s, align, lanes = kernel.arithmetic.type, kernel.arithmetic.bytes, kernel.kr
    vector = vector_type(lanes, s)

    def starts(base: str, count: int, limit: str, stride: str) -> list[str]:
        last = b.sub(limit, 1)
        numbers = [b.minimum(i, last) if i else 0 for i in range(count)]
        return [b.element_address(base, s, b.mul(i, stride)) for i in numbers]

    lefts = starts("%a", kernel.mr, "%rows", "%a_row")
    rights = starts("%b", kernel.nr, "%columns", "%b_column")

    def step(sums: Sequence[Val], read: Callable[[str], Val]) -> list[Val]:
        x, y = [read(p) for p in lefts], [read(p) for p in rights]
        totals = iter(sums)
        return [kernel.arithmetic.multiply_add(b, p, q, next(totals)) for p in x for q in y]

    zero = Val(vector, "zeroinitializer")
    whole = b.mul(b.udiv("%k", lanes), lanes)
    with b.carrying(0, whole, [zero] * (kernel.mr * kernel.nr), lanes, plain=True) as turn:
        at: Index = turn.index
        turn.values = step(turn.values, lambda p: vector_at(b, vector, p, s, at))
    rest = b.sub("%k", whole)
    mask = lanes_below(b, 0, str(rest), lanes)
    main = turn.values

    def finish() -> Sequence[Val]:
        return step(
            main, lambda p: masked_load(b, vector, b.element_address(p, s, whole), mask, align)
        )

    sums = b.choose(b.compare("sgt", rest, 0), finish, lambda: main)
    for n, part in enumerate(kernel.arithmetic.add_lanes(b, sums, lanes)):
        address = b.element_address("%out", s, n * lanes)
        b.store(part, address, align=align)
