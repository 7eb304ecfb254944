"""Asynchronous operations, copies, and collectives of one device, as plain operations.

A start does all of the work and a done extracts the result from the start's. A collective becomes
plain operations if every group that a device can be in consists of that device; with more
participants it is left to the host, which knows the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hlo.codegen.lower.asynchronous import ends_apart
from hlo.errors import InferError
from hlo.expansions import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.ops.collective.device_groups import (
    CROSS_PARTITION,
    FLATTENED,
    exchanges,
    group_mode,
    id_groups,
    names_devices,
    need_operand_each,
    wrong_result,
)
from hlo.ops.collective.rules import PARTIAL
from hlo.values.types import PRED, S64, U32, ArrayShape, Shape, TupleShape, array, compatible

# --- async, copy --------------------------------------------------------------------------------


@expansion("async-start")
def _async_start(inst: Instruction) -> Computation:
    """Inline the wrapped computation; the operands come first in the result."""
    d = Draft(inst)
    callee: Computation = inst.calls
    called = d.op("call", *d.parameters, shape=callee.root.shape, to_apply=callee)
    assert isinstance(inst.shape, TupleShape)
    rest = [d.zeros(s) for s in inst.shape.elements[2:]]
    return d.done(d.op("tuple", d.op("tuple", *d.parameters), called, *rest))


@expansion("async-update", "all-reduce-done")
def _operand(inst: Instruction) -> Computation | None:
    if ends_apart(inst):
        return None
    d = Draft(inst)
    return d.done(d.parameters[0])


@expansion("async-done", "all-gather-done", "collective-permute-done")
def _second_element(inst: Instruction) -> Computation | None:
    if ends_apart(inst):
        return None
    d = Draft(inst)
    return d.done(d.op("get-tuple-element", d.parameters[0], index=1))


@expansion("copy-start")
def _copy_start(inst: Instruction) -> Computation:
    """The copy, the source, and an unused context."""
    d = Draft(inst)
    (source,) = d.parameters
    assert isinstance(inst.shape, TupleShape)
    copied = d.relaid(source, inst.shape.elements[0])
    return d.done(d.op("tuple", copied, source, d.constant(U32, 0)))


@expansion("copy-done")
def _copy_done(inst: Instruction) -> Computation:
    d = Draft(inst)
    return d.done(d.op("get-tuple-element", d.parameters[0], index=0))


# --- send, receive ------------------------------------------------------------------------------


@expansion("recv", "send-done")
def _nothing(inst: Instruction) -> Computation | None:
    """Data arrives with the recv-done, which asks the host; the send has handed its data over.

    A receive from a device says which one, before its done.
    """
    if inst.opcode == "recv" and names_devices(inst):
        return None
    d = Draft(inst)
    return d.done(d.zeros(inst.shape))


# --- collectives of one participant -------------------------------------------------------------


def _device_counts(inst: Instruction) -> tuple[int, int]:
    """Return the numbers of replicas and partitions that an instruction's module is for."""
    module = inst.parent.module if inst.parent is not None else None
    return module.device_counts if module is not None else (1, 1)


def _exchanges(inst: Instruction) -> bool:
    return exchanges(inst, _device_counts(inst))


def _as_result(d: Draft, values: list[Instruction], wanted: Shape) -> Instruction:
    """Return values as one value of a shape, packed if that is a tuple."""
    parts = wanted.elements if isinstance(wanted, TupleShape) else (wanted,)
    for value, want in zip(values, parts, strict=True):
        if not compatible(value.shape, want):
            raise wrong_result(d.inst, 1, value.shape.to_string(False), want)
    relaid = [d.relaid(v, s) for v, s in zip(values, parts, strict=True)]
    return d.op("tuple", *relaid) if wanted.is_tuple else relaid[0]


@expansion(
    "all-gather", "all-reduce", "all-reduce-start", "reduce-scatter", "all-to-all",
    "collective-broadcast", "collective-reduce",
)  # fmt: skip
def _one_or_all(inst: Instruction) -> Computation | None:
    """A group of one gathers, reduces, scatters or exchanges its own operand."""
    if _exchanges(inst):
        return None
    if inst.opcode == "all-to-all":
        need_operand_each(inst, 1)
    d = Draft(inst)
    data = d.parameters[:-1] if inst.has_dynamic_root else d.parameters
    if inst.opcode in PARTIAL:
        groups = id_groups(inst, _device_counts(inst))
        members = sorted(i for group in groups for i in group)
        data = _of_members(d, inst, members, data, [d.zeros(x.shape) for x in data])
    return d.done(_as_result(d, data, inst.shape))


@expansion("all-gather-start")
def _all_gather_start(inst: Instruction) -> Computation | None:
    if _exchanges(inst):
        return None
    d = Draft(inst)
    assert isinstance(inst.shape, TupleShape)
    sent, gathered, *contexts = inst.shape.elements
    rest = [d.zeros(s) for s in contexts]
    parts = [_as_result(d, d.parameters, s) for s in (sent, gathered)]
    return d.done(d.op("tuple", *parts, *rest))


@expansion("collective-permute")
def _collective_permute(inst: Instruction) -> Computation | None:
    if _exchanges(inst) and not inst.slice_sizes_list:
        return None
    d = Draft(inst)
    if _exchanges(inst):
        return d.done(d.relaid(_slices_permuted(d, inst), inst.shape))
    return d.done(_received(d, inst, inst.shape))


@expansion("collective-permute-start")
def _collective_permute_start(inst: Instruction) -> Computation | None:
    """The sent value, the received value, and unused contexts."""
    if _exchanges(inst) and not inst.slice_sizes_list:
        return None
    d = Draft(inst)
    assert isinstance(inst.shape, TupleShape)
    sent, received, *contexts = inst.shape.elements
    if _exchanges(inst):
        parts = [d.relaid(d.parameters[0], sent), d.relaid(_slices_permuted(d, inst), received)]
    else:
        source = d.parameters[:1] if inst.slice_sizes_list else d.parameters
        parts = [_as_result(d, source, sent), _received(d, inst, received)]
    return d.done(d.op("tuple", *parts, *(d.zeros(s) for s in contexts)))


def _received(d: Draft, inst: Instruction, wanted: Shape) -> Instruction:
    """Return the result on a device that can only send to itself: zeros if it does not."""
    sizes = inst.slice_sizes_list
    members = sorted({target for _, target in inst.source_target_pairs})
    if sizes:
        other = d.parameters[1]
        data = [_updated(d, d.parameters, iter(sizes), _all_take_part(inst, members))]
        if wanted.is_tuple:
            assert isinstance(wanted, TupleShape)
            count = range(len(wanted.elements))
            data = [d.op("get-tuple-element", data[0], index=n) for n in count]
            others = [d.op("get-tuple-element", other, index=n) for n in count]
        else:
            others = [other]
    else:
        data = d.parameters
        others = [d.zeros(x.shape) for x in data]
    return _as_result(d, _of_members(d, inst, members, data, others), wanted)


def _of_members(
    d: Draft, inst: Instruction, members: list[int],
    data: list[Instruction], others: list[Instruction],
) -> list[Instruction]:  # fmt: skip
    """Return data on devices that participate in a collective, by their ids, else `others`."""
    if not members or _all_take_part(inst, members):
        return data if members else others
    found = _is_one_of(d, inst, members)
    return [
        d.op("select", d.broadcast(found, x.array_shape.with_type(PRED)), x, y)
        for x, y in zip(data, others, strict=True)
    ]


def _is_one_of(d: Draft, inst: Instruction, members: Sequence[int]) -> Instruction:
    """Return whether the id of this device, as a collective counts them, is one of some."""
    mine = _own_id(d, group_mode(inst), _device_counts(inst)[1])
    found = d.constant(PRED, False)
    for member in members:
        same = d.compare(mine, d.constant(U32, member), "EQ")
        found = d.op("or", found, same)
    return found


def _all_take_part(inst: Instruction, members: list[int]) -> bool:
    """True if the ids of participants in a collective are all ids."""
    replicas, partitions = _device_counts(inst)
    count = {CROSS_PARTITION: partitions, FLATTENED: replicas * partitions}
    return members == list(range(count.get(group_mode(inst) or "", replicas)))


def _own_id(d: Draft, mode: str | None, partitions: int) -> Instruction:
    """Return the id of this device, of the kind that the mode of a collective uses."""
    scalar = array(U32, ())
    if mode == CROSS_PARTITION:
        return d.op("partition-id", shape=scalar)
    replica = d.op("replica-id", shape=scalar)
    if mode != FLATTENED:
        return replica
    first = d.op("multiply", replica, d.constant(U32, partitions))
    return d.op("add", first, d.op("partition-id", shape=scalar))


def _updated(
    d: Draft, operands: list[Instruction], sizes: Iterator[Sequence[int]], is_certain: bool
) -> Instruction:
    """Return the output buffer with slices of the input buffer written into it.

    is_certain: they are always written, so slices outside of the buffers are errors.
    """
    target = operands[1]
    if isinstance(target.shape, TupleShape):
        count = len(target.shape.elements)
        parts = [_updated(d, _element(d, operands, n), sizes, is_certain) for n in range(count)]
        return d.op("tuple", *parts)
    for move in _moves(d, operands, sizes):
        if is_certain:
            for buffer, at in ((move.source, move.starts), (target, move.places)):
                _need_inside(d, buffer, at, move.size)
        piece = d.op("dynamic-slice", move.source, *move.starts, dynamic_slice_sizes=move.size)
        target = d.op("dynamic-update-slice", target, piece, *move.places, shape=target.shape)
    return target


@dataclass(frozen=True)
class _Move:
    """A slice of a size: where it starts in its source, and where its place in the target does."""

    source: Instruction
    starts: list[Instruction]
    places: list[Instruction]
    size: tuple[int, ...]


def _element(d: Draft, operands: Sequence[Instruction], index: int) -> list[Instruction]:
    return [d.op("get-tuple-element", x, index=index) for x in operands]


def _moves(
    d: Draft, operands: Sequence[Instruction], sizes: Iterator[Sequence[int]]
) -> Iterator[_Move]:
    """Yield the slices that go from one buffer to another: one, or as many as there are tuples."""
    source, _, *offsets = operands
    shape = offsets[1].shape
    assert isinstance(shape, TupleShape)
    pairs = [offsets]
    if shape.elements and shape.elements[0].is_tuple:
        pairs = [_element(d, offsets, n) for n in range(len(shape.elements))]
    for from_, to in pairs:
        size = tuple(next(sizes))
        starts, places = (
            [d.op("get-tuple-element", x, index=n) for n in range(len(size))] for x in (from_, to)
        )
        yield _Move(source, starts, places, size)


def _need_inside(
    d: Draft, buffer: Instruction, starts: Sequence[Instruction], size: Sequence[int]
) -> None:
    """Append the end of the program for a slice that is outside of its buffer."""
    for dim, (start, n) in enumerate(zip(starts, size, strict=True)):
        last = buffer.array_shape.dims[dim] - n
        bound = d.constant(start.array_shape.element_type, max(0, last))
        d.need_at_most(start, bound, f"a start in dimension {dim} is outside [0, {last}]")


def _slices_permuted(d: Draft, inst: Instruction) -> Instruction:
    """Return buffers with slices that are cut out, sent as arrays, and written where they arrive.

    Where to read is the sender's to say, where to write the receiver's.
    """
    sources, targets = (sorted({pair[n] for pair in inst.source_target_pairs}) for n in (0, 1))
    if len(targets) < len(set(inst.source_target_pairs)):
        raise InferError(
            f"{inst.opcode}: several slices between the same devices are not supported",
            attr="source_target_pairs", code="unsupported",
        )  # fmt: skip
    sends, receives = (_is_one_of(d, inst, ids) for ids in (sources, targets))
    is_tuple = inst.operand_shapes[1].is_tuple
    buffers = [d.parameters]
    if isinstance(inst.operand_shapes[1], TupleShape):
        count = len(inst.operand_shapes[1].elements)
        buffers = [_element(d, d.parameters, n) for n in range(count)]
    sizes = iter(inst.slice_sizes_list)
    moves = [list(_moves(d, operands, sizes)) for operands in buffers]

    def inside(
        does: Instruction, buffer: Instruction, starts: list[Instruction], size: Sequence[int]
    ) -> list[Instruction]:
        """Return starts that are checked on devices that use them, zeros on the others."""
        kept = [d.op("select", does, x, d.zero(x.array_shape.element_type)) for x in starts]
        _need_inside(d, buffer, kept, size)
        return kept

    sent = []
    for move in (m for each in moves for m in each):
        starts = inside(sends, move.source, move.starts, move.size)
        sent.append(d.op("dynamic-slice", move.source, *starts, dynamic_slice_sizes=move.size))
    attrs = {k: v for k, v in inst.attrs.items() if k in ("channel_id", "source_target_pairs")}
    shapes = TupleShape(tuple(x.shape for x in sent))
    one = len(sent) == 1
    arrived = d.op("collective-permute", *sent, shape=sent[0].shape if one else shapes, **attrs)
    pieces = iter([arrived] if one else [
        d.op("get-tuple-element", arrived, index=n) for n in range(len(sent))
    ])  # fmt: skip
    results = []
    for operands, own in zip(buffers, moves, strict=True):
        target = old = operands[1]
        for move in own:
            places = inside(receives, target, move.places, move.size)
            target = d.op("dynamic-update-slice", target, next(pieces), *places, shape=target.shape)
        mask = d.broadcast(receives, old.array_shape.with_type(PRED))
        results.append(d.op("select", mask, target, old))
    return d.op("tuple", *results) if is_tuple else results[0]


@expansion("ragged-all-to-all")
def _ragged_all_to_all(inst: Instruction) -> Computation | None:
    """Write this device's updates to itself into the output, in order: a loop over updates.

    Update n takes sizes[n] rows from row from[n] of the input to row to[n] of the output.
    """
    if _exchanges(inst):
        return None
    d = Draft(inst)
    source, target, *tables = d.parameters[:5]
    count = tables[0].array_shape.num_elements
    if not count:
        return d.done(d.relaid(target, inst.shape))
    flat = [
        d.convert(d.op("reshape", t, shape=array(t.array_shape.element_type, (count,))), S64)
        for t in tables
    ]
    state = d.op("tuple", d.constant(S64, 0), target, source, *flat)

    test = Draft(inst, [state.shape])
    at = test.op("get-tuple-element", test.parameters[0], index=0)
    go_on = test.compare(at, test.constant(S64, count), "LT")
    loop = d.op(
        "while", state, shape=state.shape, condition=test.done(go_on),
        body=_ragged_step(inst, state.shape),
    )  # fmt: skip
    return d.done(d.relaid(d.op("get-tuple-element", loop, index=1), inst.shape))


def _ragged_step(inst: Instruction, state: Shape) -> Computation:
    """Return the body of the loop over updates."""
    d = Draft(inst, [state])
    at, target, source, *tables = (
        d.op("get-tuple-element", d.parameters[0], index=n) for n in range(6)
    )
    first, size, place = (
        d.op(
            "reshape", d.op("dynamic-slice", t, at, dynamic_slice_sizes=(1,)), shape=array(S64, ())
        )
        for t in tables
    )
    shape, rows = target.array_shape, array(S64, target.array_shape.dims[:1])
    counts = [x.array_shape.dims[0] for x in (source, target)]
    d.need_at_most(size, d.constant(S64, min(counts)), f"a size is outside [0, {min(counts)}]")
    for start, n in zip((first, place), counts, strict=True):
        last = d.op("subtract", d.constant(S64, n), size)
        d.need_at_most(start, last, f"a slice is outside of {n} rows")
    row = d.op("iota", shape=rows, iota_dimension=0)
    # The row of the update for each row of the output.
    inside = d.op("subtract", row, d.broadcast(place, rows))
    limits = [d.broadcast(x, rows) for x in (d.constant(S64, 0), size)]
    written = d.op(
        "and",
        d.compare(inside, limits[0], "GE"),
        d.compare(inside, limits[1], "LT"),
    )
    from_ = d.op("add", inside, d.broadcast(first, rows))
    dims = source.array_shape.dims
    taken = d.op(
        "gather", source, from_, shape=ArrayShape(shape.element_type, shape.dims, shape.layout),
        offset_dims=tuple(range(1, len(dims))), collapsed_slice_dims=(0,), start_index_map=(0,),
        operand_batching_dims=(), start_indices_batching_dims=(), index_vector_dim=1,
        slice_sizes=(1, *dims[1:]),
    )  # fmt: skip
    mask = d.op("broadcast", written, shape=shape.with_type(PRED), dimensions=(0,))
    new = d.op("select", mask, taken, target, shape=shape)
    next_ = d.op("add", at, d.constant(S64, 1))
    return d.done(d.op("tuple", next_, new, source, *tables))
