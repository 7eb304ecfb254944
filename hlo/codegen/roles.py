"""Where the value of each instruction of a computation tree is computed."""

from __future__ import annotations

from hlo.codegen.fusion import Role, roles_in
from hlo.codegen.rows import absorb_rows
from hlo.codegen.siblings import join_siblings
from hlo.codegen.tree import computations_of
from hlo.ir import Computation, Instruction


def assign_roles(entry: Computation) -> dict[Instruction, Role]:
    """Return the role of every instruction of a flattened computation tree."""
    roles: dict[Instruction, Role] = {}
    for comp in computations_of(entry):
        own = roles_in(comp)
        absorb_rows(comp, own)
        roles |= own
    return roles


def fuse_siblings(entry: Computation, roles: dict[Instruction, Role]) -> dict[Instruction, Role]:
    """Make one kernel of several that read the same arrays; returns the roles in the new tree."""
    if any([join_siblings(comp, roles) for comp in computations_of(entry)]):
        return assign_roles(entry)
    return roles
