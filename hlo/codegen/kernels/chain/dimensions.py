"""The dimensions of products in a chain, which all number the rows of one space.

Each product has its own loops, as strides in its operands say. What is a row for one, and of a
batch for another, is cut alike here; what is computed as one block are the rows that all products
multiply by the same matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo.codegen.kernels.matmul.product import Dim, Dims, Product, count


@dataclass(frozen=True)
class Rows:
    """The loops over rows: those of a batch, and those of the rows of one.

    batch, rows: for each product, its strides, in the order of the space. steps: the distance of
    neighbours of these dimensions in the space, in rows.
    """

    batch: tuple[Dims, ...]
    rows: tuple[Dims, ...]
    batch_steps: tuple[int, ...]
    row_steps: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of rows of a batch."""
        return count(self.rows[0])


def common_rows(products: Sequence[Product], sides: str, length: int) -> Rows | None:
    """Return the loops over the rows of products, None if their strides cut these differently.

    sides: of each product, the array whose rows are meant: "c" for a first one, "a" for the last.
    These have `length` elements, and the strides of one array.
    """
    runs = [
        sorted((d for d in (*p.batch, *p.m) if d.size != 1), key=lambda d: d.stride(side))
        for p, side in zip(products, sides, strict=True)
    ]
    found: list[tuple[Dim, ...]] = []
    while any(runs):
        if not all(runs):
            return None
        least = min(run[0].size for run in runs)
        if any(run[0].size % least for run in runs):
            return None
        found.insert(0, tuple(replace(run[0], size=least) for run in runs))
        for run in runs:
            d = run.pop(0)
            if d.size > least:
                run.insert(0, _outer(d, least))
    batch = _joined([dims for dims in found if any(d.b for d in dims)])
    rows = _joined([dims for dims in found if not any(d.b for d in dims)])

    def of_each(part: Sequence[tuple[Dim, ...]]) -> tuple[Dims, ...]:
        return tuple(tuple(dims[n] for dims in part) or (Dim(1),) for n in range(len(products)))

    def steps(part: Sequence[tuple[Dim, ...]]) -> tuple[int, ...]:
        return tuple(dims[0].stride(sides[0]) // length for dims in part) or (0,)

    return Rows(of_each(batch), of_each(rows), steps(batch), steps(rows))


def _joined(found: Sequence[tuple[Dim, ...]]) -> list[tuple[Dim, ...]]:
    """Return dimensions with neighbours as one where all products allow it."""
    result: list[tuple[Dim, ...]] = []
    for dims in found:
        if result and all(_outer(d, d.size) == replace(o, size=1) for d, o in
                          zip(dims, result[-1], strict=True)):  # fmt: skip
            dims = tuple(
                replace(d, size=d.size * o.size) for d, o in zip(dims, result.pop(), strict=True)
            )
        result.append(dims)
    return result


def _outer(d: Dim, inner: int) -> Dim:
    """Return what is left of a dimension without its `inner` neighbours."""
    return replace(d, size=d.size // inner, a=d.a * inner, b=d.b * inner, c=d.c * inner)
