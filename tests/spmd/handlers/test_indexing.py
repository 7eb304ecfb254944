"""Operations that find elements by index: partitioned, they give what they give whole."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hlo
from hlo.spmd.handlers.top_k import last_in_order
from hlo.spmd.mesh import DeviceMesh
from hlo.values.types import ELEMENT_TYPES
from tests.generators.sharded_indexing import CASES
from tests.harness.partitioned import MESHES, annotate, random_spec, run_partitioned


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_random_cases_equal_the_whole(name: str, seed: int) -> None:
    draw = random.Random(f"{name} {seed}")
    mesh = DeviceMesh(draw.choice(MESHES))
    case = CASES[name](draw)
    module = hlo.parse(case.text)
    parameters = [random_spec(draw, mesh, a.ndim) for a in case.arguments]
    results = [random_spec(draw, mesh, rank) for rank in case.result_ranks]
    annotate(module, mesh, parameters, results)
    run_partitioned(module, case.arguments, tolerance=case.tolerance)


CACHE = """HloModule m, num_partitions=4
ENTRY e {
  cache = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}
  new = f32[1,8] parameter(1), sharding={replicated}
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  ROOT r = f32[64,8] dynamic-update-slice(cache, new, at, zero), sharding={devices=[4,1]<=[4]}
}"""


def test_an_update_of_a_cache_exchanges_nothing() -> None:
    found = hlo.partition(hlo.parse(CACHE))
    assert not [i for i in found.module.instructions() if i.opcode.startswith("all-")]


def test_the_last_of_an_order_of_doubles() -> None:
    bits = [
        int(last_in_order(ELEMENT_TYPES["f64"], largest).view(np.uint64))
        for largest in (True, False)
    ]
    assert bits == [2**64 - 1, 2**63 - 1]
