"""Branches of conditionals, and replacing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, inline
from hlo.values.types import S32, ArrayShape, Shape, TupleShape


def branches_of(inst: Instruction) -> list[Computation]:
    """Return the branches of a conditional, in the order of their arguments (true, false)."""
    return inst.called_computations


def with_branches(
    inst: Instruction,
    branches: Sequence[Computation],
    arguments: Sequence[Instruction],
    b: Builder,
) -> Instruction:
    """Append a conditional on the same predicate with other branches and arguments."""
    names = ("true_computation", "false_computation")
    attrs: dict[str, Any] = dict(zip(names, branches, strict=False))
    if inst.branch_computations is not None:
        attrs = {"branch_computations": tuple(branches)}
    new = b.op("conditional", inst.operands[0], *arguments, shape=branches[0].result_shape, **attrs)
    new.annotations.update({k: v for k, v in inst.annotations.items() if k != "sharding"})
    return new


def keep_order(inst: Instruction, new: Instruction) -> None:
    """Move the control dependences of an instruction to its replacement."""
    for before in list(inst.control_predecessors):
        new.add_control_predecessor(before)
    for after in list(inst.control_successors):
        after.add_control_predecessor(new)


def is_quick(branch: Computation, effects: Effects) -> bool:
    """True when it does no harm to run a branch that is not chosen: no effects, no risks."""
    return all(
        effects.is_function(i)
        and effects.is_speculatable(i)
        and not i.control_predecessors
        and all(isinstance(s, ArrayShape) for _, s in i.shape.leaves())
        for i in branch
    )


def select_branch(inst: Instruction, calls: Calls) -> list[Computation]:
    """Replace a conditional by all of its branches and selects of their results.

    Returns the computations that are new in the module.
    """
    results, built = [], []
    for branch, argument in zip(branches_of(inst), inst.operands[1:], strict=True):
        root, copies = inline(branch, [argument], inst)
        results.append(root)
        built += copies
    joined = calls.added(built)
    assert inst.parent is not None
    b, chosen = Builder(inst.parent, inst), results[-1]
    # An index outside the branches selects the last one.
    for number, result in reversed(list(enumerate(results[:-1]))):
        test = inst.operands[0]
        if inst.branch_computations is not None:
            index = b.constant(S32, number)
            test = b.compare(test, index, "EQ")
        chosen = _select(b, test, result, chosen, inst.shape)
    inst.replace_all_uses_with(b.relaid(chosen, inst.shape))
    calls.remove(inst)
    return joined


def _select(
    b: Builder, test: Instruction, yes: Instruction, no: Instruction, shape: Shape
) -> Instruction:
    if yes is no:
        return yes
    if isinstance(shape, TupleShape):
        parts = [
            _select(b, test, b.element(yes, n), b.element(no, n), s)
            for n, s in enumerate(shape.elements)
        ]
        return b.tuple(*parts)
    assert isinstance(shape, ArrayShape)
    return b.op("select", test, b.relaid(yes, shape), b.relaid(no, shape), shape=shape)
