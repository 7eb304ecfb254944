"""Control flow: call, fusion, while, conditional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import (
    BOOL,
    COMPUTATION,
    COMPUTATIONS,
    OUTPUT_ALIASES,
    Attr,
    ComputationView,
    enum,
    need,
)
from hlo.ops.factors import structural
from hlo.ops.rules import array_operand, need_aliases, need_signature
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import PRED, S32, Shape, array

_PRED_SCALAR = array(PRED, ())


# --- call and fusion ----------------------------------------------------------------------------


def _infer_call(op: OpView) -> Shape:
    callee = op.to_apply
    need_signature(op, "to_apply", callee, op.operand_shapes, None)
    return callee.result_shape


def _verify_call(op: OpView) -> None:
    """Check the attributes of a composite."""
    if not op.is_composite:
        return
    said = op.annotations.get("frontend_attributes", {})
    if not said.get("composite.name"):
        raise InferError(
            "call: a composite needs composite.name in its frontend_attributes",
            attr="frontend_attributes", code="missing-attribute",
        )  # fmt: skip
    if said.get("composite.attributes") == "":
        raise InferError(
            "call: composite.attributes is empty; no attributes are {}",
            attr="frontend_attributes", code="bad-value",
        )  # fmt: skip
    version = said.get("composite.version", "0")
    if not (version.isascii() and version.isdigit()):
        raise InferError(
            f"call: composite.version is {version!r}, not a number from 0 on",
            attr="frontend_attributes", code="bad-value",
        )  # fmt: skip


def _call(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return ctx.call(op.to_apply, args)


register(
    OpSpec(
        "call",
        (0, None),
        _infer_call,
        _call,
        Category.CONTROL,
        "003 Call, CompositeCall",
        (
            """HloModule call_example
scaled {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  z = f32[3] multiply(x, y)
  ROOT r = f32[3] add(z, x)
}
ENTRY e {
  a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  c = f32[3] call(a, b), to_apply=scaled
  ROOT d = f32[3] call(c, a), to_apply=scaled
}
""",
        ),
        attrs={"to_apply": need(COMPUTATION), "is_composite": Attr(BOOL, default=False)},
        verify=_verify_call,
        traits=Trait.INFERABLE | Trait.CALL | Trait.CONTROL_FLOW | Trait.TUPLE_OF_ONE,
        factors=structural("operands are the parameters of its computation"),
    )
)


def _infer_fusion(op: OpView) -> Shape:
    callee = op.calls
    need_signature(op, "calls", callee, op.operand_shapes, None)
    return callee.result_shape


def _verify_fusion(op: OpView) -> None:
    need_aliases(op, op.output_to_operand_aliasing)


def _fusion(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return ctx.call(op.calls, args)


register(
    OpSpec(
        "fusion",
        (0, None),
        _infer_fusion,
        _fusion,
        Category.CONTROL,
        "003 Fusion",
        (
            """HloModule fusion_example
fused {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  z = f32[2,3] subtract(x, y)
  ROOT w = f32[2,3] multiply(z, z)
}
ENTRY e {
  a = f32[2,3] parameter(0)
  b = f32[2,3] parameter(1)
  ROOT c = f32[2,3] fusion(a, b), kind=kLoop, calls=fused
}
""",
        ),
        attrs={
            "kind": need(enum("kLoop", "kInput", "kOutput", "kCustom")),
            "output_to_operand_aliasing": Attr(OUTPUT_ALIASES, default=()),
            "calls": need(COMPUTATION),
        },
        verify=_verify_fusion,
        traits=Trait.INFERABLE | Trait.CALL | Trait.TUPLE_OF_ONE,
        factors=structural("operands are the parameters of its computation"),
    )
)


# --- while --------------------------------------------------------------------------------------


def _infer_while(op: OpView) -> Shape:
    state = op.operand_shapes[0]
    need_signature(op, "condition", op.condition, [state], _PRED_SCALAR)
    need_signature(op, "body", op.body, [state], state)
    return state


def _while(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    condition, body, call = op.condition, op.body, ctx.call
    state = args[0]
    if call(condition, (state,)):
        if ctx.never_ends(op):
            raise endless(op)
        state = call(body, (state,))
        while call(condition, (state,)):
            state = call(body, (state,))
    return state


def endless(op: OpView) -> InferError:
    """Return the error of a loop that never ends."""
    return InferError(
        f"{op.opcode}: the loop never ends: what its condition {op.condition.name} reads "
        "does not change, and nothing in its body ends the run",
        attr="condition", code="endless-loop",
    )  # fmt: skip


register(
    OpSpec(
        "while",
        1,
        _infer_while,
        _while,
        Category.CONTROL,
        "003 While",
        (
            """HloModule while_example
condition {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] add(x, x)
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[4] parameter(0)
  t = (s32[], f32[4]) tuple(zero, x)
  ROOT w = (s32[], f32[4]) while(t), condition=condition, body=body
}
""",
        ),
        attrs={"condition": need(COMPUTATION), "body": need(COMPUTATION)},
        traits=Trait.INFERABLE | Trait.CONTROL_FLOW | Trait.TUPLE_OF_ONE,
        factors=structural("operand, result, and parameters of condition and body are one"),
    )
)


# --- conditional --------------------------------------------------------------------------------


def _branches(op: OpView) -> list[tuple[str, ComputationView]]:
    """Return the branches with the attribute that names each, in the order of their operands."""
    predicate = array_operand(op, 0)
    if predicate.dims or predicate.element_type not in (PRED, S32):
        raise InferError(
            f"conditional: operand 0 has shape {predicate.to_string(False)}, "
            "pred[] or s32[] is needed",
            operand=0, code="type-mismatch",
        )  # fmt: skip
    two = ("true_computation", "false_computation")
    many = "branch_computations"
    needed, other = (two, (many,)) if predicate.element_type is PRED else ((many,), two)
    for name in other:
        if op.attrs[name] is not None:
            raise InferError(
                f"conditional: {name} does not go with a branch index of type "
                f"{predicate.element_type}", attr=name, code="unknown-attribute",
                hint=f"give {' and '.join(needed)}",
            )  # fmt: skip
    for name in needed:
        if op.attrs[name] is None:
            raise InferError(
                f"conditional: {name} is missing for a branch index of type "
                f"{predicate.element_type}", code="missing-attribute",
            )  # fmt: skip
    if predicate.element_type is PRED:
        return [(name, op.attrs[name]) for name in two]
    return [(many, c) for c in op.attrs[many]]


def _infer_conditional(op: OpView) -> Shape:
    branches = _branches(op)
    if not branches:
        raise InferError(
            "conditional: branch_computations is empty, at least one branch is needed",
            attr="branch_computations", code="bad-value",
        )  # fmt: skip
    if len(op.operand_shapes) != len(branches) + 1:
        raise InferError(
            f"conditional: {len(branches)} branches take {len(branches)} operands after the "
            f"branch index, not {len(op.operand_shapes) - 1}", code="operand-count",
        )  # fmt: skip
    result = branches[0][1].result_shape
    for (attr, branch), operand in zip(branches, op.operand_shapes[1:], strict=True):
        need_signature(op, attr, branch, [operand], result)
    return result


def _conditional(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    branches = op.branch_computations
    if branches is None:
        if args[0]:
            return ctx.call(op.true_computation, (args[1],))
        return ctx.call(op.false_computation, (args[2],))
    index = int(np.asarray(args[0]))
    # An index outside the branches selects the last one.
    at = index if 0 <= index < len(branches) else len(branches) - 1
    return ctx.call(branches[at], (args[1 + at],))


register(
    OpSpec(
        "conditional",
        (1, None),
        _infer_conditional,
        _conditional,
        Category.CONTROL,
        "003 Conditional",
        (
            """HloModule conditional_example
on_true {
  x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x)
}
on_false {
  x = (f32[2], f32[2]) parameter(0)
  y = f32[2] get-tuple-element(x), index=0
  z = f32[2] get-tuple-element(x), index=1
  ROOT r = f32[2] add(y, z)
}
ENTRY e {
  p = pred[] parameter(0)
  a = f32[2] parameter(1)
  b = f32[2] parameter(2)
  t = (f32[2], f32[2]) tuple(a, b)
  ROOT c = f32[2] conditional(p, a, t), true_computation=on_true, false_computation=on_false
}
""",
            """HloModule switch_example
zero {
  x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x)
}
one {
  x = f32[2] parameter(0)
  ROOT r = f32[2] add(x, x)
}
two {
  x = f32[2] parameter(0)
  ROOT r = f32[2] multiply(x, x)
}
ENTRY e {
  i = s32[] parameter(0)
  a = f32[2] parameter(1)
  ROOT c = f32[2] conditional(i, a, a, a), branch_computations={zero, one, two}
}
""",
        ),
        attrs={
            "true_computation": Attr(COMPUTATION),
            "false_computation": Attr(COMPUTATION),
            "branch_computations": Attr(COMPUTATIONS),
        },
        traits=Trait.INFERABLE | Trait.CONTROL_FLOW | Trait.TUPLE_OF_ONE,
        factors=structural("operands are the parameters of its branches"),
    )
)
