"""Collectives as the one device of a run sees them.

The interpreter runs one device. A collective has a value there when every group that the device is
in holds that device alone; with other participants it is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.outside import zeros
from hlo.ops.spec import EvalContext, OpView
from hlo.types import Shape, TupleShape

# How the ids of replica groups are meant. Source: XLA's `collective_ops_utils.h`.
CROSS_REPLICA = "cross_replica"
CROSS_PARTITION = "cross_partition"
CROSS_BOTH = "cross_replica_and_partition"
FLATTENED = "flattened_id"


def group_mode(attrs: Mapping[str, Any]) -> str | None:
    """Return how a collective's ids are meant; None when its attributes contradict each other."""
    if attrs.get("mode") is not None:
        return str(attrs["mode"])
    # Collectives without this attribute never mean global ids, which is not the same as not now.
    global_ids = attrs.get("use_global_device_ids")
    if attrs.get("channel_id") is None:
        return None if global_ids else CROSS_REPLICA
    if global_ids is None:
        return CROSS_PARTITION
    return FLATTENED if global_ids else CROSS_BOTH


def need_alone(op: OpView, ctx: EvalContext) -> None:
    """Raise InferError unless this device is the only member of its replica group."""
    size = _group_size(op, ctx)
    if size != 1:
        raise more_participants(op, f"a group of {size} devices")


def more_participants(op: OpView, who: str) -> InferError:
    """Return the error of a collective in which data would come from other devices."""
    return InferError(
        f"{op.opcode}: {who} exchanges data, a program here runs on one device",
        code="unsupported-participants",
    )


def largest_group(op: OpView, device_counts: tuple[int, int]) -> int:
    """Return how many devices exchange data in the largest group of a collective.

    device_counts: the numbers of replicas and partitions that the module is for.
    """
    mode = group_mode(op.attrs)
    replicas, partitions = device_counts
    count = {CROSS_PARTITION: partitions, FLATTENED: replicas * partitions}.get(
        mode or "", replicas
    )
    groups = op.attrs["replica_groups"].lists()
    if groups:
        count = max(map(len, groups))
    return count * partitions if mode == CROSS_BOTH else count


def _group_size(op: OpView, ctx: EvalContext) -> int:
    mode = group_mode(op.attrs)
    replicas, partitions = ctx.device_counts
    host = ctx.host
    count, mine = {
        CROSS_PARTITION: (partitions, host.partition_id),
        FLATTENED: (replicas * partitions, host.replica_id * partitions + host.partition_id),
    }.get(mode or "", (replicas, host.replica_id))
    groups = op.attrs["replica_groups"].lists()
    if groups:
        group = next((g for g in groups if mine in g), None)
        if group is None:
            raise InferError(
                f"{op.opcode}: device {mine} is in no replica group", attr="replica_groups",
                code="bad-replica-groups",
            )  # fmt: skip
        count = len(group)
    return count * partitions if mode == CROSS_BOTH else count


def one_or_all(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return the operands unchanged: what a group of one gathers, reduces, scatters or swaps."""
    need_alone(op, ctx)
    for i, got in enumerate(op.operand_shapes):
        want = op.shape.elements[i] if isinstance(op.shape, TupleShape) else op.shape
        if got.to_string(False) != want.to_string(False):
            raise more_participants(op, f"{got.to_string(False)} to {want.to_string(False)}: it")
    return args[0] if len(args) == 1 else tuple(args)


def all_gather_start(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return `(operands, gathered operands, contexts...)`."""
    need_alone(op, ctx)
    assert isinstance(op.shape, TupleShape)
    if op.shape.elements[0].to_string(False) != op.shape.elements[1].to_string(False):
        raise more_participants(op, f"a result of shape {op.shape.to_string(False)}")
    data = args[0] if len(args) == 1 else tuple(args)
    return data, data, *map(zeros, op.shape.elements[2:])


# --- permutation ----------------------------------------------------------------------------------


def _receives(op: OpView, ctx: EvalContext) -> bool:
    """True when this device sends to itself, False when it takes no part."""
    across_replicas = group_mode(op.attrs) == CROSS_REPLICA
    mine = ctx.host.replica_id if across_replicas else ctx.host.partition_id
    for source, target in op.attrs["source_target_pairs"]:
        if mine in (source, target) and source != target:
            raise more_participants(op, f"the pair {{{source},{target}}}")
    return any(target == mine for _, target in op.attrs["source_target_pairs"])


def _permuted(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    receives = _receives(op, ctx)
    if op.attrs["slice_sizes"]:
        sizes = iter(op.attrs["slice_sizes"])
        return _update(op, args, sizes) if receives else args[1]
    data = args[0] if len(args) == 1 else tuple(args)
    # A device that nobody sends to gets zeros.
    return data if receives else zeros(_as_one(op.operand_shapes))


def _as_one(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def _update(op: OpView, args: Sequence[Any], sizes: Any) -> Any:
    """Return the output buffer with slices of the input buffer written into it."""
    source, target, source_offsets, target_offsets = args
    if isinstance(target, tuple):
        parts = zip(source, target, source_offsets, target_offsets, strict=True)
        return tuple(_update(op, part, sizes) for part in parts)
    result = target.copy()
    nested = bool(source_offsets) and isinstance(source_offsets[0], tuple)
    pairs = zip(source_offsets, target_offsets, strict=True) if nested else None
    for from_, to in pairs or [(source_offsets, target_offsets)]:
        size = next(sizes)
        result[_window(op, result, to, size)] = source[_window(op, source, from_, size)]
    return result


def _window(
    op: OpView, array: np.ndarray, offsets: Sequence[Any], sizes: Sequence[int]
) -> tuple[slice, ...]:
    starts = [int(o) for o in offsets]
    fits = len(starts) == len(sizes) == array.ndim and all(
        0 <= at and at + n <= limit for at, n, limit in zip(starts, sizes, array.shape, strict=True)
    )
    if not fits:
        raise InferError(
            f"{op.opcode}: a slice of {list(sizes)} at {starts} is outside {list(array.shape)}",
            code="index-out-of-range",
        )
    return tuple(slice(at, at + n) for at, n in zip(starts, sizes, strict=True))


def collective_permute(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return what this device receives."""
    return _permuted(op, args, ctx)


def collective_permute_start(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return `(sent, received, contexts...)`."""
    assert isinstance(op.shape, TupleShape)
    in_place = bool(op.attrs["slice_sizes"])
    sent = args[0] if in_place or len(args) == 1 else tuple(args)
    return sent, _permuted(op, args, ctx), *map(zeros, op.shape.elements[2:])


# --- the others -----------------------------------------------------------------------------------


def collective_broadcast(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return the operands, which are those of the root when the group is this device alone."""
    need_alone(op, ctx)
    data = args[:-1] if op.attrs["has_dynamic_root"] else args
    return data[0] if len(data) == 1 else tuple(data)


def ragged_all_to_all(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    """Return the output operand with this device's updates to itself written into it, in order."""
    need_alone(op, ctx)
    source, target, source_offsets, sizes, target_offsets, _ = args
    result = target.copy()
    for at, size, to in zip(
        *(a.reshape(-1).tolist() for a in (source_offsets, sizes, target_offsets)), strict=True
    ):
        whole, rest = (size, *source.shape[1:]), (0,) * (source.ndim - 1)
        if size < 0:
            raise InferError(f"{op.opcode}: send size {size} is negative", code="bad-value")
        result[_window(op, result, (to, *rest), whole)] = source[
            _window(op, source, (at, *rest), whole)
        ]
    return result
