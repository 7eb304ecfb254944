"""Operations on windows: reduce-window and select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.ops.attrs import COMPUTATION, WINDOW, Attr, need
from hlo.ops.reduce import factors, window_eval
from hlo.ops.reduce.combiner import need_reducer, need_scalar, same_but_precision
from hlo.ops.reduce.reduction import need_pairs
from hlo.ops.reduce.window_rules import infer_window
from hlo.ops.rules import array_operand, merge_dims, need_memory, tuple_or_single
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import PRED, ArrayShape, ElementType, Shape, array, compatible


def _infer_reduce_window(op: OpView) -> Shape:
    n = need_pairs(op)
    arrays = [array_operand(op, i) for i in range(n)]
    base = merge_dims(op, arrays)
    inits = [need_scalar(op, n + i) for i in range(n)]
    need_reducer(op, "to_apply", inits, [a.element_type for a in arrays])
    sizes = infer_window(op, base.dims, op.window)
    return tuple_or_single([array(i.element_type, sizes, base.dynamic) for i in inits])


def _evaluate_reduce_window(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    n = len(args) // 2
    need_memory(op, op.shape, scratch_bytes=_scratch_bytes(op, args[0].shape))
    results = window_eval.reduce_window(args[:n], args[n:], op.window, op.to_apply, ctx)
    return results if op.shape.is_tuple else results[0]


def _scratch_bytes(op: OpView, dims: Sequence[int]) -> int:
    """Return what it takes to find the offsets of windows far larger than their operand."""
    return sum(
        24 * n * d.output_size(n)
        for n, d in zip(dims, op.window, strict=True)
        if d.size > n * d.output_size(n)
    )


register(
    OpSpec(
        name="reduce-window",
        arity=(2, None),
        # The window of scalars is empty, and not written.
        attrs={"window": Attr(WINDOW, default=()), "to_apply": need(COMPUTATION)},
        infer=_infer_reduce_window,
        evaluate=_evaluate_reduce_window,
        category=Category.WINDOW,
        # Padding and holes are left out, as XLA does. The specification pads with the initial
        # value, which is the same for the identities that it demands as initial values.
        source="003 ReduceWindow",
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT | Trait.REREADS | Trait.TUPLE_OF_ONE,
        examples=(
            "HloModule pool\n"
            "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n"
            "ENTRY main { x = f32[5,6] parameter(0) least = f32[] constant(-inf)\n"
            "  ROOT r = f32[3,3] reduce-window(x, least), "
            "window={size=3x2 stride=2x2 pad=1_1x0_0}, to_apply=max }",
            "HloModule cumsum\n"
            "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }\n"
            "ENTRY main { x = s32[2,40] parameter(0) zero = s32[] constant(0)\n"
            "  ROOT r = s32[2,40] reduce-window(x, zero), window={size=1x40 pad=0_0x39_0}, "
            "to_apply=add }",
        ),
        factors=factors.reduce_window,
    )
)

# --- select-and-scatter -------------------------------------------------------------------------


def _need_select(op: OpView, et: ElementType) -> None:
    """Check that `select` takes two scalars of the operand's type and returns a pred."""
    select = op.select
    parameters, result = select.parameter_shapes, select.result_shape
    if (
        len(parameters) != 2
        or any(
            not isinstance(p, ArrayShape) or p.dims or not same_but_precision(p.element_type, et)
            for p in parameters
        )
        or not compatible(result, array(PRED, ()))
    ):
        raise InferError(
            f"select-and-scatter: select {select.name} is "
            f"({', '.join(p.to_string(False) for p in parameters)}) -> {result.to_string(False)}, "
            f"({et}[], {et}[]) -> pred[] is needed",
            attr="select", code="bad-computation",
        )  # fmt: skip


def _infer_select_and_scatter(op: OpView) -> Shape:
    operand, source = array_operand(op, 0), array_operand(op, 1)
    init = need_scalar(op, 2)
    _need_select(op, operand.element_type)
    need_reducer(op, "scatter", [init], [source.element_type])
    sizes = infer_window(op, operand.dims, op.window)
    windows = array(operand.element_type, sizes, operand.dynamic)
    if not compatible(windows, source, ignore_element_type=True) or not same_but_precision(
        windows.element_type, source.element_type
    ):
        raise InferError(
            f"select-and-scatter: the windows of operand 0 have shape {windows.to_string(False)}, "
            f"operand 1 has shape {source.to_string(False)}",
            operand=1,
        )
    return array(operand.element_type, operand.dims, operand.dynamic)


def _evaluate_select_and_scatter(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    shape = op.shape
    assert isinstance(shape, ArrayShape)
    # Besides the result: the place of every element, and what each window has selected.
    scratch = 8 * (shape.num_elements + 3 * args[1].size) + _scratch_bytes(op, args[0].shape)
    need_memory(op, shape, scratch_bytes=scratch)
    return window_eval.select_and_scatter(
        args[0], args[1], args[2], op.window, op.select, op.scatter, ctx
    )


register(
    OpSpec(
        name="select-and-scatter",
        arity=3,
        attrs={
            "window": Attr(WINDOW, default=()),
            "select": need(COMPUTATION),
            "scatter": need(COMPUTATION),
        },
        infer=_infer_select_and_scatter,
        evaluate=_evaluate_select_and_scatter,
        category=Category.WINDOW,
        source="003 SelectAndScatter",
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT | Trait.REREADS,
        examples=(
            "HloModule unpool\n"
            "ge { a = f32[] parameter(0) b = f32[] parameter(1)\n"
            "  ROOT c = pred[] compare(a, b), direction=GE }\n"
            "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
            "ENTRY main { x = f32[4,5] parameter(0) y = f32[2,3] parameter(1)\n"
            "  zero = f32[] constant(0)\n"
            "  ROOT r = f32[4,5] select-and-scatter(x, y, zero), "
            "window={size=2x3 stride=2x2 pad=0_0x1_1}, select=ge, scatter=add }",
        ),
        factors=factors.select_and_scatter,
    )
)
