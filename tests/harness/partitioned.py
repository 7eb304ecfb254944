"""Modules with shardings in tests: random ones, and runs on all devices beside the whole result."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import hlo
from hlo.compiler.partition import Partition
from hlo.ir import Module
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.values.sharding import Sharding, TupleSharding
from hlo.values.sharding.shards import shard_dims, tile_slices
from hlo.values.types import element_type_of

MESHES = ((2,), (3,), (2, 2), (2, 3), (2, 2, 2))


def random_spec(draw: random.Random, mesh: DeviceMesh, rank: int) -> PartitionSpec:
    """Return a spec along any of the axes, in any order."""
    axes = [a for a in mesh.axes if draw.random() < 0.75]
    draw.shuffle(axes)
    dims: list[tuple[int, ...]] = [()] * rank
    for axis in axes if rank else ():
        dim = draw.randrange(rank)
        dims[dim] = (*dims[dim], axis)
    return PartitionSpec(tuple(dims))


def annotate(
    module: Module, mesh: DeviceMesh, parameters: Sequence[PartitionSpec],
    results: Sequence[PartitionSpec],
) -> None:  # fmt: skip
    """Give shardings to the parameters of an entry and to the leaves of its result."""
    module.attrs["num_partitions"] = mesh.size
    for parameter, spec in zip(module.entry.parameters, parameters, strict=True):
        parameter.annotations["sharding"] = mesh.tiles(spec)
    shardings = tuple(mesh.tiles(spec) for spec in results)
    root = module.entry.root
    root.annotations["sharding"] = TupleSharding(shardings) if root.shape.is_tuple else shardings[0]


def padded_shard(array: np.ndarray, sharding: Sharding, device: int) -> np.ndarray:
    """Return a device's shard, with padding that would be noticed if it were read."""
    part = array[tile_slices(sharding, array.shape, device)]
    shard = np.full(shard_dims(sharding, array.shape), 99).astype(array.dtype)
    shard[tuple(slice(0, n) for n in part.shape)] = part
    return shard


def run_partitioned(
    module: Module, arguments: Sequence[Any], backend: str = "reference", tolerance: float = 0.0
) -> Partition:
    """Run a module with shardings partitioned, and fail unless each device has its part of the
    global result: to the bit, or within a tolerance, relative and absolute.

    arguments: global arrays.
    """
    alone = module.clone()
    alone.attrs.pop("num_partitions")
    want = _leaves(hlo.interpret(alone, *arguments))
    found = hlo.partition(module)
    contract = found.contract
    arrays = [np.asarray(a) for a in arguments]
    per_device = [
        [padded_shard(a, s, d) for a, s in zip(arrays, contract.parameter_shardings, strict=True)]
        for d in range(found.mesh.size)
    ]
    client = hlo.Client(found.mesh.size, backend=backend, cache=False)
    results = client.execute_replicated(found.module, per_device, timeout=60)
    for device, result in enumerate(results):
        got = _leaves(client.transfer(result).value)
        for x, w, sharding in zip(got, want, contract.result_shardings, strict=True):
            part = w[tile_slices(sharding, w.shape, device)]
            assert x.shape == shard_dims(sharding, w.shape)
            _assert_same(x[tuple(slice(0, n) for n in part.shape)], part, tolerance, device)
    return found


def _assert_same(got: np.ndarray, want: np.ndarray, tolerance: float, device: int) -> None:
    where = f"on device {device}"
    if tolerance and want.dtype.kind not in "biu":
        wide = [x.astype(np.complex128) for x in (got, want)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance, err_msg=where)
    elif got.tobytes() != want.tobytes():
        np.testing.assert_array_equal(got, want, where)
        if element_type_of(want.dtype).bits < 8:
            return  # the rest of the byte is free
        raise AssertionError(f"other bits of equal numbers {where}: {got} is not {want}")


def _leaves(value: Any) -> list[np.ndarray]:
    parts = value if isinstance(value, tuple | list) else (value,)
    return [np.asarray(leaf) for part in parts for leaf in (
        _leaves(part) if isinstance(part, tuple | list) else [part])]  # fmt: skip
