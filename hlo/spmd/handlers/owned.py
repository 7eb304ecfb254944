"""Elements of which only the device that owns them has the value."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import Partial, reduced_over
from hlo.spmd.handlers.registry import Wanted
from hlo.spmd.mesh import Axes
from hlo.spmd.value import Sharded
from hlo.values.types import S32, ElementType


def _joining(et: ElementType) -> tuple[str, object]:
    """Return an operation that keeps a value among others, and what the others are."""
    for opcode in ("or",) if et.is_pred else ("add", "maximum"):
        identity = OPS[opcode].identity
        assert identity is not None
        other = identity(et)
        if other is not None:
            return opcode, other
    raise AssertionError(et)


def joining_opcode(et: ElementType) -> str:
    """Return the operation that reduces elements of which one device has the value to it."""
    return _joining(et)[0]


def no_value(b: Builder, et: ElementType) -> Instruction:
    """Return the scalar that devices have in place of elements that they do not own."""
    return b.constant(et, _joining(et)[1])


def _join(b: SpmdBuilder, values: Sequence[Sharded], axes: Axes, wanted: Wanted) -> list[Sharded]:
    return [
        reduced_over(b, v, axes, w, joining_opcode(v.shape.element_type))
        for v, w in zip(values, wanted, strict=True)
    ]


OWNED = Partial(lambda operand: 0, _join)
"""Partial results of which all but one are `no_value`: what one device has, all get."""


def clamped_start(b: SpmdBuilder, index: Instruction, last: int) -> Instruction:
    """Return indices of any integer type moved into `[0, last]`, as s32.

    index: of any rank.
    """
    shape = index.array_shape
    et = shape.element_type
    top = 2 ** (et.bits - et.is_signed) - 1
    low, high = b.constant(et, 0), b.constant(et, min(last, top))
    return b.convert(b.op("clamp", low, index, high, shape=shape), S32)
