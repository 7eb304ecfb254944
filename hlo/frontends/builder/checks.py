"""Checks of shapes while a program is built."""

from __future__ import annotations

from hlo.errors import InferError
from hlo.frontends.builder.calls import query
from hlo.frontends.builder.coercion import ShapeLike, shape_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, operation
from hlo.values.types import compatible


@operation
def check_shape(builder: BuilderCore[XlaOp], operand: XlaOp, expected_shape: ShapeLike) -> XlaOp:
    """Return the operand if it has `expected_shape`, but for layout; else that is an error.

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.check_shape(b.parameter(0, "f32[2,3]"), "f32[2,3]{0,1}").shape)
    f32[2,3]{1,0}
    """
    want = shape_of(expected_shape)
    if not compatible(operand.shape, want):
        raise InferError(
            f"check_shape: {operand.instruction.name} has shape "
            f"{operand.shape.to_string(False)}, {want.to_string(False)} is expected"
        )
    return operand


@query
def check_same_shape(builder: BuilderCore[XlaOp], lhs: XlaOp, rhs: XlaOp) -> None:
    """Raise HloError unless two values have the same shape, but for layout.

    >>> b = hlo.XlaBuilder("m")
    >>> b.check_same_shape(b.parameter(0, "f32[2]"), b.parameter(1, "f32[2]"))
    """
    if not compatible(lhs.shape, rhs.shape):
        raise InferError(
            f"check_same_shape: {lhs.instruction.name} has shape {lhs.shape.to_string(False)}, "
            f"{rhs.instruction.name} {rhs.shape.to_string(False)}"
        )
