"""Random changes of distribution, several in one program."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np

from hlo.spmd.builder import Program
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.spmd.redistribution.reshard import reshard
from hlo.values.types import ELEMENT_TYPES, ArrayShape, array
from tests.harness.partitioned import random_spec
from tests.harness.spmd import on_devices, program, same_shards, shards

MESHES = ((2,), (2, 2), (2, 3), (3, 2), (2, 2, 2), (2, 2, 3), (5,))
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17, 24)
TYPES = ("s32", "f32", "pred", "s4", "u4", "bf16", "f8e4m3fn", "c64", "f64", "s64", "u8", "f16")
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")


@dataclass(frozen=True)
class Change:
    """A change of distribution of an array.

    values: what the array is, for each coordinate along the manual axes.
    """

    shape: ArrayShape
    source: PartitionSpec
    target: PartitionSpec
    values: tuple[np.ndarray, ...]

    @property
    def has_sums(self) -> bool:
        return bool(self.source.unreduced or self.target.unreduced)


@dataclass(frozen=True)
class Changes:
    """A mesh, and what is done on it."""

    mesh: DeviceMesh
    changes: tuple[Change, ...]


def generate(seed: int, count: int = 16) -> Changes:
    """Return random changes of distribution."""
    draw = random.Random(seed)
    sizes = draw.choice(MESHES)
    order = tuple(draw.sample(range(math.prod(sizes)), math.prod(sizes)))
    replicas = 2 if draw.random() < 0.15 and math.prod(sizes) < 8 else 1
    mesh = DeviceMesh(sizes, order if draw.random() < 0.3 else (), replicas)
    manual = tuple(a for a in mesh.axes if draw.random() < 0.5) if draw.random() < 0.25 else ()
    return Changes(mesh, tuple(_change(draw, mesh, manual) for _ in range(count)))


def _change(draw: random.Random, mesh: DeviceMesh, manual: tuple[int, ...]) -> Change:
    rank = draw.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
    dims = [draw.choice(SIZES[:10] if rank > 2 else SIZES) for _ in range(rank)]
    et = ELEMENT_TYPES[draw.choice(TYPES)]
    values = []
    for n in range(mesh.count(manual)):
        count = math.prod(dims)
        flat = np.arange(count) + 1000 * n
        values.append((flat if et.bits >= 32 else flat % (2 if et.bits == 1 else 8)).reshape(dims))
    source, target = (_spec(draw, mesh, manual, rank, et.bits >= 32) for _ in range(2))
    return Change(array(et, dims), source, target, tuple(v.astype(et.dtype) for v in values))


def _spec(
    draw: random.Random, mesh: DeviceMesh, manual: tuple[int, ...], rank: int, sums: bool
) -> PartitionSpec:
    spec = random_spec(draw, mesh, rank)
    dims = tuple(tuple(a for a in axes if a not in manual) for axes in spec.dims)
    unreduced: tuple[int, ...] = ()
    if sums and draw.random() < 0.3:
        unreduced = tuple(a for a in mesh.axes if a not in manual and draw.random() < 0.5)
        dims = tuple(tuple(a for a in axes if a not in unreduced) for axes in dims)
    return PartitionSpec(dims, manual, unreduced)


def written(case: Changes) -> Program:
    """Return the program that makes the changes."""
    made, results = program(
        case.mesh, [(c.shape, c.source) for c in case.changes],
        lambda b, xs: [reshard(b, x, c.target) for x, c in zip(xs, case.changes, strict=True)],
    )  # fmt: skip
    for result, change in zip(results, case.changes, strict=True):
        assert result.spec == change.target
    moved = sum(i.shape.byte_size for i in made.module.entry if i.opcode in COLLECTIVES)
    recorded = sum(r.bytes for r in made.reshards)
    assert moved <= recorded, (moved, recorded)
    for r in made.reshards:
        assert r.bytes <= plain_bytes(case.mesh, r.shape, r.source, r.target), r
    return made


def plain_bytes(
    mesh: DeviceMesh, shape: ArrayShape, source: PartitionSpec, target: PartitionSpec
) -> int:
    """Return what it takes to reduce partial results and gather all that is cut differently."""
    sizes = list(mesh.local_dims(shape.dims, source))
    reduced = math.prod(sizes) if set(source.unreduced) - set(target.unreduced) else 0
    gathered = [d for d, axes in enumerate(source.dims) if axes and axes != target.dims[d]]
    for d in gathered:
        sizes[d] *= mesh.count(source.dims[d])
    elements = reduced + (math.prod(sizes) if gathered else 0)
    return array(shape.element_type, (elements,)).byte_size


def check(case: Changes, backend: str) -> None:
    """Run the changes on all devices. Raises AssertionError for a wrong result."""
    mesh = case.mesh
    arguments = [_shards(mesh, c, n) for n, c in enumerate(case.changes)]
    each = list(zip(*arguments, strict=True)) * mesh.replicas
    found = on_devices(written(case).module, each, backend)
    for replica in range(mesh.replicas):
        devices = found[replica * mesh.size : (replica + 1) * mesh.size]
        for n, change in enumerate(case.changes):
            assert _is_right(mesh, change, [d[n] for d in devices]), (mesh, change, backend)


def _shards(mesh: DeviceMesh, change: Change, seed: int) -> list[np.ndarray]:
    """Return each device's shard; of partial results, random ones with the right sum."""
    spec = change.source
    place = mesh.coordinates(spec.manual)
    by_value = [shards(mesh, v, spec) for v in change.values]
    found = [by_value[place[d]][d] for d in range(mesh.size)]
    if mesh.count(spec.unreduced) > 1:
        rng = np.random.default_rng(seed)
        for group in mesh.groups(spec.unreduced):
            parts = [rng.integers(0, 9, found[d].shape).astype(found[d].dtype) for d in group[1:]]
            found[group[0]] = found[group[0]] - sum(parts)
            for device, part in zip(group[1:], parts, strict=True):
                found[device] = part
    return found


def _is_right(mesh: DeviceMesh, change: Change, found: list[np.ndarray]) -> bool:
    spec = change.target
    if mesh.count(spec.unreduced) > 1:
        found = list(found)
        for group in mesh.groups(spec.unreduced):
            total = sum(found[d] for d in group)
            for device in group:
                found[device] = total
    place = mesh.coordinates(spec.manual)
    plain = replace(spec, unreduced=())
    return all(
        same_shards(mesh, value, plain, found, [d for d in range(mesh.size) if place[d] == n])
        for n, value in enumerate(change.values)
    )
