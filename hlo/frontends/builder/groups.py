"""What collectives share: groups of devices, and shapes of shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo.errors import InferError
from hlo.frontends.builder import tuples
from hlo.frontends.builder.core import XlaOp
from hlo.values.sharding.replica_groups import ListedGroups, ReplicaGroups
from hlo.values.types import Layout, Shape, TupleShape

Groups = ReplicaGroups | Sequence[Sequence[int]]


def groups_of(groups: Groups) -> ReplicaGroups:
    """Return groups of devices, which may be given as lists of ids."""
    if isinstance(groups, ReplicaGroups):
        return groups
    return ListedGroups(tuple(map(tuple, groups)))


def pairs_of(
    opcode: str, source_target_pairs: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], ...]:
    """Return pairs of ids in which no source and no target is twice. Raises InferError."""
    pairs = tuple(map(tuple, source_target_pairs))
    for pair in pairs:
        if len(pair) != 2:
            raise InferError(f"{opcode}: {pair} is not a pair of ids", code="bad-replica-groups")
    for what, ids in (("source", [p[0] for p in pairs]), ("target", [p[1] for p in pairs])):
        seen: set[int] = set()
        for i in ids:
            if i < 0 or i in seen:
                why = "is negative" if i < 0 else f"is the {what} of several pairs"
                raise InferError(f"{opcode}: device {i} {why}", code="bad-value")
            seen.add(i)
    return pairs


def split_tuple(name: str, operand: XlaOp) -> tuple[list[XlaOp], bool]:
    """Return the arrays of an array or of a tuple, and whether it is a tuple."""
    if not isinstance(operand.shape, TupleShape):
        return [operand], False
    if not operand.shape.elements:
        raise InferError(
            f"{name}: operand 0 is an empty tuple, at least one array is needed", operand=0
        )
    return tuples.elements(operand), True


def resized(
    name: str, parts: Sequence[XlaOp], dim: int, count: int, *, smaller: bool,
    layout: Layout | None,
) -> Shape:  # fmt: skip
    """Return the shapes with a dimension `count` times as large, or as small."""
    if count < 1:
        raise InferError(f"{name}: shard_count is {count}, at least 1 is needed",
                         code="bad-value")  # fmt: skip
    shapes: list[Shape] = []
    for i, part in enumerate(parts):
        shape = part.array_shape
        if not 0 <= dim < shape.rank:
            raise InferError(
                f"{name}: dimension {dim} is outside [0, {shape.rank})", operand=i,
                code="bad-dimension",
            )  # fmt: skip
        size = shape.dims[dim]
        if smaller and size % count:
            raise InferError(
                f"{name}: dimension {dim} of {shape.to_string(False)} does not divide into "
                f"{count} equal parts", operand=i, code="bad-dimension",
            )  # fmt: skip
        size = size // count if smaller else size * count
        part_shape = replace(shape, dims=(*shape.dims[:dim], size, *shape.dims[dim + 1 :]))
        shapes.append(part_shape.with_layout(layout) if layout is not None else part_shape)
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
