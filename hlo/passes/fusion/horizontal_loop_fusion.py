"""Small loops that have nothing to do with each other, as one loop."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.passes.fusion._siblings import Pair, merge_all, neighbours, root_of
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape

_MAX_OUTPUTS = 16
_MAX_OPERANDS = 48


@module_pass
def horizontal_loop_fusion(
    module: Module, rewrites: Rewrites, *, max_elements: int = 65536
) -> None:
    """Fuse small independent loops of equal shape whose results have the same users.

    max_elements: larger loops are worth a kernel each.
    """

    def pairs(comp: Computation, effects: Effects) -> list[Pair]:
        return _pairs(comp, effects, max_elements)

    merge_all(
        module, rewrites, "horizontal_loop_fusion", pairs,
        max_outputs=_MAX_OUTPUTS, max_operands=_MAX_OPERANDS,
    )  # fmt: skip


def _pairs(comp: Computation, effects: Effects, max_elements: int) -> list[Pair]:
    """Return the operands of one instruction that are loops of equal shape."""
    found: list[Pair] = []
    for user in comp.in_order():
        loops = [o for o in dict.fromkeys(user.operands) if _is_small_loop(o, max_elements)]
        if len(loops) > 1:
            found += neighbours(loops, effects)
    return found


def _is_small_loop(inst: Instruction, max_elements: int) -> bool:
    """True for what computes few elements; what only moves them is left alone, fused or not."""
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.num_elements > max_elements:
        return False
    if inst.opcode == "fusion":
        if inst.fusion_kind != "kLoop" or root_of(inst).opcode == "reduce":
            return False
        return any(i.spec.has(Trait.ELEMENTWISE) for i in inst.calls)
    return inst.spec.has(Trait.ELEMENTWISE)
