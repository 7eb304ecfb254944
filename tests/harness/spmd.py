"""Partitioned programs in tests: shards of global arrays, and runs on all devices of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import hlo
from hlo.ir import Computation, Module
from hlo.ir.builder import Builder
from hlo.spmd.builder import Program, SpmdBuilder
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.spmd.redistribution.reshard import reshard
from hlo.spmd.value import Sharded
from hlo.values.types import ArrayShape

Run = Callable[[SpmdBuilder, list[Sharded]], Sequence[Sharded]]


def shards(mesh: DeviceMesh, value: np.ndarray, spec: PartitionSpec) -> list[np.ndarray]:
    """Return each device's shard of an array; padding is 7, or True."""
    local = mesh.local_dims(value.shape, spec)
    found = []
    where = [mesh.coordinates(axes) for axes in spec.dims]
    for device in range(mesh.size):
        shard = np.full(local, 7).astype(value.dtype)
        part = value[tuple(slice(w[device] * n, (w[device] + 1) * n)
                           for w, n in zip(where, local, strict=True))]  # fmt: skip
        shard[tuple(slice(0, n) for n in part.shape)] = part
        found.append(shard)
    return found


def same_shards(
    mesh: DeviceMesh,
    value: np.ndarray,
    spec: PartitionSpec,
    found: Sequence[np.ndarray],
    devices: Sequence[int] | None = None,
) -> bool:
    """Tell whether shards are those of an array, but for their padding.

    devices: the ones that are looked at; by default all.
    """
    local = mesh.local_dims(value.shape, spec)
    where = [mesh.coordinates(axes) for axes in spec.dims]
    for device in range(len(found)) if devices is None else devices:
        shard = found[device]
        part = value[tuple(slice(w[device] * n, (w[device] + 1) * n)
                           for w, n in zip(where, local, strict=True))]  # fmt: skip
        inside = shard[tuple(slice(0, n) for n in part.shape)]
        if shard.shape != local or not np.array_equal(inside, part):
            return False
    return True


def program(
    mesh: DeviceMesh, parameters: Sequence[tuple[ArrayShape, PartitionSpec]], run: Run
) -> tuple[Program, Sequence[Sharded]]:
    """Return the program that `run` writes, and the values that it returns."""
    module = Module("spmd")
    module.attrs["num_partitions"] = mesh.size
    if mesh.replicas > 1:
        module.attrs["replica_count"] = mesh.replicas
    entry = module.add(Computation("main"), entry=True)
    original = Builder(Computation("original")).parameter(0, parameters[0][0], "original")
    written = Program(module, mesh, reshard)
    b = SpmdBuilder(entry, written)
    b.original = original
    values = [
        Sharded(b.parameter(n, mesh.local_shape(shape, spec), f"p{n}"), spec, shape)
        for n, (shape, spec) in enumerate(parameters)
    ]
    results = run(b, values)
    entry.set_root(b.tuple(*(r.local for r in results)))
    hlo.verify(module)
    return written, results


def on_devices(
    module: Module, arguments: Sequence[Sequence[np.ndarray]], backend: str = "compiled"
) -> list[list[np.ndarray]]:
    """Return the results, a tuple's leaves, of each device. arguments: those of each device."""
    client = hlo.Client(device_count=len(arguments), backend=backend)
    found = client.execute_replicated(module, arguments)
    return [[np.asarray(x) for x in client.deconstruct_tuple(data)] for data in found]
