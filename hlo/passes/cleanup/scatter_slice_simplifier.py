"""Scatters of whose results only the first part is needed."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.attrs import SliceDim
from hlo.passes.cleanup.scatter_simplifier import is_simple
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused


@module_pass
def scatter_slice_simplifier(module: Module, rewrites: Rewrites) -> None:
    """Scatter into a smaller operand if all users slice off the same end of the result.

    Indices that point beyond are then out of bounds and do nothing. Scatters are in the form of
    scatter-simplifier, in whose windows the dimensions that are cut have size one.
    """
    for comp in unfused(module):
        for inst in comp.in_order():
            if inst.opcode == "scatter" and inst.parent is comp:
                _visit(comp, inst, rewrites)


def _visit(comp: Computation, scatter: Instruction, rewrites: Rewrites) -> None:
    slices = _slices(scatter)
    dims = _kept_dims(scatter, slices) if slices is not None else None
    if slices is None or dims is None:
        return
    if not rewrites.allow("scatter_slice_simplifier", scatter):
        return
    b, count = Builder(comp, scatter), len(scatter.operands) // 2
    keep = tuple(SliceDim(0, n) for n in dims)
    operands = [b.op("slice", x, slice=keep) for x in scatter.operands[:count]]
    new = b.op("scatter", *operands, *scatter.operands[count:], **scatter.attrs)
    for cut in slices:
        element = cut.operands[0]
        part = new if element is scatter else b.element(new, element.tuple_index)
        replace_instruction(cut, part, b.built)
        comp.remove(cut)
        if element is not scatter and not element.num_users:
            comp.remove(element)
    comp.remove(scatter)


def _slices(scatter: Instruction) -> list[Instruction] | None:
    """Return the slices that are all uses of a scatter, None if there are others."""
    if scatter.is_root or has_control_edges(scatter) or not is_simple(scatter):
        return None
    found: list[Instruction] = []
    for user in scatter.users:
        if user.opcode == "get-tuple-element" and not user.is_root and not has_control_edges(user):
            found += user.users
        else:
            found.append(user)
    if not found or any(u.opcode != "slice" or has_control_edges(u) for u in found):
        return None
    return found


def _kept_dims(scatter: Instruction, slices: Sequence[Instruction]) -> tuple[int, ...] | None:
    """Return the size of what slices keep, None unless that is the same beginning for all."""
    count = len(scatter.operands) // 2
    if any(o.shape.is_dynamic for o in scatter.operands):
        return None
    kept = {cut.slice for cut in slices}
    if len(kept) != 1:
        return None
    (ranges,) = kept
    dims = scatter.operands[0].array_shape.dims
    window = scatter.operands[count + 1].array_shape.dims[1:]
    if any(r.start or r.stride != 1 for r in ranges):
        return None
    limits = tuple(r.limit for r in ranges)
    cut = [d for d, (n, m) in enumerate(zip(dims, limits, strict=True)) if n != m]
    return limits if cut and all(window[d] == 1 and limits[d] for d in cut) else None
