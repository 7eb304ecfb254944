"""Halo exchange: what each device needs of a cut dimension."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hlo.ir import Module
from hlo.spmd.halo.exchange import Reach, exchange
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.value import Sharded
from hlo.values.types import array
from tests.harness.spmd import on_devices, program, shards

_MESHES = (DeviceMesh((2,)), DeviceMesh((2, 2)), DeviceMesh((2, 3)), DeviceMesh((2, 2, 2)))


def _exchanged(
    mesh: DeviceMesh,
    x: np.ndarray,
    spec: PartitionSpec,
    dim: int,
    reach: Reach,
    fill: float | None,
    periodic: bool,
) -> tuple[Module, list[np.ndarray]]:
    """Return the program of an exchange, and what each device gets."""

    def run(b, values):
        local = exchange(b, values[0], dim, reach, fill, periodic)
        return [Sharded(local, spec, local.array_shape)]

    written, _ = program(mesh, [(array("s32", x.shape), spec)], run)
    found = on_devices(written.module, [[s] for s in shards(mesh, x, spec)], backend="reference")
    return written.module, [leaves[0] for leaves in found]


def _check(
    mesh: DeviceMesh,
    x: np.ndarray,
    spec: PartitionSpec,
    dim: int,
    reach: Reach,
    fill: float | None,
    periodic: bool,
) -> None:
    _, found = _exchanged(mesh, x, spec, dim, reach, fill, periodic)
    moved = [
        mesh.coordinates(axes) * mesh.shard_size(n, axes)
        for n, axes in zip(x.shape, spec.dims, strict=True)
    ]
    local = mesh.local_dims(x.shape, spec)
    at = mesh.coordinates(reach.axes)
    size = x.shape[dim]
    for device, got in enumerate(found):
        assert got.shape[dim] == reach.size
        part = x[
            tuple(
                slice(None) if d == dim else slice(w[device], w[device] + n)
                for d, (w, n) in enumerate(zip(moved, local, strict=True))
            )
        ]
        got = got[tuple(slice(None) if d == dim else slice(0, n) for d, n in enumerate(part.shape))]
        start, count = int(reach.starts[at[device]]), int(reach.counts[at[device]])
        for n in range(count):
            here = np.take(got, n, dim)
            if periodic or 0 <= start + n < size:
                assert np.array_equal(here, np.take(part, (start + n) % size, dim)), (device, n)
            elif fill is not None:
                assert np.all(here == fill), (device, n)


def _case(seed: int) -> tuple:
    draw = random.Random(seed)
    mesh = draw.choice(_MESHES)
    axes = list(mesh.axes)
    draw.shuffle(axes)
    cut: Axes = tuple(axes[: draw.randint(1, len(axes))])
    count = mesh.count(cut)
    dim = draw.randint(0, 1)
    dims = [draw.randint(0, 3), draw.randint(0, 3)]
    size = dims[dim] = draw.choice([0, 1, 3, count, 2 * count, 3 * count, draw.randint(1, 30)])
    whole = draw.random() < 0.2
    spec = PartitionSpec(((),) * 2).with_dim(dim, () if whole else cut)
    periodic = size > 0 and draw.random() < 0.3
    need = draw.randint(0, max(1, size + 4))
    step, first = draw.randint(-2, size // count + 2), draw.randint(-5, size + 2)
    starts = np.array([first + step * c for c in range(count)])
    counts = np.full(count, need)
    if draw.random() < 0.3:
        starts = np.array([draw.randint(-4, size + 4) for _ in range(count)])
        counts = np.array([draw.randint(0, need) for _ in range(count)])
    x = np.arange(np.prod(dims), dtype=np.int32).reshape(dims) + 100
    reach = Reach(cut, starts, counts, need + draw.randint(0, 1))
    return mesh, x, spec, dim, reach, draw.choice([None, 0, 7]), periodic


@pytest.mark.parametrize("seed", range(40))
def test_each_device_gets_the_elements_it_needs(seed: int) -> None:
    _check(*_case(seed))


def _collectives(module: Module) -> list[tuple[str, int, int]]:
    """Return opcode, elements and number of pairs of the collectives of a program."""
    found = []
    for inst in module.entry:
        if inst.opcode == "collective-permute":
            found.append((inst.opcode, inst.array_shape.dims[0], len(inst.source_target_pairs)))
        elif inst.opcode in ("all-gather", "all-to-all", "all-reduce"):
            found.append((inst.opcode, inst.array_shape.dims[0], 0))
    return found


@pytest.mark.parametrize(
    ("size", "starts", "need", "periodic", "expected"),
    [
        # Both sides of a window of 3: one element each way.
        (16, [-1, 3, 7, 11], 6, False, [("collective-permute", 1, 3)] * 2),
        # Nobody needs what others have.
        (16, [0, 4, 8, 12], 4, False, []),
        # A halo wider than a shard comes from two neighbours.
        (
            16, [-6, -2, 2, 6], 10, False,
            [("collective-permute", 4, 3), ("collective-permute", 2, 2)],
        ),
        # A slice of the middle: only two devices need anything, from different ones, in one go.
        (20, [2, 6, 10, 14], 4, False, [("collective-permute", 1, 2)]),
        # A rotation goes around.
        (16, [1, 5, 9, 13], 4, True, [("collective-permute", 1, 4)]),
        # All of it for all devices.
        (16, [0, 0, 0, 0], 16, False, [("all-gather", 16, 0)]),
    ],
)  # fmt: skip
def test_only_what_is_needed_is_sent(
    size: int, starts: list[int], need: int, periodic: bool, expected: list
) -> None:
    mesh, axes = DeviceMesh((2, 2)), (0, 1)
    reach = Reach(axes, np.array(starts), np.full(4, need), need)
    x = np.arange(size, dtype=np.int32)
    args = (mesh, x, PartitionSpec((axes,)), 0, reach, 0, periodic)
    _check(*args)
    assert _collectives(_exchanged(*args)[0]) == expected
