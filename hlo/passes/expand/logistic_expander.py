"""The logistic function by the exponential."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES


@module_pass
def logistic_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `logistic(x)` by e = exp(-|x|): 1 / (1 + e), and e / (1 + e) for negative x.

    So nothing overflows, and small results keep their digits. Narrow floats go through f32 and are
    rounded once.
    """
    expand_instructions(
        module, rewrites, "logistic_expander.expand", ["logistic"], _expanded, approximate=True
    )


def _expanded(inst: Instruction) -> Computation | None:
    d = Draft(inst)
    shape = inst.array_shape
    if shape.is_dynamic or shape.element_type.is_complex:
        return None
    narrow = shape.element_type.is_float and shape.element_type.bits < 32
    et = ELEMENT_TYPES["f32"] if narrow else shape.element_type
    x = d.convert(d.parameters[0], et)
    wide = shape.with_type(et)
    one, zero = (d.broadcast(d.constant(et, n), wide) for n in (1, 0))
    e = d.op("exponential", d.op("negate", d.op("abs", x)))
    negative = d.compare(x, zero, "LT")
    value = d.op("divide", d.op("select", negative, e, one), d.op("add", one, e))
    return d.done(d.convert(value, shape.element_type))
