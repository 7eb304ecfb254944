"""Inlining of fusions."""

from __future__ import annotations

from hlo.ir import Module
from hlo.ir.calls import Calls
from hlo.passes.control_flow.call_inliner import inline_call
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def defuser(module: Module, rewrites: Rewrites) -> None:
    """Inline fusions, except asynchronous ones."""
    calls = Calls(module)
    wrapped = {
        c for i in module.instructions() if i.opcode == "async-start" for c in i.called_computations
    }
    for comp in module.callees_first():
        for inst in comp:
            if inst.opcode == "fusion" and comp not in wrapped and rewrites.allow("defuser", inst):
                inline_call(inst, calls)
