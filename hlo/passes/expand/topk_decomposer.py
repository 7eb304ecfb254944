"""The k first elements by a sort."""

from __future__ import annotations

from hlo.expansions import sorted_topk
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def topk_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Express `topk` by a stable sort of elements and positions, and slices."""
    expand_instructions(module, rewrites, "topk_decomposer.expand", ["topk"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    return None if inst.operands[0].array_shape.is_dynamic else sorted_topk(inst)
