"""sort."""

from __future__ import annotations

from hlo.analysis.constants import splat
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._match import dims_of
from hlo.passes.algsimp._rules import rule


@rule("sort", "sort(x) = x, along a dimension of at most one element")
def sort_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    if dims_of(inst.operands[0])[inst.dimensions[0]] > 1:
        return None
    return inst.operands[0] if inst.shape.is_array else b.tuple(*inst.operands)


@rule("sort", "sort(x) = x, for an x that is the same everywhere")
def sort_of_splat(inst: Instruction, b: Builder) -> Instruction | None:
    if any(splat(x) is None for x in inst.operands):
        return None
    return inst.operands[0] if inst.shape.is_array else b.tuple(*inst.operands)


@rule("sort", "sort(sort(x)) = sort(x), by one function, where equal elements stay in place")
def sort_twice(inst: Instruction, b: Builder) -> Instruction | None:
    """The sort of one array, or of all results of another sort in order."""
    if not inst.is_stable:
        return None
    if inst.shape.is_array:
        inner = inst.operands[0]
    else:
        parts = inst.operands
        if any(x.opcode != "get-tuple-element" for x in parts):
            return None
        inner = parts[0].operands[0]
        if any(x.operands[0] is not inner or x.tuple_index != n for n, x in enumerate(parts)):
            return None
    if inner.opcode != "sort" or inner.shape.is_array != inst.shape.is_array:
        return None
    same = inner.dimensions == inst.dimensions
    by_same = inner.to_apply is inst.to_apply
    return inner if same and by_same and len(inner.operands) == len(inst.operands) else None
