"""Generated modules, partitioned, on all of their devices: they compute what they do on one."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.eval import interpret
from hlo.testing.sampling import random_value
from hlo.values.arrays import actual
from tests.generators.shardings import KINDS
from tests.harness.oracle import leaves
from tests.sweeps.compare_generated import compare_results
from tests.sweeps.compare_partitioned import compare_partitioned, run


@pytest.mark.parametrize("kind", KINDS)
def test_a_generated_module_is_partitioned(kind: str) -> None:
    compare_partitioned(kind, 0)


@pytest.mark.parametrize("kind", ["add", "dot", "flat"])
def test_a_generated_module_is_partitioned_and_compiled(kind: str) -> None:
    compare_partitioned(kind, 1, native=True)


PROGRAMS = {
    "a tuple behind a barrier": """
  x = f32[4,3] parameter(0), sharding={devices=[2,1]<=[2]}
  y = s32[5] parameter(1), sharding={devices=[2]1,0}
  t = (f32[4,3], s32[5]) tuple(x, y)
  ROOT b = (f32[4,3], s32[5]) opt-barrier(t), \
sharding={{devices=[1,2]<=[2]}, {devices=[2]<=[2]}}""",
    "a tuple that is copied to another layout": """
  x = f32[4,3]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  t = (f32[4,3]{1,0}) tuple(x)
  ROOT c = (f32[4,3]{0,1}) copy(t), sharding={{devices=[2,1]<=[2]}}""",
    "the links of an asynchronous operation": """
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  s = ((f32[4]), f32[4], u32[]) async-start(x), calls=wrapped
  u = ((f32[4]), f32[4], u32[]) async-update(s)
  ROOT d = f32[4] async-done(u), sharding={devices=[2]<=[2]}""",
    "an array of dynamic size, cut along its other dimension": """
  x = f32[5,3] parameter(0), sharding={devices=[2,1]<=[2]}
  n = s32[] constant(2)
  ROOT d = f32[5,<=3] set-dimension-size(x, n), dimensions={1}, \
sharding={devices=[2,1]<=[2]}""",
    "a dynamic dimension, which stays whole": """
  x = f32[5,3] parameter(0)
  n = s32[] constant(2)
  d = f32[5,<=3] set-dimension-size(x, n), dimensions={1}, sharding={devices=[1,2]<=[2]}
  t = f32[<=3,5] transpose(d), dimensions={1,0}, sharding={devices=[1,2]1,0}
  ROOT m = f32[<=3,5] negate(t), sharding={devices=[2,1]<=[2]}""",
    "the largest of unsigned numbers": """
  x = u16[9] parameter(0), sharding={devices=[2]<=[2]}
  ROOT t = (u16[3], s32[3]) topk(x), k=3, largest=true""",
    "a token that orders": """
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  n = f32[4] negate(x)
  t = token[] after-all(n)
  ROOT d = f32[4] add-dependency(x, t)""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_partitioned(name: str) -> None:
    module = hlo.parse(
        "HloModule m, num_partitions=2 "
        "wrapped { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) } "
        f"ENTRY e {{{PROGRAMS[name]} }}"
    )
    rng = np.random.default_rng(0)
    args = [random_value(rng, s) for s in module.entry.parameter_shapes]
    want = [actual(leaf) for leaf in leaves(interpret(module, args))]
    found = hlo.partition(module)
    text = str(found.module)
    assert str(hlo.parse(text)) == text
    got = [actual(leaf) for leaf in run(found, args)]
    compare_results(got, want, 0.0)
