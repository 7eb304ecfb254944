"""Changes of distribution: what devices have afterwards, and what it moves."""

from __future__ import annotations

from collections import Counter

import pytest

from hlo.errors import InferError
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.spmd.redistribution.plan import plan
from hlo.spmd.redistribution.reshard import moved_bytes, reshard
from hlo.values.types import S32, array
from tests.generators.reshards import COLLECTIVES, check, generate
from tests.harness.spmd import program


@pytest.mark.parametrize("seed", range(14))
def test_random_changes(seed: int) -> None:
    check(generate(seed, 6), ("reference", "compiled")[seed % 2])


def collectives(
    sizes: tuple[int, ...], dims: tuple[int, ...], source: PartitionSpec, target: PartitionSpec
) -> dict[str, int]:
    """Return the collectives of a change, and the elements of their results."""
    shape = array(S32, dims)
    made, _ = program(
        DeviceMesh(sizes), [(shape, source)], lambda b, xs: [reshard(b, xs[0], target)]
    )
    found = Counter[str]()
    for inst in made.module.entry:
        if inst.opcode in COLLECTIVES:
            found[inst.opcode] += inst.array_shape.num_elements
    return dict(found)


def spec(*dims: tuple[int, ...], unreduced: tuple[int, ...] = ()) -> PartitionSpec:
    return PartitionSpec(dims, (), unreduced)


@pytest.mark.parametrize(
    ("sizes", "dims", "source", "target", "wanted"),
    [
        ((2, 2), (8, 8), spec((), ()), spec((0,), (1,)), {}),
        ((2, 2), (8, 8), spec((0,), ()), spec((0, 1), ()), {}),
        ((2, 2), (8, 8), spec((0, 1), ()), spec((0,), ()), {"all-gather": 32}),
        ((2, 2), (8, 8), spec((0,), (1,)), spec((), ()), {"all-gather": 64}),
        ((2,), (8, 8), spec((0,), ()), spec((), (0,)), {"all-to-all": 32}),
        ((2, 2), (8, 8, 8, 8), spec((0,), (), (1,), ()), spec((), (0,), (), (1,)),
         {"all-to-all": 1024}),
        ((2, 2), (8, 8), spec((0, 1), ()), spec((1, 0), ()), {"collective-permute": 16}),
        ((2, 2), (8, 8), spec((0,), (1,)), spec((1,), (0,)), {"collective-permute": 16}),
        ((2, 2), (8, 8), spec((0,), ()), spec((1,), ()), {"collective-permute": 32}),
        # Half an array arrives in two parts, where gathering it would take all of it.
        ((2, 3), (12,), spec((0,)), spec((1,)), {"collective-permute": 2, "all-gather": 4}),
        # The second device lacks an element of what it has after the all-gather.
        ((2, 2), (5,), spec((0, 1)), spec((0,)), {"all-gather": 4, "collective-permute": 1}),
        ((2, 2), (8, 8), spec((), (), unreduced=(0, 1)), spec((0,), (1,)), {"reduce-scatter": 16}),
        ((2, 2), (8, 8), spec((), (), unreduced=(0,)), spec((), (1,)), {"all-reduce": 32}),
        ((2, 2), (8, 8), spec((0,), ()), spec((), (1,), unreduced=(0,)), {}),
    ],
)  # fmt: skip
def test_the_cheapest_collectives(
    sizes: tuple[int, ...], dims: tuple[int, ...], source: PartitionSpec, target: PartitionSpec,
    wanted: dict[str, int],
) -> None:  # fmt: skip
    assert collectives(sizes, dims, source, target) == wanted
    moved = moved_bytes(DeviceMesh(sizes), array(S32, dims), source, target)
    assert moved == 4 * sum(wanted.values())


def test_no_step_is_larger_than_both_ends() -> None:
    """Moving axes between three dimensions of many devices: arrays stay small on the way."""
    mesh = DeviceMesh((2,) * 6)
    source, target = spec((0, 1, 2), (3, 4, 5), ()), spec((3, 4), (5, 0), (2, 1))
    found = plan(mesh, (64, 64, 64), source, target)
    assert max(step.after.elements for step in found.steps) == 64**3 // mesh.size
    assert found.elements <= 2 * 64**3 // mesh.size


def test_axes_that_stay_together_are_one() -> None:
    mesh = DeviceMesh((2,) * 12)
    source, target = spec(tuple(range(12)), ()), spec((), tuple(range(12)))
    (step,) = plan(mesh, (1 << 12, 1 << 12), source, target).steps
    assert step.kind.value == "all-to-all"


def test_changes_are_recorded() -> None:
    mesh = DeviceMesh((2, 2))
    source, target = spec((0,), ()), spec((), (1,))
    shape = array(S32, (8, 8))
    made, _ = program(mesh, [(shape, source)], lambda b, xs: [reshard(b, xs[0], target)])
    (record,) = made.reshards
    assert (record.source, record.target, record.shape) == (source, target, shape)
    assert record.bytes == moved_bytes(mesh, shape, source, target)


def test_manual_axes_have_to_agree() -> None:
    mesh = DeviceMesh((2, 2))
    with pytest.raises(InferError, match="manual axes"):
        moved_bytes(mesh, array(S32, (4,)), PartitionSpec(((1,),), (0,)), PartitionSpec(((1,),)))
