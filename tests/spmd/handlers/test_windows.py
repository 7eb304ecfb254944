"""Operations whose elements move along cut dimensions, on random shapes and shardings."""

from __future__ import annotations

import random

import pytest

import hlo
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
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
    types = [p.array_shape.element_type for p in module.entry.parameters]
    sums = any(i.opcode in ("convolution", "reduce-window", "select-and-scatter")
               for i in module.instructions())  # fmt: skip
    if not sums:
        return 0.0
    return 0.1 if any(t.bits <= 16 for t in types) else 1e-4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("opcode", sorted(GENERATORS))
def test_random_operations(opcode: str, seed: int) -> None:
    check(opcode, seed)


@pytest.mark.parametrize(
    ("before", "after"),
    [("10,8", "5,16"), ("7,6", "14,3"), ("12", "3,4"), ("3,4", "12"), ("1,9,2,5", "18,5,1")],
)
@pytest.mark.parametrize("count", [2, 4, 6])
def test_reshapes_that_do_not_line_up(before: str, after: str, count: int) -> None:
    text = f"HloModule m\nENTRY e {{\n  x = s32[{before}] parameter(0)\n"
    module = hlo.parse(f"{text}  ROOT r = s32[{after}] reshape(x)\n}}")
    mesh = DeviceMesh((count,) if count < 4 else (2, count // 2))

    def rows(dims: str) -> PartitionSpec:
        sizes = dims.split(",")
        first = next(n for n, size in enumerate(sizes) if size != "1")
        return PartitionSpec(((),) * len(sizes)).with_dim(first, mesh.axes)

    annotate(module, mesh, [rows(before)], [rows(after)])
    found = run_partitioned(module, hlo.random_inputs(module, seed=1))
    assert not found.notes
