"""Sorts with unused operands, and trivial sorts."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import ArrayShape


@module_pass
def simplify_sorts(module: Module, rewrites: Rewrites) -> None:
    """Remove unused operands of sorts, and sorts of at most one element.

    Equal elements are ordered by position at most, so operands that are not compared do not
    affect the order.
    """
    calls, effects = Calls(module), Effects()
    for comp in unfused(module):
        for inst in comp:
            if inst.opcode == "sort" and not has_control_edges(inst):
                _simplify(inst, calls, effects, rewrites)


def _simplify(sort: Instruction, calls: Calls, effects: Effects, rewrites: Rewrites) -> None:
    shape = sort.operands[0].array_shape
    function = sort.to_apply
    if shape.is_dynamic or any(map(effects.has_side_effect, function)):
        return
    if shape.dims[sort.dimensions[0]] <= 1:
        if rewrites.allow("simplify_sorts.nothing", sort):
            _replace(sort, {n: o for n, o in enumerate(sort.operands)}, calls)
        return
    kept = _needed(sort, function)
    if len(kept) == len(sort.operands) or not rewrites.allow("simplify_sorts.operands", sort):
        return
    assert sort.parent is not None
    b = Builder(sort.parent, sort)
    attrs = {**sort.attrs, "to_apply": _with_parameters(function, kept)}
    operands = [sort.operands[n] for n in kept]
    new = b.op("sort", *operands, **attrs)
    calls.added([new])
    if len(kept) == 1:
        values = {kept[0]: new}
    else:
        values = {n: b.element(new, place) for place, n in enumerate(kept)}
    _replace(sort, values, calls)


def _needed(sort: Instruction, function: Computation) -> list[int]:
    """Return the numbers of the operands that are compared, or whose sorted values are used."""
    if len(sort.operands) == 1 or sort.is_root:
        return list(range(len(sort.operands)))
    needed = {p.parameter_number // 2 for p in function.parameters if p.num_users or p.is_root}
    for user in sort.users:
        if user.opcode != "get-tuple-element" or has_control_edges(user):
            return list(range(len(sort.operands)))
        if user.num_users or user.is_root:
            needed.add(user.tuple_index)
    return sorted(needed) or [0]


def _with_parameters(function: Computation, kept: list[int]) -> Computation:
    """Return a comparator with the parameters for some of the operands only."""
    copy = Computation(function.name, execution_thread=function.execution_thread)
    made: dict[Instruction, Instruction] = {}
    b = Builder(copy, function.root)
    for place, n in enumerate(kept):
        for side in (0, 1):
            old = function.parameters[2 * n + side]
            made[old] = b.parameter(2 * place + side, old.shape, old.name)
    copy_cone(function, copy, made, [function.root])
    copy.set_root(made[function.root])
    return copy


def _replace(sort: Instruction, values: dict[int, Instruction], calls: Calls) -> None:
    """Make the users of a sort use arrays instead, by number of the operand."""
    assert sort.parent is not None
    b = Builder(sort.parent, sort)
    if isinstance(sort.shape, ArrayShape):
        sort.replace_all_uses_with(b.relaid(values[0], sort.shape))
    else:
        for user in sort.users:
            if user.opcode == "get-tuple-element" and not has_control_edges(user):
                if user.num_users or user.is_root:
                    user.replace_all_uses_with(b.relaid(values[user.tuple_index], user.shape))
                sort.parent.remove(user)
        if sort.num_users or sort.is_root:
            whole = b.tuple(*(values[n] for n in range(len(sort.operands))))
            sort.replace_all_uses_with(b.relaid(whole, sort.shape))
    calls.remove(sort)
