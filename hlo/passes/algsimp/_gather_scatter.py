"""gather and scatter."""

from __future__ import annotations

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._match import (
    dims_of,
    either_way,
    is_empty,
    is_single_use,
    is_splat,
    scalar_source,
    type_of,
)
from hlo.passes.algsimp._reducers import by_type
from hlo.passes.algsimp._rules import rule
from hlo.values.types import array


@rule("gather", "gather(broadcast(v), i) = broadcast(v), for a scalar v")
def gather_of_scalar_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    if 0 in inst.slice_sizes:
        return None  # a window without elements that is collapsed is one zero
    scalar = scalar_source(inst.operands[0])
    return None if scalar is None else b.broadcast(scalar, inst.array_shape)


def _window(inst: Instruction, part: Instruction, b: Builder) -> Instruction:
    """Append the result of a gather all of whose windows are `part`, in its operand's rank."""
    drop = {*inst.collapsed_slice_dims}
    small = [n for d, n in enumerate(dims_of(part)) if d not in drop]
    window, shape = b.reshape(part, small), array(type_of(inst), dims_of(inst))
    if dims_of(window) == dims_of(inst):
        return window
    return b.op("broadcast", window, shape=shape, dimensions=tuple(inst.offset_dims))


@rule("gather", "gather(x, i) = broadcast(x), for windows of all of x: no index moves them")
def gather_of_all(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if inst.slice_sizes != dims_of(x) or inst.operand_batching_dims:
        return None
    if is_empty(x):
        return None
    return _window(inst, x, b)


@rule("gather", "gather(x, i) = dynamic-slice(x, i), for one window and one index")
def gather_of_one_window(inst: Instruction, b: Builder) -> Instruction | None:
    x, indices = inst.operands
    along = inst.start_index_map
    if indices.array_shape.num_elements != 1 or len(along) != 1:
        return None
    if inst.operand_batching_dims or 0 in inst.slice_sizes:
        return None
    start, zero = b.reshape(indices, ()), b.constant(type_of(indices), 0)
    starts = [start if d == along[0] else zero for d in range(x.array_shape.rank)]
    sizes = inst.slice_sizes
    return _window(inst, b.op("dynamic-slice", x, *starts, dynamic_slice_sizes=sizes), b)


@rule("scatter", "scatter(x, i, u) = x, for an empty u")
def scatter_of_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    count = len(inst.operands) // 2
    if not is_empty(inst.operands[-1]):
        return None
    return inst.operands[0] if count == 1 else b.tuple(*inst.operands[:count])


@rule("scatter", "scatter(x, i, u) = x where x is empty: every index is outside")
def scatter_into_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    count = len(inst.operands) // 2
    if not is_empty(inst.operands[0]):
        return None
    return inst.operands[0] if count == 1 else b.tuple(*inst.operands[:count])


@by_type("add", "scatter(0, i, u) + x = scatter(x, i, u), for a scatter that adds", on="scatter")
def sum_with_scatter(inst: Instruction, b: Builder) -> Instruction | None:
    for inner, x in either_way(inst):
        if inner.opcode != "scatter" or len(inner.operands) != 3 or not is_single_use(inner):
            continue
        zeros, indices, updates = inner.operands
        if single_binary_op(inner.to_apply) == "add" and is_splat(zeros, 0):
            return b.op("scatter", x, indices, updates, **inner.attrs)
    return None
