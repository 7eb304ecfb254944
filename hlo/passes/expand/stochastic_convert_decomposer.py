"""Stochastic rounding by comparisons of random bits with fractions."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES


@module_pass
def stochastic_convert_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Express `stochastic-convert` to integers: round up if random bits are below the fraction."""
    rule = "stochastic_convert_decomposer.expand"
    expand_instructions(module, rewrites, rule, ["stochastic-convert"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    to, source = inst.array_shape, inst.operands[0].array_shape
    if to.is_dynamic or source.is_dynamic:
        return None
    d = Draft(inst)
    # In f32 at least: whole parts, fractions, and fractions times a power of two are exact.
    wide = ELEMENT_TYPES["f64" if source.element_type.bits == 64 else "f32"]
    shape = source.with_type(wide)
    x, random = d.convert(d.parameters[0], wide), d.parameters[1]
    random_type = inst.operands[1].array_shape.element_type
    size = d.op("abs", x)
    whole = d.op("floor", size)
    scale = d.broadcast(d.constant(wide, 2.0**random_type.bits), shape)
    fraction = d.op("multiply", d.op("subtract", size, whole), scale)
    below = d.compare(random, d.convert(fraction, random_type), "LT")
    up = d.op("add", whole, d.broadcast(d.constant(wide, 1), shape))
    rounded = d.op("select", below, up, whole)
    zero = d.broadcast(d.constant(wide, 0), shape)
    negative = d.compare(x, zero, "LT")
    signed = d.op("select", negative, d.op("negate", rounded), rounded)
    # The conversion saturates, and makes 0 of NaN.
    return d.done(d.convert(signed, to.element_type))
