"""Sinking of scalar constant operands into fusions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hlo.ir import Computation, Instruction, Module
from hlo.passes.fusion._kernels import is_scalar_constant
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused


@module_pass
def fusion_constant_sinking(module: Module, rewrites: Rewrites) -> None:
    """Sink scalar constants into fusions, nested ones included.

    A fusion keeps one operand, and those aliased with its result. Custom fusions, whose operands
    have a meaning to backends, are not changed.
    """
    todo = unfused(module)
    while todo:
        comp = todo.pop()
        order = comp.in_order()
        constants = [i for i in order if is_scalar_constant(i)]
        for at, inst in enumerate(order):
            if inst.opcode == "fusion" and inst.fusion_kind != "kCustom":
                sunk = _sinkable(inst)
                if sunk and rewrites.allow("fusion_constant_sinking", inst):
                    order[at] = _sink(inst, sunk)
                todo.append(inst.calls)
        for constant in constants:
            if not constant.num_users and not constant.is_root:
                comp.remove(constant)
        comp.reorder([i for i in order if i.parent is comp])


def _sinkable(fusion: Instruction) -> list[int]:
    """Return the numbers of the operands that can be sunk."""
    body: Computation = fusion.calls
    aliased = {alias.operand for alias in fusion.output_to_operand_aliasing}
    found = [
        n
        for n, operand in enumerate(fusion.operands)
        if is_scalar_constant(operand) and n not in aliased and not body.parameters[n].is_root
    ]
    return found if len(found) < len(fusion.operands) else found[1:]


def _sink(fusion: Instruction, numbers: Collection[int]) -> Instruction:
    """Move operands of a fusion into its body, which nothing else uses; returns the new fusion."""
    comp, body = fusion.parent, fusion.calls
    assert comp is not None
    for parameter in list(body.parameters):
        number = parameter.parameter_number
        if number in numbers:
            parameter.replace_all_uses_with(body.add(fusion.operands[number].clone()))
            body.remove(parameter)
    kept = [n for n in range(len(fusion.operands)) if n not in numbers]
    for number, parameter in enumerate(body.parameters):
        parameter.attrs["number"] = number
    aliases = tuple(
        replace(alias, operand=kept.index(alias.operand))
        for alias in fusion.output_to_operand_aliasing
    )
    new = fusion.clone(
        [fusion.operands[n] for n in kept], attrs={"output_to_operand_aliasing": aliases}
    )
    comp.add(new)
    for before in fusion.control_predecessors:
        new.add_control_predecessor(before)
    for after in fusion.control_successors:
        after.add_control_predecessor(new)
    fusion.replace_all_uses_with(new)
    comp.remove(fusion)
    return new
