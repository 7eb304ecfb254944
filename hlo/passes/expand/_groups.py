"""Where the device that runs is in its replica group."""

from __future__ import annotations

import numpy as np

from hlo.expansions import Draft
from hlo.ir import Instruction
from hlo.ops.collective.device_groups import CROSS_PARTITION, CROSS_REPLICA, FLATTENED, group_mode
from hlo.values.types import U32


def place_in_group(d: Draft, inst: Instruction) -> Instruction | None:
    """Append the number of this device within its group of a collective, a scalar of u32.

    None where groups are of replicas and partitions at once. The groups must have one size.
    """
    assert inst.parent is not None and inst.parent.module is not None
    (replicas, partitions), mode = inst.parent.module.device_counts, group_mode(inst)
    if mode == CROSS_REPLICA:
        mine, count = d.op("replica-id"), replicas
    elif mode == CROSS_PARTITION:
        mine, count = d.op("partition-id"), partitions
    elif mode == FLATTENED:
        row = d.op("multiply", d.op("replica-id"), d.constant(U32, partitions))
        mine, count = d.op("add", row, d.op("partition-id")), replicas * partitions
    else:
        return None
    groups = inst.replica_groups.lists()
    if groups in ((), (tuple(range(count)),)):
        return mine
    places = np.zeros(1 + max(max(group) for group in groups), np.uint32)
    for group in groups:
        places[list(group)] = range(len(group))
    place = d.op("dynamic-slice", d.constant(U32, places), mine, dynamic_slice_sizes=(1,))
    return d.reshape(place, ())
