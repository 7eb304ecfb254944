"""Changes of distribution: an array cut by one spec becomes the same array cut by another one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.spmd.builder import Reshard, SpmdBuilder
from hlo.spmd.halo.exchange import Reach, exchange
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.spmd.redistribution.blocks import Along, Crossing, all_to_all, gather, scatter
from hlo.spmd.redistribution.plan import moved_elements, plan
from hlo.spmd.redistribution.route import windows
from hlo.spmd.redistribution.steps import Kind, State, Step
from hlo.spmd.value import Sharded, leaves
from hlo.values.types import S32, ArrayShape, ElementType, array


def moved_bytes(
    mesh: DeviceMesh, shape: ArrayShape, source: PartitionSpec, target: PartitionSpec
) -> int:
    """Return what a change of distribution moves: bytes of the results of its collectives.

    shape: of the array. Raises InferError where the specs differ in their manual axes.
    """
    if source == target:
        return 0
    if source == target:
        return 0
    _check(source, target)
    return _moved(mesh, shape.element_type, shape.dims, source, target)


@lru_cache(maxsize=1 << 16)
def _moved(
    mesh: DeviceMesh, et: ElementType, dims: tuple[int, ...], source: PartitionSpec,
    target: PartitionSpec,
) -> int:  # fmt: skip
    return array(et, (moved_elements(mesh, dims, source, target),)).byte_size


def reshard(b: SpmdBuilder, value: Sharded, target: PartitionSpec) -> Sharded:
    """Append what changes the distribution of a value.

    Raises InferError where the specs differ in their manual axes.
    """
    source = value.spec
    _check(source, target)
    user = b.original
    assert user.parent is not None
    b.program.reshards.append(
        Reshard(
            _original(b, value).name, user.name, user.parent.name, value.shape, source, target,
            moved_bytes(b.mesh, value.shape, source, target),
        )
    )  # fmt: skip
    steps = plan(b.mesh, value.shape.dims, source, target).steps
    most = max((step.after.elements for step in steps), default=0)
    ends = (
        value.local.array_shape.num_elements,
        math.prod(b.mesh.local_dims(value.shape.dims, target)),
    )
    if most >= value.shape.num_elements > max(ends):
        b.note(value, f"there is no cheaper way to {b.mesh.tiles(target)}")
    x = value.local
    for step in steps:
        x = _WRITERS[step.kind](b, value, x, step)
        assert x.array_shape.dims == step.after.sizes, (step, x.shape)
    return Sharded(b.relaid(x, b.mesh.local_shape(value.shape, target)), target, value.shape)


def _original(b: SpmdBuilder, value: Sharded) -> Instruction:
    """Return the instruction of the original program that a value is the result of."""
    for operand in b.original.operands:
        if any(leaf.local is value.local for leaf in leaves(b.values.get(operand, ()))):
            return operand
    return b.original


def _check(source: PartitionSpec, target: PartitionSpec) -> None:
    if set(source.manual) != set(target.manual):
        raise InferError(
            f"a value along manual axes {source.manual} cannot be one along {target.manual}",
            code="bad-sharding",
        )


# --- a step at a time -----------------------------------------------------------------------------


def _cut(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    before, after = step.before, step.after
    x = _padded(b, x, step)
    zero = b.constant(S32, 0)
    starts = [zero] * len(after.dims)
    for dim, axes in _added(before, after):
        starts[dim] = b.table(b.mesh.coordinates(axes) * after.sizes[dim])
    return b.op("dynamic-slice", x, *starts, dynamic_slice_sizes=after.sizes)


def _gather(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    return _trimmed(b, gather(b, x, _added(step.after, step.before)), step.after.sizes)


def _exchange(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    crossings = [Crossing(m.source, m.axes, m.target) for m in step.moves]
    return _trimmed(b, all_to_all(b, _padded(b, x, step), crossings), step.after.sizes)


def _permute(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    fixed = (*value.spec.manual, *step.before.partial)

    def shards(state: State) -> dict[int, list[int]]:
        """The devices that have each shard."""
        found = defaultdict(list)
        along = (*fixed, *(a for axes in state.dims for a in axes))
        for device, shard in enumerate(b.mesh.coordinates(along).tolist()):
            found[shard].append(device)
        return found

    pairs = []
    have = shards(step.before)
    for shard, wanting in shards(step.after).items():
        # As many have a shard as want it. Those that have it already keep it.
        both = set(have[shard]) & set(wanting)
        pairs += [(device, device) for device in both]
        senders = (d for d in have[shard] if d not in both)
        pairs += zip(senders, (d for d in wanting if d not in both), strict=True)
    if all(sender == receiver for sender, receiver in pairs):
        return x
    return b.permute(x, sorted(pairs))


def _reduce(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    return b.all_reduce(x, tuple(a for a in step.before.partial if a not in step.after.partial))


def _scatter(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    return scatter(b, _padded(b, x, step), [Along(m.target, m.axes) for m in step.moves])


def _spread(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    """Return partial results that have a device's shard in its place and zeros elsewhere."""
    (move,) = step.moves
    sizes = list(step.after.sizes)
    sizes[move.source] = step.before.sizes[move.source] * b.mesh.count(move.axes)
    starts = [b.constant(S32, 0)] * len(sizes)
    starts[move.source] = b.table(b.mesh.coordinates(move.axes) * step.before.sizes[move.source])
    zeros = b.zeros(array(x.array_shape.element_type, sizes))
    return _trimmed(b, b.op("dynamic-update-slice", zeros, x, *starts), step.after.sizes)


def _mask(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    """Return partial results: all of it on the first device along axes, else zeros."""
    shape = x.array_shape
    first = b.compare(b.coordinate(step.moves[0].axes), b.constant(S32, 0), "EQ")
    return b.op("select", b.broadcast(first, shape), x, b.zeros(shape), shape=shape)


def _repad(b: SpmdBuilder, value: Sharded, x: Instruction, step: Step) -> Instruction:
    (move,) = step.moves
    size = value.shape.dims[move.source]
    starts, counts = windows(size, b.mesh.count(move.axes), step.after.sizes[move.source])
    reach = Reach(move.axes, starts, counts, step.after.sizes[move.source])
    spec = PartitionSpec(step.before.dims, value.spec.manual, step.before.partial)
    return exchange(b, Sharded(x, spec, value.shape), move.source, reach)


_WRITERS: dict[Kind, Callable[[SpmdBuilder, Sharded, Instruction, Step], Instruction]] = {
    Kind.CUT: _cut,
    Kind.GATHER: _gather,
    Kind.EXCHANGE: _exchange,
    Kind.PERMUTE: _permute,
    Kind.REDUCE: _reduce,
    Kind.SCATTER: _scatter,
    Kind.SPREAD: _spread,
    Kind.MASK: _mask,
    Kind.REPAD: _repad,
}


def _added(before: State, after: State) -> list[Along]:
    """Return the dimensions that have more axes after than before, and which."""
    return [
        Along(dim, new[len(old) :])
        for dim, (old, new) in enumerate(zip(before.dims, after.dims, strict=True))
        if len(new) > len(old)
    ]


def _padded(b: SpmdBuilder, x: Instruction, step: Step) -> Instruction:
    """Return an array whose dimensions can be cut as a step does."""
    dims = list(x.array_shape.dims)
    for dim, axes in _added(step.before, step.after):
        dims[dim] = step.after.sizes[dim] * b.mesh.count(axes)
    if tuple(dims) == x.array_shape.dims:
        return x
    padding = [PadDim(0, new - old) for old, new in zip(x.array_shape.dims, dims, strict=True)]
    return b.op("pad", x, b.constant(x.array_shape.element_type, 0), padding=tuple(padding))


def _trimmed(b: SpmdBuilder, x: Instruction, sizes: tuple[int, ...]) -> Instruction:
    """Return the first elements of each dimension."""
    if x.array_shape.dims == sizes:
        return x
    return b.op("slice", x, slice=tuple(SliceDim(0, size) for size in sizes))
