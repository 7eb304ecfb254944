"""Roots at the end of schedules."""

from __future__ import annotations

from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import ArrayShape, TupleShape


@module_pass
def root_instruction_sinker(module: Module, rewrites: Rewrites) -> None:
    """Move roots to the end of schedules.

    A root with other users stays where it is; a new instruction that forwards its value becomes
    the root.
    """
    if not module.is_scheduled:
        return
    for comp in unfused(module):
        order = comp.in_order()
        root = comp.root
        if order[-1] is root or not rewrites.allow("root_instruction_sinker", root):
            continue
        if root.num_users or root.control_successors or root.opcode == "parameter":
            comp.set_root(_handed_on(comp, root))
        else:
            comp.reorder([*(i for i in order if i is not root), root])


def _handed_on(comp: Computation, root: Instruction) -> Instruction:
    """Append what has the value of the root."""
    b, shape = Builder(comp, root), root.shape
    if isinstance(shape, TupleShape):
        return b.tuple(*(b.element(root, n) for n in range(len(shape.elements))))
    if isinstance(shape, ArrayShape):
        return b.op("bitcast", root, shape=shape)
    return b.op("after-all", root)
