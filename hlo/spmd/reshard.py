"""Changes of distribution: an array cut by one spec becomes the same array cut by another one."""

from __future__ import annotations

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.spmd.builder import Reshard, SpmdBuilder, resized
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.value import Sharded
from hlo.values.types import S32, ArrayShape


def moved_bytes(
    mesh: DeviceMesh, shape: ArrayShape, source: PartitionSpec, target: PartitionSpec
) -> float:
    """Return what a change of distribution moves: bytes of the results of its collectives.

    shape: of the array. Raises InferError where the specs differ in their manual axes.
    """
    _check(source, target)
    local = mesh.local_shape(shape, source)
    moved = 0
    if any(a not in target.unreduced and mesh.sizes[a] > 1 for a in source.unreduced):
        moved += local.byte_size
    for dim, (old, new) in enumerate(zip(source.dims, target.dims, strict=True)):
        if old != new and mesh.count(old) > 1:
            local = resized(local, dim, local.dims[dim] * mesh.count(old))
            moved += local.byte_size
            local = resized(local, dim, shape.dims[dim])
    return float(moved)


def reshard(b: SpmdBuilder, value: Sharded, target: PartitionSpec) -> Sharded:
    """Append what changes the distribution of a value.

    Raises InferError where the specs differ in their manual axes.
    """
    source, mesh = value.spec, b.mesh
    _check(source, target)
    b.program.reshards.append(
        Reshard(value.local.name, b.original.name, value.shape, source, target,
                int(moved_bytes(mesh, value.shape, source, target)))
    )  # fmt: skip
    x = value.local
    x = b.all_reduce(x, tuple(a for a in source.unreduced if a not in target.unreduced))
    for dim, (old, new) in enumerate(zip(source.dims, target.dims, strict=True)):
        if old != new:
            x = b.all_gather(x, dim, old)
            x = _cut(b, x, dim, value.shape.dims[dim], ())
    for dim, (old, new) in enumerate(zip(source.dims, target.dims, strict=True)):
        if old != new:
            x = _cut(b, x, dim, value.shape.dims[dim], new)
    added = tuple(a for a in target.unreduced if a not in source.unreduced)
    if mesh.count(added) > 1:
        x = _first_only(b, x, added)
    return Sharded(x, target, value.shape)


def _check(source: PartitionSpec, target: PartitionSpec) -> None:
    if set(source.manual) != set(target.manual):
        raise InferError(
            f"a value along manual axes {source.manual} cannot be one along {target.manual}",
            code="bad-sharding",
        )


def _cut(b: SpmdBuilder, x: Instruction, dim: int, size: int, axes: Axes) -> Instruction:
    """Return a device's shard of an array that has all of a dimension, and maybe padding."""
    shape = x.array_shape
    shard = b.mesh.shard_size(size, axes)
    end = shard * b.mesh.count(axes)
    if end > shape.dims[dim]:
        x = b.op(
            "pad", x, b.constant(shape.element_type, 0), shape=resized(shape, dim, end),
            padding=tuple(PadDim(0, end - d if n == dim else 0) for n, d in enumerate(shape.dims)),
        )  # fmt: skip
    if b.mesh.count(axes) == 1:
        limits = [shard if n == dim else d for n, d in enumerate(shape.dims)]
        if tuple(limits) == shape.dims:
            return x
        return b.op(
            "slice", x, shape=resized(shape, dim, shard),
            slice=tuple(SliceDim(0, limit) for limit in limits),
        )  # fmt: skip
    zero = b.constant(S32, 0)
    starts = [b.offset(size, axes) if n == dim else zero for n in range(shape.rank)]
    result = resized(shape, dim, shard)
    return b.op("dynamic-slice", x, *starts, shape=result, dynamic_slice_sizes=result.dims)


def _first_only(b: SpmdBuilder, x: Instruction, axes: Axes) -> Instruction:
    """Return a value as partial results: all of it on the first device along axes, else zeros."""
    shape = x.array_shape
    first = b.compare(b.coordinate(axes), b.constant(S32, 0), "EQ")
    zeros = b.zeros(shape)
    return b.op("select", b.broadcast(first, shape), x, zeros, shape=shape)
