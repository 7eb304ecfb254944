"""JAX's calls of LAPACK for which there is an equivalent plain operation.

Compiled programs then need no library and no external call.
"""

from __future__ import annotations

from typing import Any

from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_computation, build_reducer
from hlo.ops.attrs import SliceDim
from hlo.ops.host.custom_targets import factor
from hlo.values.types import PRED, S32, ArrayShape, array


def cholesky_factor(inst: Instruction) -> Computation | None:
    """Return the result of LAPACK's potrf: the factor in one triangle, and whether there is one.

    The other triangle is that of the operand. The second result is 0, or the order of the
    first leading minor that is not positive; there is no factor then, and its triangle is NaN.
    None for any other call. Raises InferError for one that does not fit the routine.
    """
    wanted = factor(inst)
    if wanted is None:
        return None
    shape, lower = wanted.shape, wanted.lower
    d = Draft(inst)
    (a,) = d.parameters
    if not shape.num_elements:
        return d.done(d.relaid(d.tuple(a, d.filled(S32, shape.dims[:-2], 0)), inst.shape))
    made = d.op("cholesky", a, lower=lower)
    # A matrix without a factor becomes NaN.
    failed = _is_nan(d, made)
    info = _first_failure(d, a, failed, lower)
    triangle = d.compare(_place(d, shape, -2), _place(d, shape, -1), "GE" if lower else "LE")
    whole = d.op("select", triangle, d.relaid(made, a.shape), a)
    return d.done(d.relaid(d.tuple(whole, info), inst.shape))


def _place(b: Builder, shape: ArrayShape, dim: int) -> Instruction:
    """Append the row or the column of each element."""
    return b.op("iota", shape=shape.with_type(S32), iota_dimension=shape.rank + dim)


def _is_nan(b: Builder, factor: Instruction) -> Instruction:
    """Append whether there is no factor, for each matrix: one element suffices."""
    shape = factor.array_shape
    batch = shape.dims[:-2]
    taken = [SliceDim(0, n) for n in batch] + [SliceDim(0, 1)] * 2
    corner = b.op("slice", factor, slice=tuple(taken))
    if shape.element_type.is_complex:
        corner = b.op("real", corner)
    corner = b.reshape(corner, batch)
    return b.compare(corner, corner, "NE")


def _first_failure(d: Draft, a: Instruction, failed: Instruction, lower: bool) -> Instruction:
    """Append the order of the first leading minor without a factor, 0 if all have one.

    A minor has none if a smaller one has none, so the first is found by bisection: a minor is the
    matrix with the rest of it replaced by that of the identity.
    """
    shape, batch = a.array_shape, array(S32, a.array_shape.dims[:-2])
    size = shape.dims[-1]

    def step(b: Builder, _: Any, values: list[Instruction], fixed: list[Instruction]) -> Any:
        low, high = values
        middle = b.op("divide", b.op("add", low, high), b.filled(S32, batch.dims, 2))
        order = b.op(
            "broadcast",
            middle,
            shape=shape.with_type(S32),
            dimensions=tuple(range(len(batch.dims))),
        )
        row, column = _place(b, shape, -2), _place(b, shape, -1)
        inside = b.compare(b.op("maximum", row, column), order, "LT")
        one, zero = (b.filled(shape.element_type, shape.dims, n) for n in (1, 0))
        identity = b.op(
            "select", b.compare(row, column, "EQ"), *(b.relaid(x, shape) for x in (one, zero))
        )
        minor = b.op("select", inside, fixed[0], identity)
        fails = _is_nan(b, b.op("cholesky", minor, lower=lower))
        return b.op("select", fails, low, middle), b.op("select", fails, middle, high)

    def search(b: Builder, operand: Instruction) -> Instruction:
        bounds = [b.filled(S32, batch.dims, n) for n in (0, size)]
        return counted_loop(b, size.bit_length(), bounds, [operand], step)[1]

    def nothing(b: Builder, _: Instruction) -> Instruction:
        return b.filled(S32, batch.dims, 0)

    any_failed = failed
    if batch.dims:
        any_failed = d.op(
            "reduce", failed, d.constant(PRED, False), dimensions=tuple(range(len(batch.dims))),
            to_apply=build_reducer("or", PRED, d.inst),
        )  # fmt: skip
    found = d.op(
        "conditional", any_failed, a, a,
        true_computation=build_computation("search", [shape], search, d.inst),
        false_computation=build_computation("nothing", [shape], nothing, d.inst),
    )  # fmt: skip
    return d.op("select", failed, found, d.filled(S32, batch.dims, 0))
