"""Calls within calls that make a run endless in practice."""

from __future__ import annotations

from hlo.errors import HloError
from hlo.ir import Module

# Minutes for the interpreter, and more than code generation copies.
_MAX_STEPS = 1 << 26


def need_few_calls(module: Module) -> None:
    """Raise HloError (`too-large`) if calls alone, without loops, run too many instructions."""
    if len(module.computations) < 2:
        return
    times = dict.fromkeys(module.computations, 0)
    times[module.entry] = 1
    steps = 0
    for comp in reversed(module.callees_first()):
        steps += times[comp] * len(comp)
        for inst in comp.call_sites:
            for callee in inst.called_computations:
                times[callee] += times[comp]
    if steps > _MAX_STEPS:
        raise HloError.at(
            "too-large",
            f"calls within calls make {module.name} run {steps} instructions, {_MAX_STEPS} are the "
            "most that the interpreter runs",
        )
