"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.effects import Effects
from hlo.analysis.memory import shape_bytes
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.types import ArrayShape

# Two barriers are two on purpose: they keep what is recomputed after one apart from the original.
_KEPT_APART = frozenset({"parameter", "opt-barrier"})


@module_pass
def cse(
    module: Module,
    rewrites: Rewrites,
    *,
    is_layout_sensitive: bool = True,
    only_scalars: bool = False,
    unshared_bytes: int = 0,
) -> None:
    """Compute once what is computed several times: equal operations on equal operands.

    Computations are equal when their results are computed equally, constants when their bits are.
    Random state, side effects and control edges keep instructions apart, as every annotation but
    metadata does. Where layouts do not matter, what is equal but for its layout becomes a copy.
    unshared_bytes: broadcasts of at least so many bytes are made for each user, which is cheaper
    than to keep them in memory from one to the next; 0 shares them all. What is computed of them is
    shared all the same.
    """
    congruence, effects = Congruence(module), Effects(module)

    def is_shared(inst: Instruction) -> bool:
        if only_scalars and not (isinstance(inst.shape, ArrayShape) and inst.shape.is_scalar):
            return False
        return inst.opcode != "broadcast" or not 0 < unshared_bytes <= shape_bytes(inst.shape)

    for comp in unfused(module):
        _merge(comp, congruence, effects, rewrites, is_layout_sensitive, is_shared)


def _merge(
    comp: Computation,
    congruence: Congruence,
    effects: Effects,
    rewrites: Rewrites,
    layouts: bool,
    is_shared: Callable[[Instruction], bool],
) -> None:
    numbers: dict[Instruction, int] = {}
    first: dict[Hashable, Instruction] = {}
    for number, inst in enumerate(comp.in_order()):
        numbers[inst] = number
        if inst.opcode in _KEPT_APART or has_control_edges(inst) or not effects.is_function(inst):
            continue
        key = congruence.value(inst, layouts=layouts), congruence.operands(inst, numbers)
        same = first.setdefault(key, inst)
        if same is inst:
            continue
        numbers[inst] = numbers[same]
        if effects.is_removable(inst) or not is_shared(inst) or not rewrites.allow("cse", inst):
            continue
        new = Builder(comp, inst).relaid(same, inst.shape)
        numbers[new] = numbers[same]
        inst.replace_all_uses_with(new)
        comp.remove(inst)
