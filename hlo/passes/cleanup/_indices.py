"""Helpers shared by the passes over gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.ir.builder import Builder


def transposed(b: Builder, value: Instruction, order: Sequence[int]) -> Instruction:
    """Return a value whose dimension i is dimension `order[i]` of another."""
    if list(order) == list(range(len(order))):
        return value
    return b.op("transpose", value, dimensions=tuple(order))


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order that undoes another."""
    return [order.index(d) for d in range(len(order))]


def as_rows(b: Builder, indices: Instruction, vector_dim: int) -> Instruction:
    """Return index vectors as the rows of a matrix, in row-major order."""
    dims = indices.array_shape.dims
    outside = [d for d in range(len(dims)) if d != vector_dim]
    if vector_dim == len(dims):
        return b.reshape(indices, [math.prod(dims), 1])
    rows = transposed(b, indices, [*outside, vector_dim])
    return b.reshape(rows, [math.prod(dims[d] for d in outside), dims[vector_dim]])
