"""Slices after elementwise operations."""

from __future__ import annotations

from collections.abc import Hashable

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused
from hlo.values.types import ElementType, array


@module_pass
def slice_sinker(module: Module, rewrites: Rewrites) -> None:
    """Apply an elementwise operation to whole arrays instead of to slices that cover most of them.

    The slices of each of the arrays have to have as many elements together as the array.
    """
    effects, congruence = Effects(), Congruence()
    for comp in unfused(module):
        groups: dict[Hashable, list[Instruction]] = {}
        for inst in comp.in_order():
            if _is_candidate(inst, effects):
                sources = tuple(o.operands[0] for o in inst.operands)
                notes = {k: v for k, v in inst.annotations.items() if k != "metadata"}
                key = inst.opcode, _type(inst), sources, congruence.hashable([inst.attrs, notes])
                groups.setdefault(key, []).append(inst)
        for group in groups.values():
            _sink(comp, group, rewrites)


def _is_candidate(inst: Instruction, effects: Effects) -> bool:
    """True for an elementwise operation on equal slices of arrays of equal dimensions."""
    if not inst.spec.has(Trait.ELEMENTWISE) or not effects.is_function(inst):
        return False
    if not inst.operands or has_control_edges(inst) or inst.opcode == "map":
        return False
    if effects.is_removable(inst) or any(o.opcode != "slice" for o in inst.operands):
        return False
    slices = {o.slice for o in inst.operands}
    dims = {o.operands[0].array_shape.dims for o in inst.operands}
    dynamic = any(o.operands[0].array_shape.is_dynamic for o in inst.operands)
    return len(slices) == 1 and len(dims) == 1 and not dynamic


def _sink(comp: Computation, group: list[Instruction], rewrites: Rewrites) -> None:
    first = group[0]
    sources = [o.operands[0] for o in first.operands]
    dims = sources[0].array_shape.dims
    sliced = {i.operands[0].slice: i.array_shape.num_elements for i in group}
    if len(sliced) < 2 or sum(sliced.values()) < sources[0].array_shape.num_elements:
        return
    if not rewrites.allow("slice_sinker", first):
        return
    b = Builder(comp, first)
    whole = b.op(first.opcode, *sources, shape=array(_type(first), dims), **first.attrs)
    for inst in group:
        b = Builder(comp, inst)
        part = b.op("slice", whole, slice=inst.operands[0].slice)
        replace_instruction(inst, part, b.built)
        comp.remove(inst)


def _type(inst: Instruction) -> ElementType:
    return inst.array_shape.element_type
