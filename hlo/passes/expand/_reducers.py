"""What reductions apply, and from where they may start."""

from __future__ import annotations

from typing import Any

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_reducer
from hlo.ops import OPS
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType

_WITH_ENDS = ("bf16", "f16", "f32", "f64")


def reducer(inst: Instruction) -> str | None:
    """Return the operation that a reduction of one array applies, in one type throughout.

    None for any other function, and for operations without an identity.
    """
    if len(inst.operands) != 2 or not isinstance(inst.shape, ArrayShape):
        return None
    op = single_binary_op(inst.to_apply)
    if op is None:
        return None
    et = inst.shape.element_type
    shapes = [*inst.to_apply.parameter_shapes, *inst.operand_shapes]
    if any(not isinstance(s, ArrayShape) or s.element_type is not et for s in shapes):
        return None
    return op if identity_of(op, et) is not None else None


def identity_of(op: str, et: ElementType) -> Any:
    """Return e with x op e = x for all x to the bit, None where there is none."""
    if et.is_float and et.name not in _WITH_ENDS:
        return None
    if op == "multiply" and et.is_float:
        return None  # products of floats overflow, or not, by their order
    identity = OPS[op].identity
    return None if identity is None else identity(et)


def without_overflow(inst: Instruction, op: str) -> tuple[ElementType, Computation]:
    """Return in which type, and by which function, parts are reduced before they are put together.

    Sums of floats overflow in their own type, or not, by their order. In f64 and c128, which hold
    all others, they differ by rounding only.
    """
    et, function = inst.array_shape.element_type, inst.to_apply
    if op != "add" or not (et.is_float or et.is_complex):
        return et, function
    wide = ELEMENT_TYPES["c128" if et.is_complex else "f64"]
    if wide is et:
        return et, function
    return wide, build_reducer("add", wide, inst, f"{function.name}.{wide}")


def identity(b: Builder, op: str, et: ElementType) -> Instruction:
    """Append the scalar that changes nothing."""
    return b.constant(et, identity_of(op, et))
