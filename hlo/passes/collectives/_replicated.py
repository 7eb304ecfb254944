"""Scalars that are functions of the device id alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hlo.errors import HloError
from hlo.eval import Host, Interpreter
from hlo.ir import Computation, Instruction
from hlo.ir.calls import copy_cone
from hlo.ops import Trait
from hlo.ops.collective.device_groups import (
    CROSS_PARTITION,
    CROSS_REPLICA,
    FLATTENED,
    Devices,
    group_mode,
)
from hlo.passes.collectives._collective import groups_in

_MOVES = frozenset({"bitcast", "broadcast", "concatenate", "dynamic-slice", "reshape", "slice"})
# Positions are found by few operations on few numbers, for few devices.
_MOST_STEPS = 64
_MOST_ELEMENTS = 4096
_MOST_DEVICES = 1024


def by_device(inst: Instruction) -> Sequence[int] | None:
    """Return the integer that a scalar is on each device, by number; None if that is not known."""
    comp = inst.parent
    assert comp is not None and comp.module is not None
    counts = comp.module.device_counts
    if prod(counts) > _MOST_DEVICES or not _is_known(inst):
        return None
    alone = Computation("position")
    made: dict[Instruction, Instruction] = {}
    copy_cone(comp, alone, made, [inst])
    alone.set_root(made[inst])
    found = []
    for device in range(prod(counts)):
        host = Host()
        host.begin(device, counts, None)
        try:
            found.append(int(np.asarray(Interpreter(host).call(alone, []))))
        except HloError:
            return None
    return found


def parts_by_place(inst: Instruction, collective: Instruction) -> int | None:
    """Return the dimension along which each device of a collective slices its own part of the
    result.

    inst: a dynamic slice of the result, in which the n-th member of a group must take the n-th
    part of as many as there are members. None for other slices.
    """
    whole, part = collective.array_shape.dims, inst.array_shape.dims
    cut = [d for d, (n, m) in enumerate(zip(whole, part, strict=True)) if n != m]
    assert inst.parent is not None and inst.parent.module is not None
    # Which id each device has in the groups.
    ids = _ids(group_mode(collective), inst.parent.module.device_counts)
    if len(cut) != 1 or ids is None:
        return None
    (dim,), groups = cut, groups_in(collective)
    if {len(g) * part[dim] for g in groups} != {whole[dim]}:
        return None
    place = {device: n for group in groups for n, device in enumerate(group)}
    wanted = [place.get(i, -1) * part[dim] for i in ids]
    starts = by_device(inst.operands[1 + dim])
    return dim if starts is not None and list(starts) == wanted else None


def _ids(mode: str | None, device_counts: tuple[int, int]) -> Devices | None:
    replicas, partitions = device_counts
    devices = range(replicas * partitions)
    if mode == CROSS_REPLICA:
        return tuple(n // partitions for n in devices)
    if mode == CROSS_PARTITION:
        return tuple(n % partitions for n in devices)
    return tuple(devices) if mode == FLATTENED else None


def is_constant(inst: Instruction) -> bool:
    """True for values computed from constants alone, which are equal on all devices."""
    return _is_known(inst, leaves=Trait.NONE)


def _is_known(inst: Instruction, leaves: Trait = Trait.DEVICE_ID) -> bool:
    todo, seen = [inst], set()
    while todo:
        step = todo.pop()
        if step in seen:
            continue
        seen.add(step)
        shape = step.shape
        if len(seen) > _MOST_STEPS or not shape.is_array or step.called_computations:
            return False
        if step.array_shape.num_elements > _MOST_ELEMENTS or step.shape.is_dynamic:
            return False
        known = step.opcode == "constant" or step.spec.has(leaves) or step.opcode in _MOVES
        if not known and not step.spec.has(Trait.ELEMENTWISE):
            return False
        todo.extend(step.operands)
    return True
