"""Operations whose elements move along cut dimensions, on random shapes and shardings."""

from __future__ import annotations

import random

import pytest

import hlo
from hlo.spmd.mesh import DeviceMesh
from tests.generators.windowed import GENERATORS
from tests.harness.partitioned import MESHES, annotate, random_spec, run_partitioned


def check(opcode: str, seed: int, backend: str = "reference") -> None:
    """Run a random operation under random shardings, partitioned and not."""
    draw = random.Random(f"{opcode} {seed}")
    module = hlo.parse(GENERATORS[opcode](draw))
    mesh = DeviceMesh(draw.choice(MESHES))
    results = [shape for _, shape in module.entry.root.shape.leaves()]
    annotate(
        module, mesh,
        [random_spec(draw, mesh, p.array_shape.rank) for p in module.entry.parameters],
        [random_spec(draw, mesh, shape.rank) for shape in results],
    )  # fmt: skip
    arguments = hlo.random_inputs(module, seed=seed)
    run_partitioned(module, arguments, backend, tolerance=_tolerance(module))


def _tolerance(module: hlo.Module) -> float:
    return 0.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("opcode", sorted(GENERATORS))
def test_random_operations(opcode: str, seed: int) -> None:
    check(opcode, seed)
