"""Modules extracted from others: one instruction and what it depends on, or one computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hlo.ir.computation import Computation
from hlo.ir.instruction import Instruction
from hlo.ir.module import Module


def extract(inst: Instruction, height: int | None = None) -> Module:
    """Return a runnable module that computes one instruction.

    height: how many levels of operands to include, 0 for the instruction alone, None for all of its
    computation; operands beyond that become parameters, except constants. Called computations are
    included whole. Control dependences are dropped.
    """
    assert inst.parent is not None
    depth = _depths(inst, height)
    comp = Computation(f"extracted_{inst.name}")
    made: dict[Instruction, Instruction] = {}
    for old in inst.parent.in_order():
        if old not in depth:
            continue
        beyond = height is not None and depth[old] > height and old.opcode != "constant"
        if beyond or old.opcode == "parameter":
            number = len(comp.parameters)
            new = Instruction(old.name, "parameter", old.shape, (), {"number": number})
            if "metadata" in old.annotations:
                new.annotations["metadata"] = old.annotations["metadata"]
        else:
            new = old.clone([made[o] for o in old.operands])
        made[old] = comp.add(new)
    comp.set_root(made[inst])
    return module_of(comp, inst.module_functions)


def _depths(inst: Instruction, height: int | None) -> dict[Instruction, int]:
    """Return the operations that a value depends on, with the smallest distance of each."""
    depth = {inst: 0}
    level = [inst]
    while level:
        below: list[Instruction] = []
        for user in level:
            if height is not None and depth[user] > height:
                continue
            for operand in user.operands:
                if operand not in depth:
                    depth[operand] = depth[user] + 1
                    below.append(operand)
        level = below
    return depth


def module_of(entry: Computation, functions: Mapping[str, Any] = {}) -> Module:
    """Return a module with a computation as its entry, and copies of all that it calls.

    The entry must not be in a module; afterwards it belongs to the new one. functions: the module's
    own for its custom calls.
    """
    module = Module(entry.name, custom_calls=functions)
    found: dict[Computation, None] = {}
    stack = [entry]
    while stack:
        for inst in stack.pop():
            for callee in inst.called_computations:
                if callee not in found:
                    found[callee] = None
                    stack.append(callee)
    copies = {old: old.clone(old.name) for old in found}
    for comp in (*copies.values(), entry):
        for inst in comp:
            inst.replace_called(copies)
    for copy in copies.values():
        module.add(copy)
    module.add(entry, entry=True)
    return module
