"""`jax.experimental.custom_partitioning` on the plug-in."""

from __future__ import annotations

import pytest

from tests.jax.test_plugin import run_program

pytest.importorskip("jax")

PROGRAM = """
import jax, numpy as np
from functools import partial
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
rows = NamedSharding(mesh, P("x", None))

@custom_partitioning
def f(x):
    return x / x.sum(1, keepdims=True), x.sum()

def partition(mesh, operands, results):
    print("asked for", operands[0].sharding.spec)
    if FAILS:
        raise ValueError("no partition for this")
    def on_shards(x):
        return x / x.sum(1, keepdims=True), jax.lax.psum(x.sum(), "x")
    return mesh, on_shards, (rows, NamedSharding(mesh, P())), (rows,)

f.def_partition(partition, sharding_rule="i j -> i j, ", need_replication_factors=("j",))
x = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
normal, total = jax.jit(f)(jax.device_put(x, NamedSharding(mesh, P("x", "y"))))
np.testing.assert_allclose(normal, x / x.sum(1, keepdims=True), rtol=1e-6)
assert total == x.sum(), total
print(normal.sharding.spec)
"""


def test_shards_are_computed_by_the_function_of_the_program() -> None:
    done = run_program(PROGRAM.replace("FAILS", "False"), JAX_PLATFORMS="hlo", HLO_PJRT_DEVICES="4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["asked for P('x', 'y')", "P('x',)"], done.stdout


def test_an_exception_of_the_function_is_the_error() -> None:
    done = run_program(PROGRAM.replace("FAILS", "True"), JAX_PLATFORMS="hlo", HLO_PJRT_DEVICES="4")
    assert done.returncode == 1
    assert "its function for partitioning failed: ValueError: no partition for this" in done.stderr
