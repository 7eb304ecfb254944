"""Dynamic dimensions: reading, setting, reshaping.

`hlo.eval.dynamic` handles dynamic dimensions in all other operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops import rules
from hlo.ops.attrs import INTS, need
from hlo.ops.factors import FactorKind, FactorRule, Rule, whole
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.arrays import actual, at_bounds, bounded, with_sizes
from hlo.values.types import S32, UNBOUNDED, ArrayShape, ElementType, Shape, array

# These make arrays of dynamic size, whatever their shapes say.
SIZE_MAKERS = frozenset({"set-dimension-size", "dynamic-reshape"})
# These make or read sizes.
SIZE_OPS = SIZE_MAKERS | {"get-dimension-size"}
_SIZE_LIMIT = 2**31 - 1
_SIZE = "the size is that of the whole dimension"


def _is_s32(et: ElementType) -> bool:
    return et is S32


def _dimension(op: OpView, operand: ArrayShape) -> int:
    """Return the one dimension that the attribute names; its size has to fit the s32 of sizes."""
    dim = rules.need_one_dim(op, operand.rank)
    if operand.dims[dim] > _SIZE_LIMIT:
        raise InferError(
            f"{op.opcode}: dimension {dim} of {operand.to_string(False)} does not fit s32",
            operand=0,
        )
    return dim


# --- get-dimension-size -------------------------------------------------------------------------


def _infer_get(op: OpView) -> Shape:
    _dimension(op, rules.array_operand(op, 0))
    return array(S32, ())


def _evaluate_get(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return np.array(actual(args[0]).shape[op.dimensions[0]], np.int32)


def _factors_of_get(op: OpView) -> FactorRule:
    rule = Rule(op)
    for d in range(rules.array_operand(op, 0).rank):
        asked = d in op.dimensions
        kind = FactorKind.NEED_REPLICATION if asked else FactorKind.PASS_THROUGH
        rule.pointwise([d], results=(), kind=kind)
    return rule.done(_SIZE)


register(
    OpSpec(
        "get-dimension-size", 1, _infer_get, _evaluate_get, Category.STRUCTURE, "GetDimensionSize",
        examples=("s32[] get-dimension-size(f32[3,5] a), dimensions={1}",),
        attrs={"dimensions": need(INTS)},
        traits=Trait.INFERABLE,
        factors=_factors_of_get,
    )
)  # fmt: skip

# --- set-dimension-size -------------------------------------------------------------------------


def _infer_set(op: OpView) -> Shape:
    operand = rules.array_operand(op, 0)
    dim = _dimension(op, operand)
    rules.need_type(op, 1, _is_s32, "s32")
    rules.need_rank(op, 1, 0)
    dynamic = [d == dim or operand.is_dynamic_dim(d) for d in range(operand.rank)]
    return array(operand.element_type, operand.dims, dynamic)


def _evaluate_set(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    dim, size = op.dimensions[0], int(args[1])
    data, sizes = at_bounds(args[0]), list(actual(args[0]).shape)
    if not 0 <= size <= data.shape[dim]:
        raise InferError(
            f"set-dimension-size: size {size} of dimension {dim} is outside "
            f"[0, {data.shape[dim]}]",
            operand=1, code="index-out-of-range",
        )  # fmt: skip
    if size > sizes[dim]:
        # Elements that reappear are zero, whatever their previous value.
        data = data.copy()
        data[(slice(None),) * dim + (slice(sizes[dim], size),)] = np.zeros((), data.dtype)
    sizes[dim] = size
    return with_sizes(data, sizes)


def _factors_of_set(op: OpView) -> FactorRule:
    rule = Rule(op)
    for d in range(rules.array_operand(op, 0).rank):
        changed = d in op.dimensions
        kind = FactorKind.NEED_REPLICATION if changed else FactorKind.PASS_THROUGH
        rule.pointwise([d], kind=kind)
    return rule.done(_SIZE)


register(
    OpSpec(
        "set-dimension-size", 2, _infer_set, _evaluate_set, Category.STRUCTURE, "SetDimensionSize",
        examples=("""HloModule set
ENTRY main {
  a = f32[5,2] parameter(0)
  n = s32[] constant(3)
  b = f32[<=5,2] set-dimension-size(a, n), dimensions={0}
  ROOT m = s32[] get-dimension-size(b), dimensions={0}
}
""",),
        attrs={"dimensions": need(INTS)},
        traits=Trait.INFERABLE,
        factors=_factors_of_set,
    )
)  # fmt: skip

# --- dynamic-reshape ----------------------------------------------------------------------------


def _infer_dynamic_reshape(op: OpView) -> Shape:
    operand, result = rules.array_operand(op, 0), rules.array_result(op)
    if len(op.operand_shapes) - 1 != result.rank:
        raise InferError(
            f"dynamic-reshape: {len(op.operand_shapes) - 1} sizes for a result of rank "
            f"{result.rank}",
            code="operand-count",
        )
    for i in range(1, len(op.operand_shapes)):
        rules.need_type(op, i, _is_s32, "s32")
        rules.need_rank(op, i, 0)
    if (
        UNBOUNDED not in (*operand.dims, *result.dims)
        and operand.num_elements != result.num_elements
    ):
        raise InferError(
            f"dynamic-reshape: {operand.to_string(False)} has {operand.num_elements} elements at "
            f"its bounds, the result {result.to_string(False)} has {result.num_elements}"
        )
    return array(operand.element_type, result.dims, result.dynamic)


def _evaluate_dynamic_reshape(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    result, data = rules.array_result(op), actual(args[0])
    # The size of a dimension that the result says is static is not looked at, as in XLA.
    sizes = tuple(
        int(n) if result.is_dynamic_dim(d) else result.dims[d] for d, n in enumerate(args[1:])
    )
    for d, (size, bound) in enumerate(zip(sizes, result.dims, strict=True)):
        if size < 0 or (size > bound and bound != UNBOUNDED):
            raise InferError(
                f"dynamic-reshape: size {size} of dimension {d} is outside [0, {bound}]",
                operand=1 + d, code="index-out-of-range",
            )  # fmt: skip
    if math.prod(sizes) != data.size:
        raise InferError(
            f"dynamic-reshape: the operand has {data.size} elements, the sizes "
            f"{list(sizes)} need {math.prod(sizes)}",
            code="bad-value",
        )
    return bounded(data.reshape(sizes), result.dims)


register(
    OpSpec(
        "dynamic-reshape", (1, None), _infer_dynamic_reshape, _evaluate_dynamic_reshape,
        Category.STRUCTURE, "DynamicReshape",
        examples=("""HloModule reshape
ENTRY main {
  a = f32[6] parameter(0)
  n = s32[] constant(4)
  b = f32[<=6] set-dimension-size(a, n), dimensions={0}
  two = s32[] constant(2)
  c = f32[<=3,2] dynamic-reshape(b, two, two)
  z = f32[] constant(0)
  ROOT m = s32[] get-dimension-size(c), dimensions={0}
}
""",),
        factors=whole("its sizes are those of the whole array"),
    )
)  # fmt: skip
