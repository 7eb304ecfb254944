"""Structure without computation: tuples, tokens, barriers, domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.ops.attrs import DOMAIN, INT, need
from hlo.ops.factors import forwarded, structural
from hlo.ops.rules import need_token
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.types import TOKEN, Shape, TupleShape


def identity(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return the first operand's value."""
    return args[0]


def same_shape(op: OpView) -> Shape:
    """Return the first operand's shape."""
    return op.operand_shapes[0]


# --- tuples -------------------------------------------------------------------------------------


def _infer_tuple(op: OpView) -> Shape:
    return TupleShape(tuple(op.operand_shapes))


def _tuple(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return tuple(args)


register(
    OpSpec(
        "tuple",
        (0, None),
        _infer_tuple,
        _tuple,
        Category.STRUCTURE,
        "003 Tuple",
        (
            "(f32[2], s32[]) tuple(f32[2] a, s32[] b)",
            "((f32[2]), s32[]) tuple((f32[2]) a, s32[] b)",
            "() tuple()",
        ),
        traits=Trait.INFERABLE,
        factors=structural("each operand is an element of the result"),
    )
)


def _infer_get_tuple_element(op: OpView) -> Shape:
    shape, index = op.operand_shapes[0], op.tuple_index
    if not isinstance(shape, TupleShape):
        raise InferError(
            f"get-tuple-element: operand 0 has shape {shape.to_string(False)}, a tuple is needed",
            operand=0, code="type-mismatch",
        )  # fmt: skip
    if not 0 <= index < len(shape.elements):
        raise InferError(
            f"get-tuple-element: index {index} is outside [0, {len(shape.elements)}), the elements "
            f"of {shape.to_string(False)}", attr="index", code="index-out-of-range",
        )  # fmt: skip
    return shape.elements[index]


def _get_tuple_element(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return args[0][op.tuple_index]


register(
    OpSpec(
        "get-tuple-element",
        1,
        _infer_get_tuple_element,
        _get_tuple_element,
        Category.STRUCTURE,
        "003 GetTupleElement",
        ("s32[3] get-tuple-element((f32[2], s32[3]) t), index=1",),
        attrs={"index": need(INT)},
        traits=Trait.INFERABLE | Trait.TUPLE_OF_ONE,
        factors=structural("the result is an element of the operand"),
    )
)


# --- tokens and barriers ------------------------------------------------------------------------


def _infer_after_all(op: OpView) -> Shape:
    # It may wait for values of any shape: `after-all(x)` orders what follows after `x`.
    return TOKEN


def _after_all(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return TOKEN_VALUE


register(
    OpSpec(
        "after-all",
        (0, None),
        _infer_after_all,
        _after_all,
        Category.STRUCTURE,
        "003 AfterAll",
        ("token[] after-all()", "token[] after-all(token[] a, f32[2] b)"),
        traits=Trait.INFERABLE,
        factors=structural("it orders operations"),
    )
)


def _infer_add_dependency(op: OpView) -> Shape:
    need_token(op, 1)
    return op.operand_shapes[0]


register(
    OpSpec(
        "add-dependency",
        2,
        _infer_add_dependency,
        identity,
        Category.STRUCTURE,
        "003 AddDependency",
        (
            """HloModule add_dependency_example
ENTRY e {
  x = f32[2] parameter(0)
  t = token[] after-all()
  ROOT r = f32[2] add-dependency(x, t)
}
""",
        ),
        traits=Trait.INFERABLE | Trait.FORWARDS | Trait.TUPLE_OF_ONE,
        factors=forwarded("each element of the tuple is handed on"),
    )
)

register(
    OpSpec(
        "opt-barrier",
        1,
        same_shape,
        identity,
        Category.STRUCTURE,
        "003 OptimizationBarrier",
        (
            "f32[2] opt-barrier(f32[2] a)",
            "(f32[2], s32[]) opt-barrier((f32[2], s32[]) t)",
        ),
        traits=Trait.INFERABLE | Trait.FORWARDS | Trait.TUPLE_OF_ONE,
        factors=forwarded("each element of the tuple is handed on"),
    )
)


# --- domains ------------------------------------------------------------------------------------


register(
    OpSpec(
        "domain",
        1,
        same_shape,
        identity,
        Category.STRUCTURE,
        "xla/hlo/ir/hlo_domain_metadata.h",
        (
            "f32[2] domain(f32[2] a), "
            'domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}',
        ),
        attrs={"domain": need(DOMAIN)},
        traits=Trait.INFERABLE | Trait.FORWARDS,
        factors=forwarded("each element of the tuple is handed on"),
    )
)
