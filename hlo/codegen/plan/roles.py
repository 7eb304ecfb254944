"""Code generation's fusion: `hlo.analysis.fusion`, applied to a flattened computation tree.

The only change to the tree is for multi-output kernels: a tuple of the results, marked as the
kernel that computes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass

from hlo.analysis.fusion.chains import USUAL_CHAINS, ChainLimits, absorb_chains
from hlo.analysis.fusion.endings import absorb_endings, absorb_reductions
from hlo.analysis.fusion.limits import USUAL, FusionLimits
from hlo.analysis.fusion.operations import MULTI_OUTPUT
from hlo.analysis.fusion.roles import Role, roles_in
from hlo.analysis.fusion.rows import USUAL_ROWS, RowLimits, absorb_rows
from hlo.analysis.fusion.siblings import Group, sibling_groups
from hlo.codegen.loops.on_demand import is_rare
from hlo.codegen.plan.tree import computations_of
from hlo.ir import Computation, Instruction
from hlo.values.types import TupleShape


@dataclass(frozen=True)
class FusionRules:
    """What is fused for a machine.

    chains: which products are fused into the kernels that use them, None for no products. The
    fusions of passes have none. endings: whether products are fused into kernels that compute
    something of each element of their results. rows: which rows are computed by one kernel. limits:
    when values are computed in the kernels that use them. joins_reduction: which reductions may be
    one kernel with others.
    """

    chains: ChainLimits | None = USUAL_CHAINS
    endings: bool = False
    rows: RowLimits = USUAL_ROWS
    limits: FusionLimits = USUAL
    joins_reduction: Callable[[Instruction], bool] = lambda _: False


_USUAL_RULES = FusionRules()


def assign_roles(entry: Computation, rules: FusionRules = _USUAL_RULES) -> dict[Instruction, Role]:
    """Return the role of every instruction of a flattened computation tree."""
    roles: dict[Instruction, Role] = {}
    for comp in computations_of(entry):
        own = roles_in(comp, limits=rules.limits)
        absorb_rows(comp, own, rules.rows)
        if rules.chains is not None:
            absorb_chains(comp, own, rules.chains)
        if rules.endings:
            absorb_endings(comp, own)
        roles |= own
    return roles


def fuse_siblings(
    entry: Computation, roles: dict[Instruction, Role], rules: FusionRules = _USUAL_RULES
) -> dict[Instruction, Role]:
    """Fuse kernels that read the same arrays; returns the roles in the new tree."""
    if any([_fuse_siblings(comp, roles, rules) for comp in computations_of(entry)]):
        return assign_roles(entry, rules)
    return roles


def end_reductions(
    entry: Computation, roles: MutableMapping[Instruction, Role], rules: FusionRules
) -> None:
    """Fuse reductions into the kernels that compute something of each element of their results."""
    if rules.endings:
        for comp in computations_of(entry):
            absorb_reductions(comp, roles)


def _fuse_siblings(
    comp: Computation, roles: Mapping[Instruction, Role], rules: FusionRules
) -> bool:
    """Fuse each group of siblings in a computation; True if there are any."""
    position = {inst: n for n, inst in enumerate(comp.in_order())}
    groups = sibling_groups(
        comp, roles, is_rare, joins_reduction=rules.joins_reduction, limits=rules.limits
    )
    for group in groups:
        _join(comp, group, position)
    if groups:
        comp.reorder(_sorted(position))
    return bool(groups)


def _join(comp: Computation, group: Group, position: dict[Instruction, int]) -> None:
    members = group.members
    shape = TupleShape(tuple(m.shape for m in members))
    last = members[-1]
    joint = comp.add(
        Instruction(
            last.name, "tuple", shape, members, annotations={MULTI_OUTPUT: True}, span=last.span
        )
    )
    position[joint] = position[last]
    for number, member in enumerate(members):
        outside = [u for u in member.users if u is not joint and u not in group.nodes]
        if not outside:
            continue
        result = Instruction(
            member.name, "get-tuple-element", member.shape, [joint], {"index": number}
        )
        position[comp.add(result)] = position[last]
        for user in outside:
            for n, operand in enumerate(user.operands):
                if operand is member:
                    user.replace_operand(n, result)


def _sorted(position: Mapping[Instruction, int]) -> list[Instruction]:
    """Return instructions in a valid order, close to their positions."""
    waits = {inst: len(set(inst.predecessors())) for inst in position}
    numbered = {inst: n for n, inst in enumerate(position)}
    ready = [(position[i], numbered[i], i) for i, count in waits.items() if not count]
    heapq.heapify(ready)
    order: list[Instruction] = []
    while ready:
        inst = heapq.heappop(ready)[2]
        order.append(inst)
        for after in dict.fromkeys((*inst.users, *inst.control_successors)):
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (position[after], numbered[after], after))
    assert len(order) == len(position)
    return order
