"""Slices with start indices as operands: dynamic-slice and dynamic-update-slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops import rules
from hlo.ops.attrs import INTS, need
from hlo.ops.movement import factors
from hlo.ops.movement.gather_scatter_eval import clamp_index
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, ElementType, Shape, array


def _is_integer(et: ElementType) -> bool:
    return et.is_integer


def _need_starts(op: OpView, first: int, rank: int) -> None:
    """Check the starts from operand `first` on: a scalar a dimension, or one vector of them all."""
    count = len(op.operand_shapes) - first
    if count == 1:
        shape = rules.need_type(op, first, _is_integer, "an integer type")
        if shape.rank == 1 and shape.dims[0] == rank:
            return  # the older form
    if count != rank:
        raise InferError(
            f"{op.opcode}: {count} start indices for an operand of rank {rank}",
            code="operand-count",
        )
    for i in range(first, first + count):
        rules.need_type(op, i, _is_integer, "an integer type")
        rules.need_rank(op, i, 0)
        rules.need_same_type(op, first, i)


def _starts(args: Sequence[np.ndarray], shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the starts, moved so that the slice lies inside `shape`."""
    values = list(args[0]) if len(args) == 1 and args[0].ndim == 1 else args
    return [
        int(clamp_index(np.asarray(v), n - size))
        for v, n, size in zip(values, shape, sizes, strict=True)
    ]


def _infer_dynamic_slice(op: OpView) -> Shape:
    operand, sizes = rules.array_operand(op, 0), op.dynamic_slice_sizes
    if len(sizes) != operand.rank:
        raise InferError(
            f"dynamic-slice: dynamic_slice_sizes has {len(sizes)} elements, "
            f"the operand has rank {operand.rank}",
            attr="dynamic_slice_sizes",
        )
    _need_starts(op, 1, operand.rank)
    for d, (size, bound) in enumerate(zip(sizes, operand.dims, strict=True)):
        if size < 0 or (size > bound and bound != UNBOUNDED):
            raise InferError(
                f"dynamic-slice: dynamic_slice_sizes has {size} for dimension {d}, "
                f"outside [0, {bound}]",
                attr="dynamic_slice_sizes", code="bad-value",
            )  # fmt: skip
    whole = [operand.is_dynamic_dim(d) and size == operand.dims[d] for d, size in enumerate(sizes)]
    return array(operand.element_type, sizes, whole)


def _evaluate_dynamic_slice(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    operand, sizes = args[0], op.dynamic_slice_sizes
    starts = _starts(args[1:], operand.shape, sizes)
    return operand[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))].copy()


def _resized_dynamic_slice(
    op: OpView, operands: Sequence[Shape], result: Shape
) -> Mapping[str, Any]:
    assert isinstance(result, ArrayShape)
    return {"dynamic_slice_sizes": result.dims}


register(
    OpSpec(
        "dynamic-slice", (1, None), _infer_dynamic_slice, _evaluate_dynamic_slice,
        Category.INDEXING, "DynamicSlice",
        examples=(
            "f32[2,2] dynamic-slice(f32[3,4] a, s32[] i, s32[] j), dynamic_slice_sizes={2,2}",
            "bf16[1,4] dynamic-slice(bf16[9,4] a, u8[] i, u8[] j), dynamic_slice_sizes={1,4}",
        ),
        attrs={"dynamic_slice_sizes": need(INTS)},
        resized=_resized_dynamic_slice,
        moved=slice(1),
        traits=Trait.KEEPS_LAYOUT | Trait.INDEXABLE,
        factors=factors.dynamic_slice,
    )
)  # fmt: skip


def _infer_dynamic_update_slice(op: OpView) -> Shape:
    operand, update = rules.array_operand(op, 0), rules.array_operand(op, 1)
    rules.need_same_type(op, 0, 1)
    rules.need_rank(op, 1, operand.rank)
    _need_starts(op, 2, operand.rank)
    for d, (size, bound) in enumerate(zip(update.dims, operand.dims, strict=True)):
        if size > bound != UNBOUNDED:
            raise InferError(
                f"dynamic-update-slice: the update has size {size} in dimension {d}, "
                f"more than the operand's {bound}",
                operand=1,
            )
    either = [operand.is_dynamic_dim(d) or update.is_dynamic_dim(d) for d in range(operand.rank)]
    # An in-place update keeps the operand's layout.
    return array(operand.element_type, operand.dims, either).with_layout(operand.layout)


def _evaluate_dynamic_update_slice(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    result, update = np.array(args[0], order="C"), args[1]
    starts = _starts(args[2:], result.shape, update.shape)
    result[tuple(slice(s, s + n) for s, n in zip(starts, update.shape, strict=True))] = update
    return result


register(
    OpSpec(
        "dynamic-update-slice", (2, None), _infer_dynamic_update_slice,
        _evaluate_dynamic_update_slice, Category.INDEXING, "DynamicUpdateSlice",
        examples=(
            "f32[3,4] dynamic-update-slice(f32[3,4] a, f32[2,2] u, s32[] i, s32[] j)",
            "pred[6] dynamic-update-slice(pred[6] a, pred[1] u, s64[] i)",
        ),
        moved=slice(2),
        traits=Trait.KEEPS_LAYOUT,
        factors=factors.dynamic_update_slice,
    )
)  # fmt: skip
