"""Attributes and checks shared by collectives."""

from __future__ import annotations

from dataclasses import replace

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, INT, Attr, Codec, enum
from hlo.ops.collective.device_groups import (
    CROSS_BOTH,
    CROSS_PARTITION,
    CROSS_REPLICA,
    FLATTENED,
    implied_group_mode,
)
from hlo.ops.rules import array_operands, need_tuple, tuple_or_single
from hlo.ops.spec import OpView, Trait
from hlo.values.sharding import replica_groups
from hlo.values.types import S32, ArrayShape, Shape, TupleShape

REPLICA_GROUPS = Codec("replica groups", replica_groups.read, replica_groups.write)

TRAITS = Trait.COLLECTIVE | Trait.NO_FOLD
CHANNEL = {"channel_id": Attr(INT)}
GROUPS = {
    **CHANNEL,
    "replica_groups": Attr(REPLICA_GROUPS, default=replica_groups.ALL, always=True),
}
CONSTRAINED = {**GROUPS, "constrain_layout": Attr(BOOL, default=False)}
GLOBAL_IDS = {"use_global_device_ids": Attr(BOOL, default=False)}
MODE = {"mode": Attr(enum(CROSS_REPLICA, CROSS_PARTITION, CROSS_BOTH, FLATTENED))}


def part_of_result(op: OpView, result: Shape, index: int, count: int, rank: int) -> ArrayShape:
    """Return the array of the declared result for one operand."""
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


def infer_rooted(op: OpView) -> Shape:
    """Return the shape of the data, without a dynamic root after it."""
    operands = array_operands(op)
    if not op.has_dynamic_root:
        return tuple_or_single(operands)
    *data, roots = operands
    if not data:
        raise InferError(
            f"{op.opcode}: a dynamic root is an operand after the data",
            attr="has_dynamic_root", code="operand-count",
        )  # fmt: skip
    # One element for each array: the place of the root in its group.
    if roots.element_type is not S32 or roots.num_elements not in (1, len(data)) or roots.rank > 1:
        raise InferError(
            f"{op.opcode}: the roots have shape {roots.to_string(False)}, "
            f"s32[{len(data)}] is needed",
            operand=len(data),
        )
    return tuple_or_single(data)


# --- groups that no number of devices makes right -------------------------------------------------

# Collectives whose groups may differ in size.
UNEVEN = frozenset({"all-reduce", "all-reduce-start"})
# Collectives that devices may be left out of: those get zeros.
PARTIAL = frozenset({"collective-broadcast", "collective-reduce"})


def need_groups(op: OpView) -> None:
    """Check replica groups for what does not depend on how many devices a module is for.

    That is: no group is empty, the ids are 0 and so on, each once, where none may be left out;
    groups are of one size, and data is split or joined in as many parts as that. The `verify` rule
    of collectives with groups.
    """
    mode = implied_group_mode(op)
    if mode is None:
        raise InferError(
            f"{op.opcode}: use_global_device_ids needs a channel_id", attr="use_global_device_ids",
            code="bad-replica-groups",
        )  # fmt: skip
    if op.mode not in (None, mode):
        raise InferError(
            f"{op.opcode}: mode is {op.mode}, channel_id and use_global_device_ids say "
            f"{mode}", attr="mode", code="bad-replica-groups", xla="goes by those",
        )  # fmt: skip
    lists = op.replica_groups.lists()
    least = min((i for group in lists for i in group), default=0)
    if least < 0:
        # Where devices may be left out, XLA asks nothing of the ids.
        taken = "does not look at the ids of this one" if op.opcode in PARTIAL else None
        raise InferError(
            f"{op.opcode}: {least} in the replica groups is not an id", attr="replica_groups",
            code="bad-replica-groups", xla=taken,
            hint="ids begin at 0; XLA's parser reads others, its verifier refuses them",
        )  # fmt: skip
    problem = _groups_problem(op, lists, mode)
    if problem is None and lists and mode != CROSS_BOTH:
        problem = parts_problem(op, len(lists[0]))
    if problem is not None:
        raise InferError(
            f"{op.opcode}: {problem}", attr="replica_groups", code="bad-replica-groups"
        )


def _groups_problem(op: OpView, lists: tuple[tuple[int, ...], ...], mode: str) -> str | None:
    if not lists:
        return "flattened ids need replica groups" if mode == FLATTENED else None
    seen: set[int] = set()
    for group in lists:
        if not group:
            return "a replica group is empty"
        for i in group:
            if i in seen:
                return f"{i} is in the replica groups twice"
            seen.add(i)
    for i in range(len(seen)):
        if i not in seen and op.opcode not in PARTIAL:
            return f"the replica groups have {len(seen)} ids, {i} is not one of them"
    if op.opcode not in UNEVEN and len({len(g) for g in lists}) > 1:
        return f"the replica groups of {op.opcode} differ in size"
    return None


def parts_problem(op: OpView, size: int) -> str | None:
    """Return the problem if the number of parts differs from the group size."""
    opcode, operands = op.opcode, op.operand_shapes
    dims = op.split_dimensions
    if opcode in ("all-gather", "all-gather-start", "reduce-scatter"):
        result = op.shape
        if opcode == "all-gather-start" and isinstance(result, TupleShape):
            result = result.elements[1]
        small, large = operands[0], _first(result)
        if opcode == "reduce-scatter":
            small, large = large, small
        parts = _ratio(large, small, dims)
        if parts is not None and size != 1 and parts != size:
            return f"a dimension is in {parts} parts, a group has {size} members"
    elif opcode == "all-to-all":
        if not dims and size != 1 and len(operands) != size:
            return f"it has {len(operands)} operands, a group has {size} members"
        split = operands[0]
        if dims and isinstance(split, ArrayShape) and split.dims[dims[0]] % size:
            return (
                f"dimension {dims[0]} of {split.to_string(False)} cannot be split over a group of "
                f"{size} members"
            )
    return None


def _first(shape: Shape) -> Shape:
    return shape.elements[0] if isinstance(shape, TupleShape) else shape


def _ratio(large: Shape, small: Shape, dims: tuple[int, ...] | None) -> int | None:
    """Return the size of a dimension of `large` divided by that of `small`, rounded up."""
    if not dims or not isinstance(large, ArrayShape) or not isinstance(small, ArrayShape):
        return None
    part = small.dims[dims[0]]
    return -(-large.dims[dims[0]] // part) if part > 0 else None
