"""Comparison and selection: compare, select, clamp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import Attr, enum, need
from hlo.ops.elementwise import arithmetic_eval as ev
from hlo.ops.elementwise.arithmetic_eval import Kernel
from hlo.ops.elementwise.casts import working_dtype
from hlo.ops.factors import pointwise
from hlo.ops.rules import array_operand, array_operands, merge_dims, need_same_type, need_type
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import PRED, ArrayShape, ElementType, Shape, element_type_of

# --- compare ------------------------------------------------------------------------------------

_COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater,
    "LE": np.less_equal, "LT": np.less,
}  # fmt: skip


# Types of a comparison under which every two floats are ordered. TOTALORDER goes by the bits; for
# WEAKORDER zeros are equal, and so are NaNs, which are above all else.
FLOAT_ORDERS = frozenset({"TOTALORDER", "WEAKORDER"})
# Newer XLA says with `order` what `type` says, and has an order that `type` has no word for.
_ORDERS = {"TOTAL": "TOTALORDER", "WEAK": "WEAKORDER", "PARTIAL": "FLOAT"}
_TYPE = enum("FLOAT", "TOTALORDER", "WEAKORDER", "SIGNED", "UNSIGNED", *_ORDERS)


def settled_type(kind: str, shapes: Sequence[Shape]) -> str | None:
    """Return what a written type means; None for what is usual on such operands.

    XLA keeps of a type only whether it orders totally, as all but FLOAT and WEAK do. So integers
    compare as what they are, whatever the text says of their sign.
    """
    kind = _ORDERS.get(kind, kind)
    first = shapes[0] if shapes else None
    if not isinstance(first, ArrayShape):
        return kind
    if first.element_type.is_float or first.element_type.is_complex:
        return {"FLOAT": None, "WEAKORDER": kind}.get(kind, "TOTALORDER")
    return kind if kind in ("FLOAT", "WEAKORDER") else None


def _comparison_types(et: ElementType) -> tuple[str, ...]:
    """Return the values of `type` that fit an element type, the default first."""
    if et.is_float:
        return ("FLOAT", "TOTALORDER", "WEAKORDER")
    if et.is_complex:
        return ("FLOAT", "TOTALORDER")
    return ("SIGNED",) if et.is_signed else ("UNSIGNED",)


def _infer_compare(op: OpView) -> ArrayShape:
    shapes = array_operands(op)
    et, direction, kind = need_same_type(op, 0, 1), op.direction, op.comparison_type
    allowed = _comparison_types(et)
    if kind is not None and kind not in allowed:
        raise InferError(
            f"compare: type {kind} does not fit operands of {et}: {' or '.join(allowed)} does",
            attr="type", code="bad-value",
        )  # fmt: skip
    if et.is_complex and direction not in ("EQ", "NE"):
        raise InferError(
            f"compare: direction {direction} on {et}: complex numbers have no order",
            attr="direction", code="bad-value",
        )  # fmt: skip
    return merge_dims(op, shapes).with_type(PRED)


def _parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.array(x.real), np.array(x.imag)


def _evaluate_compare(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    compare, (x, y) = _COMPARISONS[op.direction], args
    if op.comparison_type == "WEAKORDER":
        return np.asarray(compare(ev.weak_order_key(x), ev.weak_order_key(y)))
    if op.comparison_type == "TOTALORDER":
        if element_type_of(x.dtype).is_complex:
            # Only equality is asked for: are both parts the same number?
            re, im = (
                compare(*map(ev.total_order_key, p)) for p in zip(_parts(x), _parts(y), strict=True)
            )
            return np.asarray(re & im if op.direction == "EQ" else re | im)
        return np.asarray(compare(ev.total_order_key(x), ev.total_order_key(y)))
    return ev.run_blocks(compare, (x, y), PRED, working_dtype(element_type_of(x.dtype)))


register(
    OpSpec(
        "compare", 2, _infer_compare, _evaluate_compare, Category.ELEMENTWISE, "003: Compare",
        (
            "pred[5] compare(f32[5] x, f32[5] y), direction=LT",
            "pred[5] compare(bf16[5] x, bf16[5] y), direction=GE, type=TOTALORDER",
            "pred[5] compare(u8[5] x, u8[5] y), direction=NE",
            "pred[5] compare(f16[5] x, f16[5] y), direction=LT, order=WEAK",
        ),
        attrs={
            "direction": need(enum(*_COMPARISONS)),
            "type": Attr(_TYPE, settled=settled_type, spelled={"WEAKORDER": "order=WEAK"}),
        },
        traits=Trait.ELEMENTWISE | Trait.INFERABLE | Trait.EXACT,
        factors=pointwise,
    )
)  # fmt: skip

# --- ternary ------------------------------------------------------------------------------------


def _infer_select(op: OpView) -> ArrayShape:
    pred = need_type(op, 0, lambda et: et.is_pred, "pred")
    need_same_type(op, 1, 2)
    values = merge_dims(op, [array_operand(op, 1), array_operand(op, 2)], (1, 2))
    return values if pred.is_scalar else merge_dims(op, [values, pred], (1, 0))


def _evaluate_select(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return np.asarray(np.where(args[0], args[1], args[2]))


def _infer_clamp(op: OpView) -> ArrayShape:
    shapes = array_operands(op)
    need_same_type(op, 1, 0)
    need_same_type(op, 1, 2)
    result = shapes[1]
    for i in (0, 2):
        if not shapes[i].is_scalar:
            result = merge_dims(op, [result, shapes[i]], (1, i))
    return result


_CLAMP = Kernel(
    pred=lambda low, x, high: np.minimum(np.maximum(x, low), high),
    integer=lambda low, x, high: np.minimum(np.maximum(x, low), high),
    real=lambda low, x, high: ev.minimum(ev.maximum(x, low), high),
    complex=lambda low, x, high: np.minimum(np.maximum(x, low), high),
)


def _evaluate_clamp(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return ev.run(_CLAMP, args, element_type_of(args[1].dtype))


register(
    OpSpec(
        "select", 3, _infer_select, _evaluate_select, Category.ELEMENTWISE, "003: Select",
        (
            "f32[2,3] select(pred[2,3] p, f32[2,3] x, f32[2,3] y)",
            "s32[4] select(pred[] p, s32[4] x, s32[4] y)",
        ),
        traits=Trait.ELEMENTWISE | Trait.INFERABLE | Trait.EXACT,
        factors=pointwise,
    )
)  # fmt: skip
register(
    OpSpec(
        "clamp", 3, _infer_clamp, _evaluate_clamp, Category.ELEMENTWISE, "003: Clamp",
        (
            "f32[2,3] clamp(f32[] low, f32[2,3] x, f32[] high)",
            "s32[4] clamp(s32[4] low, s32[4] x, s32[4] high)",
        ),
        traits=Trait.ELEMENTWISE | Trait.INFERABLE | Trait.EXACT,
        factors=pointwise,
    )
)  # fmt: skip
