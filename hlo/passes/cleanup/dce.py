"""Dead code elimination."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Module
from hlo.passes.registry import idempotent, module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
@idempotent
def dce(module: Module, rewrites: Rewrites) -> None:
    """Remove instructions that no result and no side effect needs, and computations never called.

    Parameters stay: they are the signature. An infinite loop whose result is not used goes.
    """
    effects = Effects()
    for comp in module.computations:
        _sweep(comp, effects, rewrites)
    callers = {comp: len(calls) for comp, calls in module.callers().items()}
    # Callers first, so that what only a dropped computation calls goes too.
    for comp in reversed(module.callees_first()):
        if comp is module.entry or callers[comp]:
            continue
        if rewrites.allow("dce.computation", comp.root):
            module.remove(comp)
            for inst in comp:
                for callee in inst.called_computations:
                    callers[callee] -= 1


def _sweep(comp: Computation, effects: Effects, rewrites: Rewrites) -> None:
    """Remove from users to operands, so that one walk finds all."""
    for inst in reversed(comp.in_order()):
        if effects.is_removable(inst) and rewrites.allow("dce.instruction", inst):
            comp.remove(inst)
