"""Values without operands: parameters, constants, iota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import INT, LITERAL, NATURAL, need
from hlo.ops.elementwise.casts import convert
from hlo.ops.factors import FactorKind, FactorRule, Rule, structural
from hlo.ops.rules import array_result, need_compatible
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, Shape

# --- parameter ----------------------------------------------------------------------------------


def _infer_parameter(op: OpView) -> Shape:
    number = op.parameter_number
    if number < 0:
        raise InferError(f"parameter: number {number} is negative", attr="number", code="bad-value")
    return op.shape


def _parameter(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    raise AssertionError("a parameter's value is bound by the call of its computation")


register(
    OpSpec(
        "parameter",
        0,
        _infer_parameter,
        _parameter,
        Category.DATA,
        "003 Parameter",
        ("f32[2,3] parameter(0)", "(f32[], (s32[2], pred[])) parameter(0)"),
        attrs={"number": need(NATURAL)},
        payload="number",
        factors=structural("its value comes from what calls the computation"),
    )
)

# --- constant -----------------------------------------------------------------------------------


def _infer_constant(op: OpView) -> Shape:
    literal = op.literal
    need_compatible(op, literal.shape, op.shape, "the literal and the result", attr="literal")
    return op.shape


def _constant(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    literal = op.literal
    return literal.value


def _factors_of_constant(op: OpView) -> FactorRule:
    if not isinstance(op.shape, ArrayShape):
        return structural("each element of the tuple is a constant")(op)
    rule = Rule(op)
    rule.pointwise(range(op.shape.rank), (), kind=FactorKind.PERMUTATION)
    return rule.done()


register(
    OpSpec(
        "constant",
        0,
        _infer_constant,
        _constant,
        Category.DATA,
        "003 Constant",
        (
            "f32[2,3] constant({ { 1, 2.5, -inf }, { nan, -0.0, 1e-30 } })",
            "c64[] constant((1, -2))",
            "s4[2,2]{0,1} constant({ { 7, -8 }, { 0, 1 } })",
        ),
        attrs={"literal": need(LITERAL)},
        payload="literal",
        factors=_factors_of_constant,
    )
)

# --- iota ---------------------------------------------------------------------------------------


def _infer_iota(op: OpView) -> Shape:
    shape, dim = array_result(op), op.iota_dimension
    if shape.element_type.is_pred:
        raise InferError(
            f"iota: the result {shape.to_string(False)} is pred, a number type is needed",
            code="type-mismatch",
        )
    if not 0 <= dim < shape.rank:
        raise InferError(
            f"iota: iota_dimension {dim} is outside [0, {shape.rank}), the dimensions of "
            f"{shape.to_string(False)}", attr="iota_dimension", code="bad-dimension",
        )  # fmt: skip
    if UNBOUNDED in shape.dims:
        raise InferError(f"iota: the result {shape.to_string(False)} has no size")
    return op.shape


def _iota(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    shape, dim = array_result(op), op.iota_dimension
    size = shape.dims[dim] if shape.num_elements else 0
    ramp = convert(np.arange(size, dtype=np.int64), shape.element_type)
    along = ramp.reshape([-1 if d == dim else 1 for d in range(shape.rank)])
    result = np.empty(shape.dims, ramp.dtype)
    if shape.num_elements:
        result[...] = along
    return result


def _factors_of_iota(op: OpView) -> FactorRule:
    rule = Rule(op)
    for d in range(array_result(op).rank):
        counts = d == op.iota_dimension
        kind = FactorKind.PERMUTATION if counts else FactorKind.PASS_THROUGH
        rule.pointwise([d], (), kind=kind)
    return rule.done()


register(
    OpSpec(
        "iota",
        0,
        _infer_iota,
        _iota,
        Category.DATA,
        "003 Iota",
        (
            "s32[3,4] iota(), iota_dimension=1",
            "bf16[300] iota(), iota_dimension=0",
            "u4[2,20] iota(), iota_dimension=1",
        ),
        attrs={"iota_dimension": need(INT)},
        cost=0.0,
        traits=Trait.INDEXABLE,
        factors=_factors_of_iota,
    )
)
