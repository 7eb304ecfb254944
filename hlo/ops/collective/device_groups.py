"""Participants of collectives: modes, groups, and the index of a device in its group.

Device number n of a run is partition n % P of replica n // P, where P is the number of partitions.
Source: XLA's `collective_ops_utils.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hlo.errors import InferError, TextError
from hlo.ops.attrs import INT_GROUPS
from hlo.ops.spec import EvalContext, OpView
from hlo.values.types import Shape

# Group modes: the kind of ids in replica groups.
CROSS_REPLICA = "cross_replica"
CROSS_PARTITION = "cross_partition"
CROSS_BOTH = "cross_replica_and_partition"
FLATTENED = "flattened_id"

Devices = Sequence[int]


def group_mode(op: OpView) -> str | None:
    """Return the group mode of a collective; None when its attributes contradict each other."""
    return implied_group_mode(op) if op.mode is None else op.mode


def implied_group_mode(op: OpView) -> str | None:
    """Return the group mode that a collective has by its other attributes than `mode`."""
    # Collectives without this attribute never mean global ids, which is not the same as not now.
    global_ids = op.use_global_device_ids
    if op.channel_id is None:
        return None if global_ids else CROSS_REPLICA
    if global_ids is None:
        return CROSS_PARTITION
    return FLATTENED if global_ids else CROSS_BOTH


def id_groups(op: OpView, device_counts: tuple[int, int]) -> tuple[Devices, ...]:
    """Return the groups of a collective as lists of ids, whose kind depends on the mode.

    device_counts: the numbers of replicas and of partitions. A permutation has one group, of the
    ids that its pairs name: the others neither send nor receive.
    """
    if "source_target_pairs" in op.attrs:
        named = {i for pair in op.source_target_pairs for i in pair}
        return (tuple(sorted(named)),) if named else ()
    groups: tuple[Devices, ...] = op.replica_groups.lists()
    if groups:
        return groups
    replicas, partitions = device_counts
    count = {CROSS_PARTITION: partitions, FLATTENED: replicas * partitions}.get(
        group_mode(op) or "", replicas
    )
    # Not listed: a module may say that it is for billions.
    return (range(count),)


def exchanges(op: OpView, device_counts: tuple[int, int]) -> bool:
    """True for a collective in which some device gets data of another one."""
    if "source_target_pairs" in op.attrs:
        return any(source != target for source, target in op.source_target_pairs)
    members = max(map(len, id_groups(op, device_counts)))
    across = device_counts[1] if group_mode(op) == CROSS_BOTH else 1
    return members * across > 1


def device_groups(op: OpView, device_counts: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of a collective as lists of devices, in group order.

    None are returned where they have more members in all than can be listed.
    """
    replicas, partitions = device_counts
    groups, mode = id_groups(op, device_counts), group_mode(op)
    across = {FLATTENED: 1, CROSS_PARTITION: replicas}.get(mode or "", partitions)
    if sum(map(len, groups)) * across > MOST_LISTED:
        return ()
    return tuple(map(tuple, _everywhere(groups, mode, device_counts)))


def device_number(ctx: EvalContext) -> int:
    """Return the number of the device that runs."""
    return int(ctx.host.replica_id * ctx.device_counts[1] + ctx.host.partition_id)


def group_of(op: OpView, ctx: EvalContext) -> tuple[Devices, int]:
    """Return the group of this device in a collective, in group order, and its index there.

    A device in no group is returned alone, with index -1.
    """
    replica, partition = ctx.host.replica_id, ctx.host.partition_id
    here = device_number(ctx)
    mode = group_mode(op)
    mine = {CROSS_PARTITION: partition, FLATTENED: here}.get(mode or "", replica)
    group = next((g for g in id_groups(op, ctx.device_counts) if mine in g), None)
    if group is None:
        return (here,), -1
    devices = _devices(group, mode, replica, partition, ctx.device_counts)
    # Groups are compared, however they were written; more than can run together never meet.
    members = tuple(devices) if len(devices) <= MOST_LISTED else devices
    return members, members.index(here)


def _devices(
    group: Devices, mode: str | None, replica: int, partition: int, device_counts: tuple[int, int]
) -> Devices:
    """Return the numbers of the devices that a group of ids means for a device."""
    replicas, partitions = device_counts
    if mode == FLATTENED:
        return group
    if isinstance(group, range):
        # All replicas, or all partitions, of which there may be billions.
        everyone = range(replicas * partitions)
        if mode == CROSS_PARTITION:
            return everyone[replica * partitions : (replica + 1) * partitions]
        return everyone if mode == CROSS_BOTH else everyone[partition::partitions]
    if mode == CROSS_PARTITION:
        return tuple(replica * partitions + p for p in group)
    if mode == CROSS_BOTH:
        return tuple(r * partitions + p for r in group for p in range(partitions))
    return tuple(r * partitions + partition for r in group)


def all_groups(op: OpView, device_counts: tuple[int, int]) -> list[Devices]:
    """Return the groups of a collective as numbers of devices, for all devices of a run.

    Of a permutation, each pair of source and target is a group.
    """
    ids: Sequence[Devices] = id_groups(op, device_counts)
    if "source_target_pairs" in op.attrs:
        ids = [tuple(pair) for pair in op.source_target_pairs]
    return _everywhere(ids, group_mode(op), device_counts)


def _everywhere(
    ids: Sequence[Devices], mode: str | None, device_counts: tuple[int, int]
) -> list[Devices]:
    """Return the groups of devices that groups of ids mean, on all devices of a run."""
    replicas, partitions = device_counts
    # The devices between whose ids the groups do not tell apart have the same groups each.
    rows = range(replicas) if mode == CROSS_PARTITION else range(1)
    everywhere = mode in (CROSS_PARTITION, CROSS_BOTH, FLATTENED)
    columns = range(1) if everywhere else range(partitions)
    return [
        _devices(group, mode, row, column, device_counts)
        for row in rows
        for column in columns
        for group in ids
    ]


# The attribute of the front end that says which devices a send or receive is for.
_PAIRS = "_xla_send_recv_source_target_pairs"


class Line(NamedTuple):
    """A channel from one device to another."""

    channel: int
    source: int
    target: int


def line_of(op: OpView, ctx: EvalContext, *, sends: bool) -> Line | None:
    """Return the channel on which this device sends or receives, for an operation that names
    devices.

    None if it has none. Raises InferError for an attribute that cannot be read.
    """
    try:
        pairs = INT_GROUPS.parse(op.annotations["frontend_attributes"][_PAIRS])
    except TextError as e:
        raise InferError(f"{op.opcode}: {_PAIRS}: {e.message}", attr="frontend_attributes",
                         code="bad-value") from None  # fmt: skip
    _, partitions = ctx.device_counts
    replica, partition = ctx.host.replica_id, ctx.host.partition_id
    if any(len(pair) != 2 for pair in pairs):
        raise InferError(f"{op.opcode}: {_PAIRS} are not pairs", attr="frontend_attributes",
                         code="bad-value")  # fmt: skip
    channel = op.channel_id or 0
    across_partitions = channel > 0
    mine = partition if across_partitions else replica
    found = next((p for p in pairs if p[0 if sends else 1] == mine), None)
    if found is None:
        return None
    if across_partitions:
        source, target = (replica * partitions + p for p in found)
    else:
        source, target = (r * partitions + partition for r in found)
    if source != target:
        need_devices(op, (source, target), ctx)
    return Line(channel, source, target)


def names_devices(op: OpView) -> bool:
    """True for a send or receive between devices that are named."""
    return _PAIRS in op.annotations.get("frontend_attributes", ())


# A group of all devices of a module is a list up to here, else a range.
MOST_LISTED = 1 << 16
# Errors name so many devices.
_MOST_NAMED = 16


def need_devices(op: OpView, devices: Devices, ctx: EvalContext) -> None:
    """Raise InferError unless the run has all of some devices."""
    replicas, partitions = ctx.device_counts
    ends = (devices[0], devices[-1]) if isinstance(devices, range) else devices
    exist = 0 <= min(ends) and max(ends) < replicas * partitions
    if ctx.host.exchange is not None and exist:
        return
    has = "one device"
    if ctx.host.exchange is not None:
        has = f"{replicas} x {partitions} devices (replicas, partitions)"
    raise absent_devices(op.opcode, devices, has)


def absent_devices(opcode: str, devices: Devices, has: str) -> InferError:
    """Return the error of a collective between devices that a run has not. has: what it has.

    devices: none where they are too many.
    """
    numbers = ", ".join(map(str, devices[:_MOST_NAMED])) or "(more than can be listed)"
    if len(devices) > _MOST_NAMED:
        numbers += f", ... ({len(devices)} in all)"
    return _absent(opcode, f"it exchanges data between devices {numbers}, and the run has {has}")


def need_operand_each(op: OpView, members: int) -> None:
    """Raise InferError unless an all-to-all of whole operands has one for each group member."""
    count = len(op.operand_shapes)
    if op.split_dimensions is None and count != members:
        raise InferError(
            f"{op.opcode}: it has {count} operands, a group of {members}",
            attr="replica_groups", code="bad-replica-groups",
        )  # fmt: skip


def wrong_result(op: OpView, members: int, found: object, declared: Shape) -> InferError:
    """Return the error of a collective whose declared result is not for a group of its size.

    found: what such a group gives instead.
    """
    message = f"a group of {members} gives {found}, the result is {declared.to_string(False)}"
    if members == 1:
        return _absent(op.opcode, message)
    return InferError(f"{op.opcode}: {message}", code="bad-replica-groups")


def _absent(opcode: str, message: str) -> InferError:
    """Return the error of a collective in which data would come from devices that are not there."""
    return InferError(
        f"{opcode}: {message}", code="unsupported-participants",
        hint="replica_count and num_partitions of the module say for how many it is; hlo-run "
        "(--num-replicas) and hlo.Client run it on several",
    )  # fmt: skip
