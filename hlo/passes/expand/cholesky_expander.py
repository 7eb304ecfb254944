"""Cholesky factors column by column."""

from __future__ import annotations

import math

from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.expand import _matrix as mx
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import PRED, array


@module_pass
def cholesky_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `cholesky` by a loop that computes one column of the factor per iteration.

    In f64 or c128, rounded once. Of a matrix that is not positive definite all becomes NaN.
    """
    expand_instructions(
        module, rewrites, "cholesky_expander.expand", ["cholesky"], _expanded, approximate=True
    )


def _expanded(inst: Instruction) -> Computation | None:
    shape = inst.array_shape
    if inst.operands[0].array_shape.is_dynamic:
        return None
    d = Draft(inst)
    if not shape.num_elements:
        return d.done(d.zeros(shape))
    batch, n = math.prod(shape.dims[:-2]), shape.dims[-1]
    a = mx.widened(d, d.parameters[0])
    if not inst.lower:
        a = mx.swapped(d, mx.conjugate(d, a))
    none = d.broadcast(d.constant(PRED, False), array(PRED, (batch, 1, 1)))
    factor, failed = counted_loop(d, n, [d.zeros(a.array_shape), none], [a], _column)
    nan = d.filled(factor.array_shape.element_type, factor.array_shape.dims, math.nan)
    factor = d.op("select", mx.spread(d, failed, factor), nan, factor)
    if not inst.lower:
        factor = mx.swapped(d, mx.conjugate(d, factor))
    rounded = d.convert(d.reshape(factor, shape.dims), shape.element_type)
    return d.done(d.relaid(rounded, shape))


def _column(
    b: Builder, at: Instruction, values: list[Instruction], fixed: list[Instruction]
) -> list[Instruction]:
    """Append a column: what is left of the matrix's, divided by the root of its first element."""
    (factor, failed), (a,) = values, fixed
    row = mx.swapped(b, mx.conjugate(b, mx.taken(b, factor, at, 1)))
    left = b.op("subtract", mx.taken(b, a, at, 2), mx.product(b, factor, row))
    # The diagonal of a Hermitian matrix is real, whatever is stored there.
    pivot = mx.real(b, mx.taken(b, left, at, 1))
    zero = b.filled(mx.part_type(left), pivot.array_shape.dims, 0)
    positive = b.compare(pivot, zero, "GT")
    root = b.op("sqrt", pivot)
    wide = mx.spread(b, mx.as_type_of(b, root, left), left)
    below = mx.kept(b, mx.positions(b, left, 1, "GT", at), b.op("divide", left, wide))
    column = b.op("select", mx.positions(b, left, 1, "EQ", at), wide, below)
    failed = b.op("or", failed, b.op("not", positive))
    return [mx.put(b, factor, column, at, 2), failed]
