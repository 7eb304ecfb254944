"""Conditionals that return tuples."""

from __future__ import annotations

from hlo.ir import Computation, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, clone_computation
from hlo.passes.control_flow._branches import branches_of, keep_order, with_branches
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import TupleShape


@module_pass
def conditional_canonicalizer(module: Module, rewrites: Rewrites) -> None:
    """Make every conditional return a tuple, for passes that rely on it."""
    calls = Calls(module)
    for inst in [i for comp in unfused(module) for i in comp]:
        if inst.opcode != "conditional" or isinstance(inst.shape, TupleShape):
            continue
        if not rewrites.allow("conditional_canonicalizer", inst):
            return
        assert inst.parent is not None
        b = Builder(inst.parent, inst)
        made: dict[Computation, Computation] = {}
        for branch in branches_of(inst):
            if branch not in made:
                made[branch] = _in_tuple(branch)
        new = with_branches(inst, [made[c] for c in branches_of(inst)], inst.operands[1:], b)
        calls.added([new])
        keep_order(inst, new)
        inst.replace_all_uses_with(b.relaid(b.element(new, 0), inst.shape))
        calls.remove(inst)


def _in_tuple(branch: Computation) -> Computation:
    copy = clone_computation(branch)
    copy.set_root(Builder(copy, copy.root).tuple(copy.root))
    return copy
