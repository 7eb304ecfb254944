"""Products that share an operand."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.attrs import SliceDim
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused
from hlo.values.types import array

# How far it is looked whether one product needs another; further away they are not merged.
_MAX_STEPS = 2000
# How many lists of merged products one may join.
_MAX_LISTS = 8
_SIDES = ("lhs", "rhs")


@module_pass
def dot_merger(module: Module, rewrites: Rewrites, *, max_size_to_merge: int = 1 << 25) -> None:
    """Merge dots that share an operand by concatenating their other operands.

    max_size_to_merge: bytes of the operands and results together; large products gain nothing.
    """
    congruence = Congruence()
    for comp in unfused(module):
        for shared in (0, 1):
            groups: dict[Hashable, list[Instruction]] = {}
            for inst in comp.in_order():
                key = _key(inst, shared, congruence)
                if key is not None:
                    groups.setdefault(key, []).append(inst)
            for group in groups.values():
                if len(group) > 1:
                    for merged in _independent(group, max_size_to_merge):
                        _merge(comp, merged, shared, rewrites)


def _key(inst: Instruction, shared: int, congruence: Congruence) -> Hashable:
    """Return the key of dots that can be merged, None for others."""
    if inst.opcode != "dot" or len(inst.operands) > 2 or has_control_edges(inst):
        return None
    if any(i.array_shape.is_dynamic for i in (inst, *inst.operands)):
        return None
    dim = _free_dim(inst, 1 - shared)
    if dim is None:
        return None
    other = inst.operands[1 - shared].array_shape
    kept = tuple(n for d, n in enumerate(other.dims) if d != dim)
    notes = {k: v for k, v in inst.annotations.items() if k != "metadata"}
    types = other.element_type, inst.array_shape.element_type
    return inst.operands[shared], kept, types, congruence.hashable([inst.attrs, notes])


def _free_dim(dot: Instruction, side: int) -> int | None:
    """Return the one dimension of an operand that is neither batch nor contracted."""
    taken = (*dot.attrs[f"{_SIDES[side]}_batch_dims"],
             *dot.attrs[f"{_SIDES[side]}_contracting_dims"])  # fmt: skip
    free = [d for d in range(dot.operands[side].array_shape.rank) if d not in taken]
    return free[0] if len(free) == 1 else None


def _independent(group: Sequence[Instruction], limit: int) -> list[list[Instruction]]:
    """Split products that could be merged into lists of such that do not need each other."""
    lists: list[list[Instruction]] = []
    for dot in group:
        needed = _needed(dot)
        for found in lists[-_MAX_LISTS:] if needed is not None else ():
            size = sum(map(_bytes, (*found, dot)))
            if size <= limit and needed is not None and needed.isdisjoint(found):
                found.append(dot)
                break
        else:
            lists.append([dot])
    return [found for found in lists if len(found) > 1]


def _merge(
    comp: Computation, merged: Sequence[Instruction], shared: int, rewrites: Rewrites
) -> None:
    # Merging others may have made one need another.
    needs = [_needed(dot) for dot in merged]
    if any(n is None or not n.isdisjoint(merged) for n in needs):
        return
    # Sums of floats may be added in another order when there are more of them side by side.
    if not rewrites.allow(
        "dot_merger", merged[0], approximate=not merged[0].array_shape.element_type.is_integer
    ):
        return
    first = merged[0]
    dim = _free_dim(first, 1 - shared)
    assert dim is not None
    b = Builder(comp, first)
    others = [m.operands[1 - shared] for m in merged]
    whole = b.op("concatenate", *others, dimensions=(dim,))
    operands = [whole, whole]
    operands[shared] = first.operands[shared]
    # The result has the batch dimensions, then the free ones of the left and of the right.
    out = first.array_shape
    at = out.rank - 1 if shared == 0 else len(first.lhs_batch_dims)
    dims = list(out.dims)
    dims[at] = whole.array_shape.dims[dim]
    product = b.op("dot", *operands, shape=array(out.element_type, dims), **first.attrs)
    start = 0
    for dot in merged:
        stop = start + dot.array_shape.dims[at]
        ranges = [SliceDim(0, n) for n in dims]
        ranges[at] = SliceDim(start, stop)
        part = Builder(comp, dot)
        replace_instruction(dot, part.op("slice", product, slice=tuple(ranges)), part.built)
        comp.remove(dot)
        start = stop


def _needed(inst: Instruction) -> set[Instruction] | None:
    """Return all transitive predecessors of an instruction, None if there are too many."""
    seen: set[Instruction] = set()
    stack = [inst]
    while stack:
        for before in stack.pop().predecessors():
            if before not in seen:
                seen.add(before)
                stack.append(before)
        if len(seen) > _MAX_STEPS:
            return None
    return seen


def _bytes(dot: Instruction) -> int:
    return sum(i.array_shape.byte_size for i in (dot, *dot.operands))
