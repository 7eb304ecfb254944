"""Shared helpers for passes that combine or replace collectives."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from functools import lru_cache

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.ir import Instruction, Module
from hlo.ops.collective.device_groups import MOST_LISTED, Devices, group_mode, id_groups
from hlo.values.sharding.replica_groups import ListedGroups, ReplicaGroups
from hlo.values.types import ArrayShape

# What XLA puts into frontend attributes to keep collectives of different groups apart counts as a
# note of the instruction; where they come from does not.
_OWN = frozenset({"channel_id", "constrain_layout"})


def is_movable(inst: Instruction) -> bool:
    """True for a collective on one array that another one may replace.

    Layouts that are constrained are agreed with other programs; shardings and control edges belong
    to the instruction itself.
    """
    return (
        len(inst.operands) == 1
        and isinstance(inst.shape, ArrayShape)
        and not inst.shape.is_dynamic
        and not inst.operands[0].array_shape.is_dynamic
        and not inst.constrain_layout
        and "sharding" not in inst.annotations
        and not has_control_edges(inst)
    )


def meeting(
    inst: Instruction, congruence: Congruence, *, without: Collection[str] = ()
) -> Hashable:
    """Return a key that equals for collectives of the same kind over the same devices.

    without: attributes that may differ. Channel ids are ignored, except whether there is one,
    which determines the group mode. Groups are compared by their members, independent of notation
    and order of groups; the order of members matters.
    """
    attrs = {k: v for k, v in inst.attrs.items() if k not in _OWN and k not in without}
    notes = {k: v for k, v in inst.annotations.items() if k not in ("metadata", "original_value")}
    mode = group_mode(inst) if "replica_groups" in inst.attrs else None
    channel = inst.channel_id is not None
    if "replica_groups" in attrs:
        attrs["replica_groups"] = _sorted_groups(_spelt_out(inst))
    return inst.opcode, mode, channel, congruence.hashable(attrs), congruence.hashable(notes)


def _spelt_out(inst: Instruction) -> ReplicaGroups:
    """Return the groups of a collective, also where one of all devices is not written."""
    groups = inst.replica_groups
    if groups.count:
        return groups
    (everyone,) = groups_in(inst)
    # Without device counts, "all devices" may be any number.
    if not 1 < len(everyone) <= MOST_LISTED:
        return groups
    return ListedGroups((tuple(everyone),))


@lru_cache(maxsize=64)  # a module has few, and each on many instructions
def _sorted_groups(groups: ReplicaGroups) -> tuple[Devices, ...]:
    return tuple(sorted(groups.lists()))


def next_channel(module: Module) -> int:
    """Return an unused channel id of a module."""
    used = (inst.channel_id or 0 for inst in module.instructions())
    return 1 + max(used, default=0)


def groups_in(inst: Instruction) -> tuple[Devices, ...]:
    """Return the groups of a collective as lists of ids, with the one of all devices spelt out."""
    assert inst.parent is not None and inst.parent.module is not None
    return id_groups(inst, inst.parent.module.device_counts)


def rounds(instructions: Iterable[Instruction]) -> bool:
    """True where any result is of floats or complex numbers, whose sums depend on the order."""
    return any(
        isinstance(shape, ArrayShape)
        and (shape.element_type.is_float or shape.element_type.is_complex)
        for inst in instructions
        for _, shape in inst.shape.leaves()
    )
