"""Factor rules of operations that move data: where each element of the result comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hlo.ops.attrs import PadDim, SliceDim
from hlo.ops.factors import FactorKind, FactorRule, Rule, whole
from hlo.ops.rules import array_operand, array_result
from hlo.ops.spec import OpView
from hlo.values.layout.bitcasts import is_order, layout_of
from hlo.values.types import UNBOUNDED, ArrayShape, Shape

_ENTANGLED = "the elements of what is one dimension before are in several places after it"
_DYNAMIC = "how elements of a dynamic dimension are regrouped depends on its size"


def broadcast(op: OpView) -> FactorRule:
    rule, result, dims = Rule(op), array_result(op), op.dimensions
    for d, size in enumerate(result.dims):
        rule.add(size, [(0, dims.index(d))] if d in dims else (), [(0, d)])
    return rule.done()


def transpose(op: OpView) -> FactorRule:
    rule = Rule(op)
    for d, (size, source) in enumerate(zip(array_result(op).dims, op.dimensions, strict=True)):
        rule.add(size, [(0, source)], [(0, d)])
    return rule.done()


def moved_along_dimensions(op: OpView) -> FactorRule:
    """Return the rule of reverses and rotations: elements change places along `dimensions`."""
    rule = Rule(op)
    for d in range(array_result(op).rank):
        moves = d in op.dimensions
        rule.pointwise([d], kind=FactorKind.PERMUTATION if moves else FactorKind.PASS_THROUGH)
    return rule.done()


def slice_(op: OpView) -> FactorRule:
    rule = Rule(op)
    for d, (size, taken) in enumerate(zip(array_operand(op, 0).dims, op.slice, strict=True)):
        kept = taken == SliceDim(0, size)
        rule.pointwise([d], kind=FactorKind.PASS_THROUGH if kept else FactorKind.PERMUTATION)
    return rule.done()


def resized_slice(op: OpView, operands: Sequence[Shape], result: Shape) -> Mapping[str, Any]:
    """Return the ranges with those of whole dimensions as long as these are in the part."""
    full, (part,) = array_operand(op, 0), operands
    assert isinstance(part, ArrayShape)
    return {
        "slice": tuple(
            SliceDim(0, size) if d == SliceDim(0, whole) else d
            for d, whole, size in zip(op.slice, full.dims, part.dims, strict=True)
        )
    }


def pad(op: OpView) -> FactorRule:
    rule = Rule(op)
    for d, (size, padding) in enumerate(zip(array_operand(op, 0).dims, op.padding, strict=True)):
        # Nothing stands between the elements of a dimension of one.
        kept = padding.low == padding.high == 0 and (not padding.interior or size <= 1)
        kept = kept or padding == PadDim(0, 0)
        rule.pointwise([d], kind=FactorKind.PASS_THROUGH if kept else FactorKind.PERMUTATION)
    return rule.done()


def concatenate(op: OpView) -> FactorRule:
    rule = Rule(op)
    every = rule.operands
    for d in range(array_result(op).rank):
        joined = d in op.dimensions and len(every) > 1
        kind = FactorKind.PERMUTATION if joined else FactorKind.PASS_THROUGH
        rule.pointwise([d], every, kind=kind)
    return rule.done()


def dynamic_slice(op: OpView) -> FactorRule:
    rule, operand, result = Rule(op), array_operand(op, 0), array_result(op)
    for d, (have, taken) in enumerate(zip(operand.dims, result.dims, strict=True)):
        if have == taken != UNBOUNDED:  # it begins at 0, whatever the index
            rule.pointwise([d])
        else:
            rule.add(have, [(0, d)], kind=FactorKind.PERMUTATION)
    _starts(rule, op, 1)
    return rule.done("a slice may begin anywhere")


def dynamic_update_slice(op: OpView) -> FactorRule:
    rule, operand, update = Rule(op), array_operand(op, 0), array_operand(op, 1)
    for d, (have, written) in enumerate(zip(operand.dims, update.dims, strict=True)):
        if have == written != UNBOUNDED:
            rule.pointwise([d], (0, 1))
        else:
            rule.pointwise([d], kind=FactorKind.PERMUTATION)
    _starts(rule, op, 2)
    return rule.done("an update may begin anywhere")


def _starts(rule: Rule, op: OpView, first: int) -> None:
    """Add the factor of starts that come as one vector."""
    starts = array_operand(op, first) if len(op.operand_shapes) > first else None
    if starts is not None and starts.rank:
        rule.pointwise([0], (first,), (), FactorKind.NEED_REPLICATION)


# --- regrouped dimensions -------------------------------------------------------------------------


def reshape(op: OpView) -> FactorRule:
    operand, result = array_operand(op, 0), array_result(op)
    return regrouped(op, range(operand.rank), range(result.rank))


def bitcast(op: OpView) -> FactorRule:
    """Return the rule of a bitcast: dimensions are regrouped in their order in memory."""
    operand, result = array_operand(op, 0), array_result(op)
    if operand.element_type.bits != result.element_type.bits:
        return whole("elements are taken apart or put together")(op)
    if not (is_order(operand) and is_order(result)):
        return whole("its layouts are more than an order of dimensions")(op)
    before, after = (layout_of(shape).minor_to_major[::-1] for shape in (operand, result))
    return regrouped(op, before, after)


def regrouped(op: OpView, before: Sequence[int], after: Sequence[int]) -> FactorRule:
    """Return the rule of elements that keep their order while dimensions are cut and merged.

    before, after: the dimensions of operand and result in the order of the elements, major first.
    """
    operand, result = array_operand(op, 0), array_result(op)
    sizes = [operand.dims[d] for d in before], [result.dims[d] for d in after]
    if operand.is_dynamic or result.is_dynamic:
        return whole(_DYNAMIC)(op)
    if 0 in operand.dims or math.prod(operand.dims) != math.prod(result.dims):
        return whole("it has no elements")(op)
    rule = Rule(op)
    for size, i, j in common_factors(*sizes):
        kind = FactorKind.NEED_REPLICATION if i is None or j is None else FactorKind.PASS_THROUGH
        rule.add(
            size,
            [] if i is None else [(0, before[i])],
            [] if j is None else [(0, after[j])],
            kind,
        )
    rule.none(
        [(0, d) for d, size in enumerate(operand.dims) if size == 1],
        [(0, d) for d, size in enumerate(result.dims) if size == 1],
    )
    return rule.done(_ENTANGLED)


def common_factors(
    a: Sequence[int], b: Sequence[int]
) -> Iterator[tuple[int, int | None, int | None]]:
    """Factor two lists of sizes of one product, as far as possible into the same factors.

    Yields each factor, major first, with its place in both lists; None for the list that has no
    such factor, as where `[2,3]` becomes `[3,2]`. Sizes of 1 have none.
    """
    left = [(size, i) for i, size in enumerate(a) if size != 1]
    right = [(size, j) for j, size in enumerate(b) if size != 1]
    done_left = done_right = 1
    while left or right:
        if done_left == done_right:
            (x, i), (y, j) = left[0], right[0]
            factor = math.gcd(x, y)
            if factor > 1:
                yield factor, i, j
                done_left, done_right = done_left * factor, done_right * factor
                _take(left, factor)
                _take(right, factor)
                continue
            yield x, i, None
            yield y, None, j
            done_left, done_right = done_left * x, done_right * y
            _take(left, x)
            _take(right, y)
        elif done_left < done_right:
            x, i = left[0]
            y = right[0][0] if right else 1
            factor = _catch_up(x, y, done_left, done_right)
            yield factor, i, None
            done_left *= factor
            _take(left, factor)
        else:
            y, j = right[0]
            x = left[0][0] if left else 1
            factor = _catch_up(y, x, done_right, done_left)
            yield factor, None, j
            done_right *= factor
            _take(right, factor)


def _take(sizes: list[tuple[int, int]], factor: int) -> None:
    size, at = sizes.pop(0)
    if size != factor:
        sizes.insert(0, (size // factor, at))


def _catch_up(size: int, other: int, behind: int, ahead: int) -> int:
    """Return what to take off a size of the list whose product is behind."""
    if ahead % behind == 0 and size % (ahead // behind) == 0:
        return ahead // behind  # the products are equal again
    common = math.gcd(size, other)
    return size // common if size > common else size
