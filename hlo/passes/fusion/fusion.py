"""Producers, computed where their consumers need them."""

from __future__ import annotations

from hlo.analysis.bitcasts import is_bitcast
from hlo.analysis.effects import Effects
from hlo.analysis.fusion.roles import Role, roles_in
from hlo.ir import Instruction, Module
from hlo.ir.calls import Calls
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.fusion._kernels import is_opaque, members_of, with_constants
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse producers into the kernels that need them.

    The rules are those of code generation. What is cheap is computed in each kernel that reads it,
    what is expensive once; scalars, products and what is updated in place are not fused into
    others. Side effects, control edges and dynamic dimensions keep instructions out, and fusions
    that are there already stay as they are.
    """
    calls, effects = Calls(module), Effects()
    for comp in fusible_computations(module):
        roles = roles_in(comp, lambda inst: is_opaque(inst, effects))
        builder = FusionBuilder(comp, calls, effects)
        # Consumers first: they copy producers that later become fusions themselves. Scalars are no
        # kernels, but what they alone read of arrays is computed with them.
        for inst in reversed(comp.in_order()):
            if roles[inst] not in (Role.KERNEL, Role.SCALAR):
                continue
            members = members_of(inst, roles)
            if _is_fusion(members) and rewrites.allow("fusion", inst):
                builder.fuse(with_constants(members), [inst])
        builder.finish()


def _is_fusion(members: list[Instruction]) -> bool:
    """True for a kernel of several instructions.

    What is computed from constants alone is for constant folding to decide; bitcasts alone are no
    kernel.
    """
    inside = set(members)
    read = {o for m in members for o in m.operands if o not in inside}
    if all(o.opcode == "constant" for o in read):
        return False
    if sum(m.opcode != "constant" for m in members) < 2:
        return False
    return not all(map(is_bitcast, members))
