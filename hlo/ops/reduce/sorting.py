"""Operations that order elements: sort and topk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, COMPUTATION, INT, INTS, Attr, need
from hlo.ops.reduce import factors, sorting_eval
from hlo.ops.rules import (
    array_operand,
    array_operands,
    merge_dims,
    need_memory,
    need_one_dim,
    need_signature,
    need_type,
    tuple_or_single,
)
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import PRED, S32, UNBOUNDED, Shape, TupleShape, array


def _infer_sort(op: OpView) -> Shape:
    arrays = array_operands(op)
    base = merge_dims(op, arrays)
    need_one_dim(op, base.rank)
    # Operand k is passed as parameters 2k and 2k + 1.
    scalars = [array(a.element_type, ()) for a in arrays for _ in range(2)]
    need_signature(op, "to_apply", op.to_apply, scalars, array(PRED, ()))
    return tuple_or_single([array(a.element_type, base.dims, base.dynamic) for a in arrays])


def _evaluate_sort(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    # The order, and the values in their present order while merging.
    need_memory(op, op.shape, scratch_bytes=4 * 8 * args[0].size)
    axis: int = op.dimensions[0]
    columns = [np.moveaxis(a, axis, -1) for a in args]
    order = sorting_eval.sort_order(columns, op.to_apply, ctx)
    results = tuple(
        np.ascontiguousarray(np.moveaxis(np.take_along_axis(c, order, -1), -1, axis))
        for c in columns
    )
    return results if op.shape.is_tuple else results[0]


register(
    OpSpec(
        name="sort",
        arity=(1, None),
        attrs={
            "dimensions": need(INTS),
            # A sort that need not be stable is stable here.
            "is_stable": Attr(BOOL, default=False),
            "to_apply": need(COMPUTATION),
        },
        infer=_infer_sort,
        evaluate=_evaluate_sort,
        category=Category.SORT,
        source="003 Sort",
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT | Trait.REREADS | Trait.TUPLE_OF_ONE,
        examples=(
            "HloModule sort\n"
            "lt { a = f32[] parameter(0) b = f32[] parameter(1)\n"
            "  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }\n"
            "ENTRY main { x = f32[3,4] parameter(0)\n"
            "  ROOT r = f32[3,4] sort(x), dimensions={0}, to_apply=lt }",
            "HloModule argsort\n"
            "gt { a = s32[] parameter(0) b = s32[] parameter(1)\n"
            "  i = s32[] parameter(2) j = s32[] parameter(3)\n"
            "  ROOT c = pred[] compare(a, b), direction=GT }\n"
            "ENTRY main { x = s32[3,4] parameter(0) i = s32[3,4] iota(), iota_dimension=1\n"
            "  ROOT r = (s32[3,4], s32[3,4]) sort(x, i), dimensions={1}, is_stable=true, "
            "to_apply=gt }",
        ),
        factors=factors.sort,
    )
)

# --- topk ---------------------------------------------------------------------------------------


def _infer_topk(op: OpView) -> Shape:
    operand = need_type(op, 0, lambda t: not t.is_complex, "a type with an order")
    k = op.k
    if operand.rank < 1:
        raise InferError(
            f"topk: operand 0 has shape {operand.to_string(False)}, at least rank 1 is needed",
            operand=0,
        )
    if k < 0 or (k > operand.dims[-1] and operand.dims[-1] != UNBOUNDED):
        raise InferError(
            f"topk: k={k}, the last dimension of {operand.to_string(False)} has "
            f"{operand.dims[-1]} elements",
            attr="k", code="bad-value",
        )  # fmt: skip
    dims, dynamic = (*operand.dims[:-1], k), operand.dynamic and (*operand.dynamic[:-1], False)
    return TupleShape((array(operand.element_type, dims, dynamic), array(S32, dims, dynamic)))


def _evaluate_topk(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    shape = array_operand(op, 0)
    need_memory(op, op.shape, scratch_bytes=2 * 8 * shape.num_elements)
    order = sorting_eval.key_order(args[0], descending=op.largest, total_order=True)
    best = order[..., : op.k]
    return np.take_along_axis(args[0], best, -1), best.astype(np.int32)


register(
    OpSpec(
        name="topk",
        arity=1,
        attrs={
            "k": need(INT),
            "largest": Attr(BOOL, default=True, always=True),
            # Of equal elements the first comes first in either case.
            "is_stable": Attr(BOOL, default=False),
        },
        infer=_infer_topk,
        evaluate=_evaluate_topk,
        category=Category.SORT,
        # Floats compare by total order: NaN is the largest, -NaN the smallest (XLA's TopK).
        source="003 TopK",
        traits=Trait.INFERABLE | Trait.REREADS,
        examples=(
            "(f32[3,2], s32[3,2]) topk(f32[3,7] x), k=2, largest=true",
            "(s32[4], s32[4]) topk(s32[4] x), k=4, largest=false",
        ),
        factors=factors.top_k,
    )
)
