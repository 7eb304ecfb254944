"""A constant for each use."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def hlo_constant_splitter(module: Module, rewrites: Rewrites) -> None:
    """Clone constants for each user, for passes that treat users differently."""
    for comp in module.computations:
        for inst in comp:
            if inst.opcode != "constant" or has_control_edges(inst):
                continue
            for user in inst.users[1:]:
                if not rewrites.allow("hlo_constant_splitter", user):
                    return
                own = Builder(comp, inst).copy(inst, ())
                for n, operand in enumerate(user.operands):
                    if operand is inst:
                        user.replace_operand(n, own)
