"""reduce."""

from __future__ import annotations

import math

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import PadDim
from hlo.ops.elementwise.casts import float_info
from hlo.passes.algsimp._match import (
    dims_of,
    filled,
    is_single_use,
    is_splat,
    splat,
    type_of,
)
from hlo.passes.algsimp._reducers import (
    by_order,
    combiner,
    is_idempotent,
    is_neutral,
    reduce,
)
from hlo.passes.algsimp._reshape_transpose import matched_groups
from hlo.passes.algsimp._rules import rule


def _reduced(inst: Instruction) -> set[int]:
    return {*inst.dimensions}


@rule("reduce", "reduce(x, c) = c op x, over sizes of one only")
def reduce_of_ones(inst: Instruction, b: Builder) -> Instruction | None:
    op, x = combiner(inst), inst.operands[0]
    # Complex products are rounded in other ways.
    if op is None or (type_of(inst).is_complex and op != "add"):
        return None
    dims = inst.dimensions
    return reduce(b, inst, x, list(dims)) if all(dims_of(x)[d] == 1 for d in dims) else None


@rule("reduce", "reduce(x, c) = broadcast(c), for an empty x")
def reduce_of_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    if len(inst.operands) != 2 or not inst.shape.is_array:
        return None
    x, c = inst.operands
    if x.array_shape.num_elements or type_of(c) is not type_of(inst):
        return None
    return b.broadcast(c, inst.array_shape)


@rule("reduce", "reduce(x) = reduce(reshape(x)), without sizes of one")
def reduce_without_ones(inst: Instruction, b: Builder) -> Instruction | None:
    count = len(inst.operands) // 2
    sizes, reduced = dims_of(inst.operands[0]), _reduced(inst)
    ones = {d for d in reduced if sizes[d] == 1}
    if not ones or ones == reduced:
        return None
    kept = [d for d in range(len(sizes)) if d not in ones]
    arrays = [b.reshape(x, [sizes[d] for d in kept]) for x in inst.operands[:count]]
    dims = tuple(kept.index(d) for d in sorted(reduced - ones))
    return b.op("reduce", *arrays, *inst.operands[count:], dimensions=dims, to_apply=inst.to_apply)


@by_order("reduce", "reduce(transpose(x)) = transpose(reduce(x))", on="transpose")
def reduce_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "transpose":
        return None
    order, reduced = inner.dimensions, _reduced(inst)
    kept = [order[d] for d in range(len(order)) if d not in reduced]
    small = reduce(b, inst, inner.operands[0], [order[d] for d in reduced])
    if kept == sorted(kept):
        return small
    if not is_single_use(inner):
        return None
    return b.op("transpose", small, dimensions=tuple(sorted(kept).index(d) for d in kept))


@by_order(
    "reduce",
    "reduce(reshape(x)) = reshape(reduce(x)), for whole groups of dimensions",
    on="reshape",
)
def reduce_of_reshape(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "reshape":
        return None
    x, reduced = inner.operands[0], _reduced(inst)
    groups = matched_groups(dims_of(x), dims_of(inner))
    if groups is None:
        return None
    dims: list[int] = []
    for old, new in groups:
        of_group = {d in reduced for d in new if dims_of(inner)[d] != 1}
        if len(of_group) > 1:
            return None
        if True in of_group:
            dims += old
    # Dimensions of size one go with the reshape of the result, which then is smaller.
    return b.reshape(reduce(b, inst, x, dims), dims_of(inst)) if dims else None


@by_order("reduce", "reduce(reduce(x, e), c) = reduce(x, c), for a neutral e", on="reduce")
def reduce_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner, op = inst.operands[0], combiner(inst)
    if inner.opcode != "reduce" or op is None or combiner(inner) != op or not is_single_use(inner):
        return None
    if not is_neutral(op, inner.operands[1]):
        return None
    x, first = inner.operands[0], _reduced(inner)
    left = [d for d in range(x.array_shape.rank) if d not in first]
    return reduce(b, inst, x, [*first, *(left[d] for d in _reduced(inst))])


@by_order(
    "reduce", "reduce(pad(x, e)) = reduce(x), for a neutral e between what is reduced", on="pad"
)
def reduce_of_pad(inst: Instruction, b: Builder) -> Instruction | None:
    inner, op = inst.operands[0], combiner(inst)
    if inner.opcode != "pad" or op is None or not is_neutral(op, inner.operands[1]):
        return None
    for d, p in enumerate(inner.padding):
        if p != PadDim(0, 0) and (d not in _reduced(inst) or min(p.low, p.high) < 0):
            return None
    return reduce(b, inst, inner.operands[0], list(_reduced(inst)))


def _new_and_old(inst: Instruction) -> tuple[list[int], list[int]] | None:
    """Return the reduced dimensions that a broadcast operand adds, and those of its operand."""
    inner, reduced = inst.operands[0], _reduced(inst)
    if inner.opcode != "broadcast" or 0 in dims_of(inner):
        return None
    places = inner.dimensions
    new = [d for d in reduced if d not in places]
    return (new, [places.index(d) for d in reduced if d in places]) if new else None


def _rest(inst: Instruction, b: Builder, x: Instruction, dims: list[int]) -> Instruction | None:
    """Append the reduction of a broadcast's operand, and the broadcast of that.

    None where dimensions are not in order.
    """
    inner, reduced = inst.operands[0], _reduced(inst)
    places = inner.dimensions
    if list(places) != sorted(places):
        return None
    small = reduce(b, inst, x, dims)
    left = [d for d in range(inner.array_shape.rank) if d not in reduced]
    to = tuple(left.index(d) for d in places if d not in reduced)
    if dims_of(small) == dims_of(inst):
        return small
    shape = inst.array_shape
    return b.op("broadcast", small, shape=shape, dimensions=to)


@rule(
    "reduce", "reduce(broadcast(x)) = reduce(x), for and, or, maximum and minimum", on="broadcast"
)
def reduce_same_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    found = _new_and_old(inst) if is_idempotent(combiner(inst)) else None
    return _rest(inst, b, inst.operands[0].operands[0], found[1]) if found else None


@by_order("reduce", "the sum of broadcast(x) over n new elements is the sum of n*x", on="broadcast")
def sum_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    found, et = _new_and_old(inst), type_of(inst)
    if combiner(inst) != "add" or found is None or et.is_pred or et.is_complex:
        return None
    inner = inst.operands[0]
    x, count = inner.operands[0], math.prod(dims_of(inner)[d] for d in found[0])
    if et.is_integer:
        count &= (1 << et.bits) - 1
        if et.is_signed and count >> (et.bits - 1):
            count -= 1 << et.bits
    elif count > 1 << (float_info(et).nmant + 1) or count > float(float_info(et).max):
        return None
    return _rest(inst, b, b.op("multiply", x, filled(b, x, count)), found[1])


@rule(
    "reduce", "the sum of x*c is c times the sum of x, for integers and a constant c", on="multiply"
)
def sum_of_multiple(inst: Instruction, b: Builder) -> Instruction | None:
    inner, init = inst.operands[0], inst.operands[-1]
    if combiner(inst) != "add" or not type_of(inst).is_integer or inner.opcode != "multiply":
        return None
    factor = splat(inner.operands[1])
    if factor is None or not is_splat(init, 0) or not is_single_use(inner):
        return None
    total = reduce(b, inst, inner.operands[0], list(_reduced(inst)))
    return b.op("multiply", total, filled(b, inst, factor))


@rule("reduce", "the sum of -x is minus the sum of x, for integers", on="negate")
def sum_of_negated(inst: Instruction, b: Builder) -> Instruction | None:
    inner, init = inst.operands[0], inst.operands[-1]
    if combiner(inst) != "add" or not type_of(inst).is_integer or inner.opcode != "negate":
        return None
    if not is_splat(init, 0):
        return None
    return b.op("negate", reduce(b, inst, inner.operands[0], list(_reduced(inst))))
