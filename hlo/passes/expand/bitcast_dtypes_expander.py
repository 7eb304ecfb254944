"""Bit casts between element types of different widths by shifts."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import build_reducer
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType


@module_pass
def bitcast_dtypes_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `bitcast-convert` between widths by shifts: the first part has the lowest bits.

    Those of six bits stay, since no integers have as many.
    """
    rule = "bitcast_dtypes_expander.expand"
    expand_instructions(module, rewrites, rule, ["bitcast-convert"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    source, to = inst.operands[0].array_shape, inst.array_shape
    a, b = source.element_type, to.element_type
    if a.bits == b.bits or source.is_dynamic or a.is_complex or b.is_complex:
        return None
    if 6 in (a.bits, b.bits):
        return None
    d = Draft(inst)
    bits = d.op("bitcast-convert", d.parameters[0], shape=source.with_type(_unsigned(a)))
    parts = _split(d, bits, to, a, b) if a.bits > b.bits else _joined(d, bits, to, a, b)
    return d.done(d.op("bitcast-convert", parts, shape=to))


def _unsigned(et: ElementType) -> ElementType:
    return ELEMENT_TYPES[f"u{et.bits}"]


def _split(
    d: Draft, bits: Instruction, to: ArrayShape, a: ElementType, b: ElementType
) -> Instruction:
    """Append the parts of each element, the lowest bits first, in a new last dimension."""
    wide = to.with_type(_unsigned(a))
    shifts = _shifts(d, wide, b)
    spread = d.op("broadcast", bits, shape=wide, dimensions=tuple(range(to.rank - 1)))
    return d.convert(d.op("shift-right-logical", spread, shifts), _unsigned(b))


def _joined(
    d: Draft, bits: Instruction, to: ArrayShape, a: ElementType, b: ElementType
) -> Instruction:
    """Append elements put together from those along the last dimension."""
    et = _unsigned(b)
    wide = d.convert(bits, et)
    shifted = d.op("shift-left", wide, _shifts(d, wide.array_shape, a))
    return d.op(
        "reduce", shifted, d.constant(et, 0), shape=to.with_type(et), dimensions=(to.rank,),
        to_apply=build_reducer("or", et, d.inst),
    )  # fmt: skip


def _shifts(d: Draft, shape: ArrayShape, part: ElementType) -> Instruction:
    """Append by how many bits each part along the last dimension is shifted."""
    at = d.op("iota", shape=shape, iota_dimension=shape.rank - 1)
    return d.op("multiply", at, d.broadcast(d.constant(shape.element_type, part.bits), shape))
