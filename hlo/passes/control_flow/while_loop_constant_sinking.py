"""Constants that loops carry, inside these loops."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Instruction, Module
from hlo.ir.calls import Calls
from hlo.passes.control_flow._loops import (
    State,
    element_has_one_layout,
    element_uses,
    invariant_elements,
    is_tuple_loop,
    size_of_state,
    until_unchanged,
    with_state,
)
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape


@module_pass
def while_loop_constant_sinking(
    module: Module,
    rewrites: Rewrites,
    *,
    sink_broadcast_of_constants: bool = False,
    sink_only_scalar_constants: bool = False,
) -> None:
    """Sink constants that a loop carries unchanged into its body.

    They stay in the state; simplify-while-loops takes them out.
    """
    calls, effects = Calls(module), Effects()

    def sinks(value: Instruction) -> bool:
        if value.opcode == "broadcast" and sink_broadcast_of_constants:
            return value.operands[0].opcode == "constant"
        is_scalar = isinstance(value.shape, ArrayShape) and value.shape.is_scalar
        return value.opcode == "constant" and (is_scalar or not sink_only_scalar_constants)

    def visit(loop: Instruction) -> bool:
        init = loop.operands[0]
        if not is_tuple_loop(loop) or init.opcode != "tuple":
            return False
        uses = element_uses(loop.body, root=False)
        uses |= element_uses(loop.condition, root=True)
        fixed = {
            i: init.operands[i]
            for i in sorted(invariant_elements(loop) & uses)
            if sinks(init.operands[i]) and element_has_one_layout(loop, i)
        }
        if not fixed or not rewrites.allow("while_loop_constant_sinking", loop):
            return False
        with_state(loop, State(range(size_of_state(loop)), fixed), calls, effects)
        return True

    until_unchanged(module, visit)
