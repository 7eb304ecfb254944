"""Semantics of collectives: from the operands of a group's members to the result of each member.

These are the only definitions. A group of one is evaluated locally; the members of a larger one
meet in a rendezvous (`hlo.host`), and the last to arrive evaluates for all. Members are in group
order: the order of the ids in `replica_groups`, for each replica its partitions in order, where
they all take part. Reductions combine in that order: `((m0 + m1) + m2) + ...`, each step as the
computation has it, in its types, so that every member gets the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.collective.device_groups import (
    group_of,
    id_groups,
    need_devices,
    need_operand_each,
    wrong_result,
)
from hlo.ops.host.outside import zeros
from hlo.ops.spec import EvalContext, Evaluate, OpView
from hlo.values.types import ArrayShape, Shape, TupleShape

Members = Sequence[Sequence[Any]]
"""The operands of each member of a group, in group order."""

Define = Callable[[OpView, Members, EvalContext], list[Any]]
"""Returns the result of each member. Raises InferError."""

Absent = Callable[[OpView, Sequence[Any]], Any]
"""Returns the result of a device that is in no group."""


def together(define: Define, absent: Absent | None = None) -> Evaluate:
    """Return the evaluation rule of a collective.

    absent: for collectives that a device in no group may run; without it that is an error.
    """

    def evaluate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
        devices, place = group_of(op, ctx)
        if place < 0:
            if absent is None:
                raise InferError(
                    f"{op.opcode}: device {devices[0]} is in no replica group",
                    attr="replica_groups", code="bad-replica-groups",
                )  # fmt: skip
            return absent(op, args)

        def results(members: Members) -> list[Any]:
            found = define(op, members, ctx)
            for value in found:
                _need_result(op, value, op.shape, len(members))
            return found

        if len(devices) == 1:
            return results([args])[0]
        need_devices(op, devices, ctx)
        return ctx.host.exchange.meet(op, devices, place, args, results)

    return evaluate


def _need_result(op: OpView, value: Any, shape: Shape, count: int) -> None:
    """Raise InferError if what a group of `count` members computes is not of the declared shape."""
    if isinstance(shape, TupleShape):
        for v, s in zip(value, shape.elements, strict=True):
            _need_result(op, v, s, count)
    elif isinstance(shape, ArrayShape) and value.shape != shape.dims and not shape.is_dynamic:
        raise wrong_result(op, count, list(value.shape), shape)


def _one_or_all(op: OpView, values: Sequence[Any]) -> Any:
    """Return values as the declared result: an array, or a tuple."""
    return tuple(values) if isinstance(op.shape, TupleShape) else values[0]


def _parts(op: OpView, array: np.ndarray, dim: int, count: int) -> list[np.ndarray]:
    """Return an array split along a dimension, one part per member."""
    if array.shape[dim] % count:
        raise InferError(
            f"{op.opcode}: dimension {dim} of {list(array.shape)} does not divide into {count} "
            "equal parts", code="bad-replica-groups",
        )  # fmt: skip
    return list(np.split(array, count, dim))


# --- gather, reduce -------------------------------------------------------------------------------


def _gathered(op: OpView, members: Members) -> list[np.ndarray]:
    (dim,) = op.dimensions
    return [np.concatenate(parts, dim) for parts in zip(*members, strict=True)]


def _all_gather(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    return [_one_or_all(op, _gathered(op, members))] * len(members)


def _all_gather_start(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    """Return `(operands, gathered operands, contexts...)`."""
    assert isinstance(op.shape, TupleShape)
    gathered, contexts = _gathered(op, members), list(map(zeros, op.shape.elements[2:]))
    whole = gathered[0] if len(gathered) == 1 else tuple(gathered)
    return [(m[0] if len(m) == 1 else tuple(m), whole, *contexts) for m in members]


def _reduced(op: OpView, members: Members, ctx: EvalContext) -> list[np.ndarray]:
    totals = list(members[0])
    # A reducer may have a different precision than its operands.
    types = [_dtype(shape) for shape in op.to_apply.parameter_shapes]
    for member in members[1:]:
        for n, pair in enumerate(zip(totals, member, strict=True)):
            args = [np.asarray(x).astype(t, copy=False) for x, t in zip(pair, types, strict=True)]
            found = ctx.apply(op.to_apply, args)
            totals[n] = np.asarray(found).astype(pair[0].dtype, copy=False)
    return totals


def _dtype(shape: Shape) -> np.dtype[Any]:
    assert isinstance(shape, ArrayShape)
    return shape.element_type.dtype


def _all_reduce(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    return [_one_or_all(op, _reduced(op, members, ctx))] * len(members)


def _reduce_scatter(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    (dim,) = op.dimensions
    totals = _reduced(op, members, ctx)
    parts = [_parts(op, total, dim, len(members)) for total in totals]
    return [_one_or_all(op, own) for own in zip(*parts, strict=True)]


all_gather = together(_all_gather)
all_gather_start = together(_all_gather_start)
all_reduce = together(_all_reduce)
reduce_scatter = together(_reduce_scatter)

# --- all-to-all -----------------------------------------------------------------------------------


def _all_to_all(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    """Member j gets part j of every member: operand j, or block j of the one operand."""
    count = len(members)
    if op.split_dimensions is None:
        need_operand_each(op, count)
        return list(zip(*members, strict=True))
    (dim,) = op.split_dimensions
    blocks = [_parts(op, array, dim, count) for (array,) in members]
    return [np.concatenate(own, dim) for own in zip(*blocks, strict=True)]


def _ragged_all_to_all(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    """Every member writes rows of its input into the outputs of the others, and its own.

    Each has equally many updates for every member, those for the first before those for the second.
    Where updates overlap, the later member's are written later.
    """
    count = len(members)
    results = [member[1].copy() for member in members]
    for source, _, source_offsets, sizes, target_offsets, _ in members:
        tables = [a.reshape(-1).tolist() for a in (source_offsets, sizes, target_offsets)]
        updates = len(tables[0])
        if updates % count:
            raise InferError(
                f"{op.opcode}: {updates} updates do not divide evenly among {count} members",
                operand=2, code="bad-replica-groups",
            )  # fmt: skip
        for n, (at, size, to) in enumerate(zip(*tables, strict=True)):
            result = results[n * count // updates]
            whole, rest = (size, *source.shape[1:]), (0,) * (source.ndim - 1)
            if size < 0:
                raise InferError(
                    f"{op.opcode}: send size {size} is negative", code="index-out-of-range"
                )
            result[_window(op, result, (to, *rest), whole)] = source[
                _window(op, source, (at, *rest), whole)
            ]
    return results


all_to_all = together(_all_to_all)
ragged_all_to_all = together(_ragged_all_to_all)

# --- broadcast, permutation -----------------------------------------------------------------------


def _roots(op: OpView, members: Members) -> tuple[list[int], list[Sequence[Any]]]:
    """Return the index in the group of each array's root, and the data of each member.

    That is the first, or what the last operand says. A group of one has nothing to choose from.
    """
    if not op.has_dynamic_root:
        return [0] * len(members[0]), list(members)
    data = [member[:-1] for member in members]
    count = len(data[0])
    said = {tuple(np.broadcast_to(member[-1], (count,)).tolist()) for member in members}
    if len(members) == 1:
        return [0] * count, data
    roots = min(said)
    if len(said) > 1 or not all(0 <= root < len(members) for root in roots):
        found = sorted({root for some in said for root in some})
        raise InferError(
            f"{op.opcode}: the root is {', '.join(map(str, found))}: one place in the "
            f"group of {len(members)} is needed, the same for all", code="bad-value",
        )  # fmt: skip
    return list(roots), data


def _collective_broadcast(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    """Every member gets what its root has, array by array."""
    roots, data = _roots(op, members)
    return [_one_or_all(op, [data[r][n] for n, r in enumerate(roots)])] * len(members)


def _collective_reduce(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    """The root of an array gets all of the group reduced, the other members zeros."""
    roots, data = _roots(op, members)
    totals = _reduced(op, data, ctx)
    return [
        _one_or_all(op, [
            total if place == root else np.zeros_like(total)
            for total, root in zip(totals, roots, strict=True)
        ])
        for place in range(len(members))
    ]  # fmt: skip


def _sent_by_nobody(op: OpView, args: Sequence[Any]) -> Any:
    """Return zeros, for a device that no one sends to; buffers to write into stay as they are."""
    if op.slice_sizes_list:
        return args[1]
    shapes = op.operand_shapes[:-1] if op.has_dynamic_root else op.operand_shapes
    return zeros(shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes)))


def _received(op: OpView, members: Members) -> list[Any]:
    """Return what each member of a permutation gets."""
    (ids,) = id_groups(op, (1, 1))
    pairs = op.source_target_pairs
    sources = {target: source for source, target in pairs}
    if len(sources) < len(set(pairs)):
        raise InferError(
            f"{op.opcode}: several slices between the same devices are not supported",
            attr="source_target_pairs", code="unsupported",
        )  # fmt: skip
    results = []
    for target, args in zip(ids, members, strict=True):
        if target not in sources:
            results.append(_sent_by_nobody(op, args))
            continue
        sent = members[ids.index(sources[target])]
        if op.slice_sizes_list:
            # Where to read is the sender's to say, where to write the receiver's.
            operands = [sent[0], args[1], sent[2], args[3]]
            results.append(_updated(op, operands, iter(op.slice_sizes_list)))
        else:
            results.append(sent[0] if len(sent) == 1 else tuple(sent))
    return results


def _updated(op: OpView, args: Sequence[Any], sizes: Any) -> Any:
    """Return the output buffer with slices of the input buffer written into it."""
    source, target, source_offsets, target_offsets = args
    if isinstance(target, tuple):
        parts = zip(source, target, source_offsets, target_offsets, strict=True)
        return tuple(_updated(op, part, sizes) for part in parts)
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


def _collective_permute(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    return _received(op, members)


def _started(op: OpView, args: Sequence[Any], received: Any) -> Any:
    """Return `(sent, received, contexts...)`."""
    assert isinstance(op.shape, TupleShape)
    sent = args[0] if op.slice_sizes_list or len(args) == 1 else tuple(args)
    return sent, received, *map(zeros, op.shape.elements[2:])


def _collective_permute_start(op: OpView, members: Members, ctx: EvalContext) -> list[Any]:
    received = _received(op, members)
    return [_started(op, args, own) for args, own in zip(members, received, strict=True)]


collective_broadcast = together(_collective_broadcast, _sent_by_nobody)
collective_reduce = together(_collective_reduce, _sent_by_nobody)
collective_permute = together(_collective_permute, _sent_by_nobody)
collective_permute_start = together(
    _collective_permute_start, lambda op, args: _started(op, args, _sent_by_nobody(op, args))
)
