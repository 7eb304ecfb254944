"""Scatters in which no two updates meet."""

from __future__ import annotations

import math

import numpy as np

from hlo.analysis.patterns import single_binary_op
from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation
from hlo.ops.attrs import PadDim, SliceDim
from hlo.passes.cleanup._indices import as_rows, transposed
from hlo.passes.expand._inline import expand_instructions, rounds
from hlo.passes.expand._reducers import identity_of
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import PRED, S64, array


@module_pass
def scatter_determinism_expander(module: Module, rewrites: Rewrites) -> None:
    """Combine updates of the same element before scatters, so that their order does not matter.

    They are sorted by the element that they are for, and combined pair by pair; then each element
    gets one. For sums and other operations that may be combined in any order.
    """
    rule = "scatter_determinism_expander.expand"
    expand_instructions(module, rewrites, rule, ["scatter"], _expanded, approximate=rounds)


def _expanded(inst: Instruction) -> Computation | None:
    if len(inst.operands) != 3 or inst.unique_indices:
        return None
    shape, updates = inst.array_shape, inst.operands[2].array_shape
    op = single_binary_op(inst.to_apply)
    if op is None or identity_of(op, shape.element_type) is None:
        return None
    if any(o.shape.is_dynamic for o in inst.operands) or updates.num_elements < 2:
        return None
    if inst.input_batching_dims or not shape.num_elements:
        return None
    if updates.element_type is not shape.element_type:
        return None
    d = Draft(inst)
    x, indices, _ = d.parameters
    places, values = _by_element(d, inst, indices)
    places, values = _sorted(d, places, values)
    values = _running(d, op, places, values)
    # The last of each run has all of it; the others go nowhere.
    count, beyond = places.array_shape.dims[0], d.filled(S64, places.array_shape.dims, _BEYOND)
    following = _shifted(d, places, -1, d.constant(S64, -1))
    last = d.compare(places, following, "NE")
    places = d.op("select", last, places, beyond)
    flat = d.op(
        "scatter", d.reshape(x, (shape.num_elements,)), d.reshape(places, (count, 1)), values,
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1, unique_indices=True, to_apply=inst.to_apply,
    )  # fmt: skip
    return d.done(d.relaid(d.reshape(flat, shape.dims), inst.shape))


# No array is as large; what is to be nowhere goes there.
_BEYOND = 2**62


def _by_element(
    d: Draft, inst: Instruction, indices: Instruction
) -> tuple[Instruction, Instruction]:
    """Append the number of the element that each update is for, in row-major order, and updates."""
    dims = inst.array_shape.dims
    updates = d.parameters[2]
    named, inside = inst.scatter_dims_to_operand_dims, inst.update_window_dims
    outside = [n for n in range(updates.array_shape.rank) if n not in inside]
    inserted = set(inst.inserted_window_dims)
    free = [n for n in range(len(dims)) if n not in inserted]
    window = [1] * len(dims)
    for n, at in zip(free, inside, strict=True):
        window[n] = updates.array_shape.dims[at]
    strides = [math.prod(dims[n + 1 :]) for n in range(len(dims))]
    rows = as_rows(d, indices, inst.index_vector_dim)
    rows = _signed(d, rows)
    count, size = rows.array_shape.dims[0], math.prod(window)
    valid, start = d.filled(PRED, (count,), True), d.filled(S64, (count,), 0)
    for k, n in enumerate(named):
        cut = (SliceDim(0, count), SliceDim(k, k + 1))
        index = d.reshape(d.op("slice", rows, slice=cut), (count,))
        for direction, limit in (("GE", 0), ("LE", dims[n] - window[n])):
            inside_ = d.compare(index, d.filled(S64, (count,), limit), direction)
            valid = d.op("and", valid, inside_)
        step = d.op("multiply", index, d.filled(S64, (count,), strides[n]))
        start = d.op("add", start, step)
    grid = np.indices(window).reshape(len(dims), -1)
    offsets = (grid * np.array(strides, np.int64).reshape(-1, 1)).sum(axis=0)
    both = array(S64, (count, size))
    places = d.op(
        "add", d.op("broadcast", start, shape=both, dimensions=(0,)),
        d.op("broadcast", d.constant(S64, offsets), shape=both, dimensions=(1,)),
    )  # fmt: skip
    in_bounds = d.op("broadcast", valid, shape=both.with_type(PRED), dimensions=(0,))
    places = d.op("select", in_bounds, places, d.filled(S64, (count, size), _BEYOND))
    values = transposed(d, updates, [*outside, *inside])
    return d.reshape(places, (count * size,)), d.reshape(values, (count * size,))


def _signed(d: Draft, rows: Instruction) -> Instruction:
    et = rows.array_shape.element_type
    if et.name == "u64":
        # What is too large for s64 stays out of range.
        rows = d.op("minimum", rows, d.filled(et, rows.array_shape.dims, 2**63 - 1))
    return d.convert(rows, S64)


def _sorted(d: Draft, places: Instruction, values: Instruction) -> tuple[Instruction, Instruction]:
    et = values.array_shape.element_type
    scalars = [array(S64, ()), array(S64, ()), array(et, ()), array(et, ())]

    def before(b: Builder, p: Instruction, q: Instruction, *_: Instruction) -> Instruction:
        return b.compare(p, q, "LT")

    order = build_computation("before", scalars, before, d.like)
    both = d.op("sort", places, values, dimensions=(0,), is_stable=True, to_apply=order)
    return d.element(both, 0), d.element(both, 1)


def _running(d: Draft, op: str, places: Instruction, values: Instruction) -> Instruction:
    """Append, for each update, what all before it for the same element come to, with it."""
    count, et = places.array_shape.dims[0], values.array_shape.element_type
    none = d.constant(et, identity_of(op, et))
    distance = 1
    while distance < count:
        earlier = _shifted(d, values, distance, none)
        same = d.compare(places, _shifted(d, places, distance, d.constant(S64, -1)), "EQ")
        values = d.op("select", same, d.op(op, earlier, values), values)
        distance *= 2
    return values


def _shifted(d: Draft, x: Instruction, distance: int, fill: Instruction) -> Instruction:
    """Append an array moved to the end, or by a negative distance to the beginning."""
    return d.op("pad", x, fill, padding=(PadDim(distance, -distance),))
