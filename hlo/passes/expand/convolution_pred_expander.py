"""Convolutions of truth values by convolutions of numbers."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES


@module_pass
def convolution_pred_expander(module: Module, rewrites: Rewrites) -> None:
    """Convolve `pred` as f16: a sum is nonzero if any product is true."""
    rule = "convolution_pred_expander.expand"
    expand_instructions(module, rewrites, rule, ["convolution"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    if not all(i.array_shape.element_type.is_pred for i in (*inst.operands, inst)):
        return None
    d, shape = Draft(inst), inst.array_shape
    f16 = ELEMENT_TYPES["f16"]
    x, w = (d.convert(p, f16) for p in d.parameters)
    sums = d.op("convolution", x, w, shape=shape.with_type(f16), **inst.attrs)
    return d.done(d.convert(sums, shape.element_type))
