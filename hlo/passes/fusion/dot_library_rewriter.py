"""Dots for a library of kernels."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Instruction, Module
from hlo.ir.calls import Calls
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import is_configured

# Operand and result types that YNNPACK supports.
_TYPES = frozenset({("f32", "f32"), ("bf16", "f32"), ("s8", "s32")})


@module_pass
def dot_library_rewriter(module: Module, rewrites: Rewrites, *, kind: str = "__ynn_fusion") -> None:
    """Wrap dots that XLA:CPU delegates to a library in custom fusions, as in its dumps.

    kind: the library's name in `backend_config`. Results are the same, since here they run on this
    project's kernels.
    """
    calls, effects = Calls(module), Effects()
    for comp in fusible_computations(module):
        builder = FusionBuilder(comp, calls, effects)
        for inst in comp.in_order():
            if _is_for_library(inst) and rewrites.allow("dot_library_rewriter", inst):
                name = kind.strip("_")
                fusion = builder.fuse([inst], [inst], name=name, kind="kCustom")
                fusion.annotations["backend_config"] = f'{{"fusion_config":{{"kind":"{kind}"}}}}'
        builder.finish()


def _is_for_library(inst: Instruction) -> bool:
    if inst.opcode != "dot" or is_configured(inst) or has_control_edges(inst):
        return False
    if any(i.shape.is_dynamic for i in (inst, *inst.operands)):
        return False
    a, b, result = (i.array_shape for i in (*inst.operands, inst))
    if a.element_type is not b.element_type or not a.num_elements or not b.num_elements:
        return False
    if (a.element_type.name, result.element_type.name) not in _TYPES:
        return False
    return all(len(inst.attrs[f"{side}_contracting_dims"]) == 1 for side in ("lhs", "rhs"))
