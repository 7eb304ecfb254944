"""Sums over devices of sums over devices."""

from __future__ import annotations

from hlo.analysis.congruence import Congruence
from hlo.analysis.patterns import applies, single_binary_op
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.ops.collective.device_groups import CROSS_BOTH, group_mode
from hlo.passes.collectives._collective import is_movable, meeting, next_channel, rounds
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode, replace_instruction, unfused
from hlo.values.sharding.replica_groups import ListedGroups


@module_pass
def all_reduce_folder(module: Module, rewrites: Rewrites) -> None:
    """Merge an all-reduce over rows of devices and one over columns into one over larger groups."""
    if not has_opcode(module, ("all-reduce",)):
        return
    congruence, channel = Congruence(), next_channel(module)
    for comp in unfused(module):
        for inst in comp.in_order():
            groups = _folded_groups(inst, congruence)
            if groups is None:
                continue
            exact = applies(inst.to_apply, Trait.ASSOCIATIVE)
            approximate = not exact and rounds([inst])
            if rewrites.allow("all_reduce_folder.fold", inst, approximate=approximate):
                channel += _fold(comp, inst, groups, channel)


def _fold(comp: Computation, inst: Instruction, groups: ListedGroups, channel: int) -> int:
    """Replace two all-reduces by one; returns how many new channel ids it used."""
    inner = inst.operands[0]
    attrs, takes = {**inner.attrs, "replica_groups": groups}, inner.channel_id is not None
    if takes:
        attrs["channel_id"] = channel
    b = Builder(comp, inst)
    new = b.op("all-reduce", inner.operands[0], **attrs)
    new.annotations.update({k: v for k, v in inst.annotations.items() if k != "metadata"})
    replace_instruction(inst, new, b.built)
    comp.remove(inst)
    comp.remove(inner)
    return int(takes)


def _folded_groups(inst: Instruction, congruence: Congruence) -> ListedGroups | None:
    """Return the groups of an all-reduce equivalent to two in sequence, None if there is none."""
    if inst.opcode != "all-reduce" or inst.operands[0].opcode != "all-reduce":
        return None
    inner = inst.operands[0]
    if inner.num_users > 1 or inner.is_root or not is_movable(inst) or not is_movable(inner):
        return None
    if single_binary_op(inst.to_apply) is None:
        return None
    if group_mode(inst) == CROSS_BOTH:
        return None  # the partitions would meet twice
    first, second = (meeting(i, congruence, without=("replica_groups",)) for i in (inner, inst))
    named = [i.replica_groups.lists() for i in (inner, inst)]
    if first != second or not all(named):
        return None
    found = _fold_groups(*named)
    return None if found is None else ListedGroups(found)


def _fold_groups(
    first: tuple[tuple[int, ...], ...], second: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...] | None:
    """Return the combined groups, if each pair of members meets exactly once."""
    group_of = {device: group for group in first for device in group}
    found: set[tuple[int, ...]] = set()
    for group in second:
        if any(device not in group_of for device in group):
            return None
        members = [other for device in group for other in group_of[device]]
        if len(set(members)) < len(members):
            return None  # what a device has would count twice
        found.add(tuple(sorted(members)))
    reached = [device for group in found for device in group]
    # The members of each set get the result of just that set.
    if len(set(reached)) < len(reached) or set(reached) != set(group_of):
        return None
    owner = {device: group for group in found for device in group}
    if any(owner[d] != owner[group[0]] for group in second for d in group):
        return None
    return tuple(sorted(found))
