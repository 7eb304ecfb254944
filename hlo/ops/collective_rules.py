"""Attributes and checks that the operations over many devices share."""

from __future__ import annotations

from dataclasses import replace

from hlo import replica_groups
from hlo.errors import InferError
from hlo.ops import collective_eval as kernels
from hlo.ops.attrs import BOOL, INT, Attr, Codec, enum
from hlo.ops.rules import need_tuple
from hlo.ops.spec import OpView, Trait
from hlo.types import ArrayShape, Shape

REPLICA_GROUPS = Codec("replica groups", replica_groups.read, replica_groups.write)

TRAITS = Trait.COLLECTIVE | Trait.NO_FOLD
CHANNEL = {"channel_id": Attr(INT)}
GROUPS = {
    **CHANNEL,
    "replica_groups": Attr(REPLICA_GROUPS, default=replica_groups.ALL, always=True),
}
CONSTRAINED = {**GROUPS, "constrain_layout": Attr(BOOL, default=False)}
GLOBAL_IDS = {"use_global_device_ids": Attr(BOOL, default=False)}
MODE = {
    "mode": Attr(
        enum(
            kernels.CROSS_REPLICA,
            kernels.CROSS_PARTITION,
            kernels.CROSS_BOTH,
            kernels.FLATTENED,
        )
    )
}


def part_of_result(op: OpView, result: Shape, index: int, count: int, rank: int) -> ArrayShape:
    """Return the array that the declared result holds for one operand."""
    if count > 1:
        result = need_tuple(op, result, count, "the result").elements[index]
    if not isinstance(result, ArrayShape) or result.rank != rank:
        raise InferError(
            f"{op.opcode}: the result for operand {index} has shape {result.to_string(False)}, "
            f"an array of rank {rank} is needed"
        )
    return result


def resized(shape: ArrayShape, dim: int, size: int) -> ArrayShape:
    """Return a shape with another size of one dimension."""
    return replace(shape, dims=(*shape.dims[:dim], size, *shape.dims[dim + 1 :]))
