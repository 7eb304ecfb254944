"""Generated modules, partitioned, on all of their devices: they compute what they do on one."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.eval import interpret
from hlo.testing.sampling import random_value
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


HANDED_ON = {
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
    "a token that orders": """
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  n = f32[4] negate(x)
  t = token[] after-all(n)
  ROOT d = f32[4] add-dependency(x, t)""",
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_what_only_hands_on_values(name: str) -> None:
    module = hlo.parse(
        "HloModule m, num_partitions=2 "
        "wrapped { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) } "
        f"ENTRY e {{{HANDED_ON[name]} }}"
    )
    rng = np.random.default_rng(0)
    args = [random_value(rng, s) for s in module.entry.parameter_shapes]
    want = leaves(interpret(module, args))
    compare_results(run(hlo.partition(module), args), want, 0.0)
