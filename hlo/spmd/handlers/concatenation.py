"""concatenate along a cut dimension: each device gets its range of the operands from their owners.

Operands that are slices are taken from where these take them, so that a rotation, or an array with
some of its own elements around it, moves only what changes its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo.ir import Instruction
from hlo.ops.attrs import SliceDim
from hlo.ops.factors import Factor, FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.halo.messages import Message, deliver, joined, messages_of, rounds_of, sent
from hlo.spmd.halo.slots import cut_out
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.windows import array_of, by_windows, varies_in_size
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value


@dataclass(frozen=True)
class _Piece:
    """A range of a concatenation.

    Attributes:
        start: of the range in what it is taken from, along the dimension; 0 for a scalar.
        size: number of elements.
        place: of the first one in the result.
    """

    start: int
    size: int
    place: int


@handles("concatenate")
def _concatenate(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    if varies_in_size(inst):
        return by_factors(b, inst, operands, wanted)
    (dim,) = inst.dimensions
    shape = inst.array_shape
    values: list[Sharded] = []
    pieces: list[_Piece] = []
    place = 0
    for operand, value in zip(inst.operands, operands, strict=True):
        assert isinstance(value, Sharded)
        size = operand.array_shape.dims[dim]
        source, start = _source(b, operand, value, dim)
        if size:
            values.append(source)
            pieces.append(_Piece(start, size, place))
        place += size
    if not values:
        return b.sharded(b.zeros(b.mesh.local_shape(shape, wanted[0])), wanted[0])
    kinds = [FactorKind.PASS_THROUGH] * shape.rank
    kinds[dim] = FactorKind.PERMUTATION
    every = tuple((d,) for d in range(shape.rank))
    rule = FactorRule(
        tuple(Factor(n, k) for n, k in zip(shape.dims, kinds, strict=True)),
        tuple(every if v.shape.rank else () for v in values),
        (every,),
    )

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], _: Axes
    ) -> list[Instruction]:
        arrays = [array_of(p) for p in parts]
        axes = specs[0].dims[dim]
        if axes:
            return [_cut(b, arrays, pieces, specs[0], dim, axes, shape.dims[dim])]
        local = b.mesh.local_shape(shape, specs[0])
        taken = []
        for value, p in zip(arrays, pieces, strict=True):
            if value.shape.rank:
                taken.append(cut_out(b, value.local, dim, p.start, p.size))
            else:
                taken.append(b.broadcast(value.local, resized(local, dim, p.size)))
        if len(taken) == 1:
            return taken
        return [b.op("concatenate", *taken, shape=local, dimensions=(dim,))]

    return by_windows(b, inst, values, wanted, share, rule=rule)


def _source(b: SpmdBuilder, operand: Instruction, value: Sharded, dim: int) -> tuple[Sharded, int]:
    """Return what an operand is a range of, and where that begins; a scalar that it is full of."""
    start = 0
    if operand.opcode == "broadcast" and not operand.operands[0].array_shape.dims:
        scalar = b.values[operand.operands[0]]
        if isinstance(scalar, Sharded) and scalar.spec.manual == value.spec.manual:
            return scalar, 0
    while operand.opcode == "slice":
        (before,) = operand.operands
        source = b.values[before]
        ranges = operand.slice
        others = [r for d, r in enumerate(ranges) if d != dim]
        sizes = [n for d, n in enumerate(before.array_shape.dims) if d != dim]
        if (
            not isinstance(source, Sharded)
            or ranges[dim].stride != 1
            or others != [SliceDim(0, n) for n in sizes]
            or source.spec.with_dim(dim, ()) != value.spec.with_dim(dim, ())
        ):
            break
        start += ranges[dim].start
        operand, value = before, source
    return value, start


def _cut(
    b: SpmdBuilder, values: Sequence[Sharded], pieces: Sequence[_Piece], spec: PartitionSpec,
    dim: int, axes: Axes, total: int,
) -> Instruction:  # fmt: skip
    """Append a device's part of pieces along a dimension that is cut."""
    mesh = b.mesh
    count, part = mesh.count(axes), mesh.shard_size(total, axes)
    shards = {v.local: v.local.array_shape.dims[dim] for v in values if v.shape.rank}
    whole = {v.local for v in values if v.shape.rank and not v.spec.dims[dim]}
    scalars = [v.local for v in values if not v.shape.rank]
    # The elements that nobody sends are of one scalar.
    fill = scalars[0] if scalars else None
    sources: dict[Instruction, Instruction] = {}
    bases: dict[Instruction, int] = {}
    messages: list[Message] = []
    length = 0
    for value, p in zip(values, pieces, strict=True):
        local = value.local
        if local is fill:
            continue
        if local not in bases:
            bases[local], sources[local] = length, local
            if not value.shape.rank:
                sources[local] = b.broadcast(local, mesh.local_shape(b.original.array_shape, spec))
            length += sources[local].array_shape.dims[dim]
        first = np.maximum(np.arange(count) * part, p.place)
        end = np.minimum((np.arange(count) + 1) * part, p.place + p.size)
        needs = np.maximum(end - first, 0)
        places = first - np.arange(count) * part
        starts = p.start + first - p.place
        if local in whole or not value.shape.rank:
            messages += [
                Message(c, c, bases[local] + (int(starts[c]) if local in whole else 0), n, at)
                for c, (n, at) in enumerate(zip(needs.tolist(), places.tolist(), strict=True)) if n
            ]  # fmt: skip
            continue
        found = messages_of(
            starts, needs, value.shape.dims[dim], shards[local], base=bases[local], place=places
        )
        assert found is not None
        messages += found
    messages = joined(messages)
    gathered = sum((count - 1) * n for local, n in shards.items() if local not in whole)
    if sent(rounds_of(messages)) > gathered:
        uncut = [b.reshard(v, v.spec.with_dim(dim, ())) if v.shape.rank else v for v in values]
        return _cut(b, uncut, pieces, spec, dim, axes, total)
    if not messages:
        assert fill is not None
        return b.broadcast(fill, mesh.local_shape(b.original.array_shape, spec))
    buffers = list(sources.values())
    buffer = buffers[0]
    if len(buffers) > 1:
        buffer = b.op("concatenate", *buffers, dimensions=(dim,))
    return deliver(b, buffer, dim, axes, messages, part, fill)
