"""Positions of dynamic slices, one operand a dimension."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.attrs import SliceDim
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet

_RULES = RuleSet("dynamic_index_splitter")


@module_pass
def dynamic_index_splitter(module: Module, rewrites: Rewrites) -> None:
    """Take apart the older form of dynamic slices and updates, that has a vector of positions."""
    _RULES.apply(module, rewrites)


@_RULES.rule("dynamic-slice dynamic-update-slice", "starts i = i[0], i[1], ...")
def split_index(inst: Instruction, b: Builder) -> Instruction | None:
    fixed = 1 if inst.opcode == "dynamic-slice" else 2
    if len(inst.operands) != fixed + 1:
        return None
    vector = inst.operands[fixed]
    shape = vector.array_shape
    if shape.rank != 1 or shape.is_dynamic:
        return None
    starts = [
        b.reshape(b.op("slice", vector, slice=(SliceDim(n, n + 1),)), ())
        for n in range(shape.dims[0])
    ]
    attrs = {k: inst.attrs[k] for k in inst.spec.attrs}
    return b.op(inst.opcode, *inst.operands[:fixed], *starts, shape=inst.shape, **attrs)
