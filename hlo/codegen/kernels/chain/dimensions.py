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


def common_rows(products: Sequence[Product], length: int) -> Rows | None:
    """Return the loops over the rows of products, None if their strides cut these differently.

    Of all but the last product, rows of `length` elements are those of the result; of the last one,
    those of A. Both have the strides of one array.
    """
    sides = ["c"] * (len(products) - 1) + ["a"]
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
    steps = [dims[-1].a // length for dims in found]
    for dims, step in zip(found, steps, strict=True):
        assert all(d.stride(side) == step * length for d, side in zip(dims, sides, strict=True))
    is_row = [all(d.b == 0 for d in dims) for dims in found]
    parts = [[(dims, s) for dims, s, r in zip(found, steps, is_row, strict=True) if r is wanted]
             for wanted in (False, True)]  # fmt: skip
    batch, rows = (
        tuple(tuple(dims[n] for dims, _ in part) or (Dim(1),) for n in range(len(products)))
        for part in parts
    )
    batch_steps, row_steps = (tuple(s for _, s in part) or (0,) for part in parts)
    return Rows(batch, rows, batch_steps, row_steps)


def _outer(d: Dim, inner: int) -> Dim:
    """Return what is left of a dimension without its `inner` neighbours."""
    return replace(d, size=d.size // inner, a=d.a * inner, b=d.b * inner, c=d.c * inner)
