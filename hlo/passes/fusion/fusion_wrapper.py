"""Unfused loops, each as a fusion of its own."""

from __future__ import annotations

from hlo.analysis.bitcasts import is_bitcast
from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Instruction, Module
from hlo.ir.calls import Calls
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.fusion._kernels import is_loop, is_scalar_constant
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape


@module_pass
def fusion_wrapper(module: Module, rewrites: Rewrites) -> None:
    """Wrap every unfused loop operation in a fusion of its own.

    Contractions and copies, which have kernels of their own, are not wrapped, nor are scalars,
    bitcasts and reshapes that move nothing, which are no loops.
    """
    calls, effects = Calls(module), Effects()
    for comp in fusible_computations(module):
        builder = FusionBuilder(comp, calls, effects)
        for inst in comp:
            if _is_wrapped(inst, effects) and rewrites.allow("fusion_wrapper", inst):
                constants = [o for o in inst.operands if is_scalar_constant(o)]
                name = f"wrapped_{inst.opcode.replace('-', '_')}"
                builder.fuse({inst, *constants}, [inst], name=name, body_name=f"{name}_computation")
        builder.finish()


def _is_wrapped(inst: Instruction, effects: Effects) -> bool:
    if all(o.opcode == "constant" for o in inst.operands):
        return False  # left to constant folding, which would fold the whole fusion
    if inst.opcode == "scatter":
        return effects.is_function(inst) and not has_control_edges(inst)
    if isinstance(inst.shape, ArrayShape) and inst.shape.is_scalar and inst.opcode != "reduce":
        return False
    if is_bitcast(inst) or inst.opcode == "copy":
        return False
    return is_loop(inst, effects)
