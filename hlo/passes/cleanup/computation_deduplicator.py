"""Merging of equivalent computations."""

from __future__ import annotations

from hlo.analysis.congruence import Congruence
from hlo.ir import Computation, Module
from hlo.ir.calls import Calls
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused


@module_pass
def computation_deduplicator(module: Module, rewrites: Rewrites) -> None:
    """Merge equivalent computations.

    Metadata and the order of instructions make no difference, layouts do. The bodies of fusions and
    of asynchronous operations belong to these.
    """
    congruence, calls = Congruence(), Calls(module)
    first: dict[int, Computation] = {}
    shared = [c for c in unfused(module) if c is not module.entry]
    for comp in shared:
        first.setdefault(congruence.number(comp), comp)
    same = {c: c for c in module.computations} | {c: first[congruence.number(c)] for c in shared}
    for inst in list(module.instructions()):
        if all(same[c] is c for c in inst.called_computations):
            continue
        if not rewrites.allow("computation_deduplicator", inst):
            return
        old = inst.called_computations
        for key in inst.spec.computation_attrs:
            value = inst.attrs[key]
            if isinstance(value, tuple):
                inst.attrs[key] = tuple(same[c] for c in value)
            elif value is not None:
                inst.attrs[key] = same[value]
        calls.added([inst])
        calls.forget(old)
