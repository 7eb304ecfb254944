"""One caller for each computation."""

from __future__ import annotations

from hlo.errors import HloError
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls, clone_computation
from hlo.ops import Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites

# The copies of copies of a module are bounded in number.
_MAX_INSTRUCTIONS = 1_000_000


@module_pass
def flatten_call_graph(module: Module, rewrites: Rewrites) -> None:
    """Clone called computations so that each has a single caller.

    Functions that are applied to elements, and fusions, may be shared on. Raises HloError
    (`too-large`) when calls within calls make more than a million instructions.
    """
    sites: dict[Computation, list[tuple[Instruction, str, int]]] = {}
    for comp in module.computations:
        _add_sites(comp, sites)
    calls, size = Calls(module), sum(map(len, module.computations))
    for comp in reversed(module.callees_first()):
        for inst, key, at in sites.get(comp, ())[1:]:
            if not rewrites.allow("flatten_call_graph", inst):
                return
            size += len(comp)
            if size > _MAX_INSTRUCTIONS:
                raise HloError.at(
                    "too-large",
                    f"with a copy of what is called for each call, {module.name} has more than "
                    f"{_MAX_INSTRUCTIONS} instructions",
                    inst.span,
                )
            copy = clone_computation(comp)
            calls.added(copy)
            module.add(copy)
            _add_sites(copy, sites)
            old = inst.attrs[key]
            if isinstance(old, tuple):
                inst.attrs[key] = (*old[:at], copy, *old[at + 1 :])
            else:
                inst.attrs[key] = copy


def _add_sites(
    comp: Computation, sites: dict[Computation, list[tuple[Instruction, str, int]]]
) -> None:
    """Note where a computation names others that run as they are: attribute and place in it."""
    for inst in comp:
        if inst.spec.has(Trait.CONTROL_FLOW) or inst.opcode == "async-start":
            for key in inst.spec.computation_attrs:
                value = inst.attrs[key]
                for at, callee in enumerate(value if isinstance(value, tuple) else (value,)):
                    if callee is not None:
                        sites.setdefault(callee, []).append((inst, key, at))
