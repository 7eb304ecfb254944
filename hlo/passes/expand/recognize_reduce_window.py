"""Sums of shifted slices as one reduction by windows."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder, build_reducer
from hlo.ops import Trait
from hlo.ops.attrs import SliceDim, WindowDim
from hlo.passes.expand._inline import rounds
from hlo.passes.expand._reducers import identity_of
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused

_OPS = frozenset({"add", "and", "maximum", "minimum", "multiply", "or"})
# Slices that one operation may join.
_MOST = 1024


@module_pass
def recognize_reduce_window(module: Module, rewrites: Rewrites) -> None:
    """Express x[0:n] + x[1:n+1] + ..., equally spaced slices, by one `reduce-window`.

    The same for products, the greatest, the least, `and` and `or`.
    """
    for comp in unfused(module):
        # The last operations first: they join the most.
        for inst in reversed(comp.in_order()):
            if inst.parent is not comp or inst.opcode not in _OPS or has_control_edges(inst):
                continue
            slices = _slices(inst)
            if slices is None:
                continue
            approximate = rounds(inst) and not inst.spec.has(Trait.ASSOCIATIVE)
            if not rewrites.allow("recognize_reduce_window", inst, approximate=approximate):
                continue
            b = Builder(comp, inst)
            new = _window(b, inst, slices)
            replace_instruction(inst, new, b.built)
            dead = [inst]
            while dead:
                old = dead.pop()
                if old.parent is comp and not old.num_users and not old.is_root:
                    operands = dict.fromkeys(old.operands)
                    comp.remove(old)
                    dead += [o for o in operands if o.opcode in (inst.opcode, "slice")]


def _slices(inst: Instruction) -> list[Instruction] | None:
    """Return the slices that a tree of one operation joins, in order of where they begin."""
    leaves: list[Instruction] = []
    todo = [inst]
    while todo:
        node = todo.pop()
        inner = node is inst or (node.num_users == 1 and not has_control_edges(node))
        if node.opcode == inst.opcode and inner:
            if node is not inst and len(set(node.operands)) < len(node.operands):
                return None
            todo.extend(node.operands)
        else:
            leaves.append(node)
        if len(leaves) > _MOST:
            return None
    if len(leaves) < 2 or any(not _is_plain(leaf) for leaf in leaves):
        return None
    if len({leaf.operands[0] for leaf in leaves}) > 1:
        return None
    if identity_of(inst.opcode, inst.array_shape.element_type) is None:
        return None
    leaves.sort(key=_starts)
    return leaves if _step(leaves) is not None else None


def _is_plain(leaf: Instruction) -> bool:
    if leaf.opcode != "slice" or leaf.operands[0].shape.is_dynamic:
        return False
    return all(r.stride == 1 for r in leaf.slice)


def _starts(leaf: Instruction) -> list[int]:
    return [r.start for r in leaf.slice]


def _step(leaves: list[Instruction]) -> tuple[int, int] | None:
    """Return along which dimension slices follow each other, and at what distance."""
    first, second = _starts(leaves[0]), _starts(leaves[1])
    moved = [d for d, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    if len(moved) != 1:
        return None
    (dim,) = moved
    step = second[dim] - first[dim]
    for n, leaf in enumerate(leaves):
        at = _starts(leaf)
        if at[dim] != first[dim] + n * step or at[:dim] + at[dim + 1 :] != (
            first[:dim] + first[dim + 1 :]
        ):
            return None
    return dim, step


def _window(b: Builder, inst: Instruction, slices: list[Instruction]) -> Instruction:
    found = _step(slices)
    assert found is not None
    dim, step = found
    et = inst.array_shape.element_type
    ranges = list(slices[0].slice)
    ranges[dim] = SliceDim(ranges[dim].start, slices[-1].slice[dim].limit)
    x = b.op("slice", slices[0].operands[0], slice=tuple(ranges))
    window = [WindowDim()] * len(ranges)
    window[dim] = WindowDim(len(slices), rhs_dilate=step)
    none = b.constant(et, identity_of(inst.opcode, et))
    function = build_reducer(inst.opcode, et, inst)
    new = b.op("reduce-window", x, none, window=tuple(window), to_apply=function)
    assert b.comp.module is not None
    b.comp.module.adopt([new])
    return new
