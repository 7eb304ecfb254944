"""Changes of distribution: what devices have afterwards, and what it moves."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hlo.errors import InferError
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.spmd.reshard import moved_bytes, reshard
from hlo.values.types import S32, array
from tests.harness.spmd import on_devices, program, random_spec, same_shards, shards

MESHES = [(2,), (2, 2), (2, 3), (2, 2, 2)]
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 12)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize("backend", ["reference", "compiled"])
def test_random_reshards(sizes: tuple[int, ...], backend: str) -> None:
    draw = random.Random(f"{sizes} {backend}")
    mesh = DeviceMesh(sizes)
    cases = []
    for _ in range(8):
        dims = [draw.choice(SIZES) for _ in range(draw.randint(1, 3))]
        cases.append((dims, random_spec(draw, mesh, len(dims)), random_spec(draw, mesh, len(dims))))
    parameters = [(array(S32, dims), source) for dims, source, _ in cases]
    made, results = program(
        mesh, parameters,
        lambda b, xs: [reshard(b, x, target) for x, (_, _, target) in zip(xs, cases, strict=True)],
    )  # fmt: skip
    values = [np.arange(np.prod(dims, dtype=int), dtype=np.int32).reshape(dims)
              for dims, _, _ in cases]  # fmt: skip
    split = [shards(mesh, v, source) for v, (_, source, _) in zip(values, cases, strict=True)]
    found = on_devices(made.module, list(zip(*split, strict=True)), backend)
    for n, (value, (_, source, target)) in enumerate(zip(values, cases, strict=True)):
        assert results[n].spec == target
        assert same_shards(mesh, value, target, [each[n] for each in found]), (
            value.shape, source, target,
        )  # fmt: skip


def test_reshards_are_recorded() -> None:
    mesh = DeviceMesh((2, 2))
    source, target = PartitionSpec(((0,), ())), PartitionSpec(((), (1,)))
    shape = array(S32, (8, 8))
    made, _ = program(mesh, [(shape, source)], lambda b, xs: [reshard(b, xs[0], target)])
    (record,) = made.reshards
    assert (record.source, record.target, record.shape) == (source, target, shape)
    assert record.bytes == moved_bytes(mesh, shape, source, target)


def test_manual_axes_have_to_agree() -> None:
    mesh = DeviceMesh((2, 2))
    with pytest.raises(InferError, match="manual axes"):
        moved_bytes(mesh, array(S32, (4,)), PartitionSpec(((1,),), (0,)), PartitionSpec(((1,),)))
