"""Comparisons in the total order of floats by comparisons of integers."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES, ArrayShape


@module_pass
def comparison_expander(module: Module, rewrites: Rewrites) -> None:
    """Express total-order comparisons of floats by integers: -NaN < -inf < -0 < 0 < inf < NaN.

    For bf16, f16, f32 and f64, whose sign is the highest bit.
    """
    expand_instructions(module, rewrites, "comparison_expander.expand", ["compare"], _expanded)


_SIGNED = {"bf16": "s16", "f16": "s16", "f32": "s32", "f64": "s64"}


def _expanded(inst: Instruction) -> Computation | None:
    shape = inst.operands[0].shape
    if inst.comparison_type != "TOTALORDER" or not isinstance(shape, ArrayShape):
        return None
    if shape.element_type.name not in _SIGNED or inst.array_shape.is_dynamic:
        return None
    d = Draft(inst)
    x, y = (_key(d, value) for value in d.parameters)
    found = d.compare(x, y, inst.direction)
    return d.done(found)


def _key(b: Builder, value: Instruction) -> Instruction:
    """Append the integers that are ordered as floats are: those of negative ones upside down."""
    et = ELEMENT_TYPES[_SIGNED[value.array_shape.element_type.name]]
    shape = value.array_shape.with_type(et)
    bits = b.op("bitcast-convert", value, shape=shape)
    most = (1 << (et.bits - 1)) - 1
    flipped = b.op("xor", bits, b.broadcast(b.constant(et, most), shape))
    zero = b.broadcast(b.constant(et, 0), shape)
    negative = b.compare(bits, zero, "LT")
    return b.op("select", negative, flipped, bits)
