"""Collectives of a program that is written per device along some axes, and cut along others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hlo
from tests.harness.oracle import leaves
from tests.sweeps.compare_partitioned import run

_GROUPS = "replica_groups={{0,2},{1,3}}, channel_id=1"
_IDS = f"{_GROUPS}, use_global_device_ids=true"
_SWAP = "source_target_pairs={{0,2},{2,0},{1,3},{3,1}}, channel_id=1"

# A collective of what two devices have, its rows on each, and what it makes of both halves.
COLLECTIVES: dict[str, tuple[str, int, Callable[[np.ndarray, np.ndarray], list[np.ndarray]]]] = {
    "all-reduce": (f"all-reduce(l), {_IDS}, to_apply=add", 4, lambda a, b: [a + b, a + b]),
    "all-gather": (f"all-gather(l), {_IDS}, dimensions={{0}}", 8, lambda a, b: [a, b, a, b]),
    "reduce-scatter": (
        f"reduce-scatter(l), {_IDS}, dimensions={{0}}, to_apply=add", 2, lambda a, b: [a + b],
    ),
    "all-to-all": (
        f"all-to-all(l), {_GROUPS}, dimensions={{0}}", 4, lambda a, b: [a[:2], b[:2], a[2:], b[2:]],
    ),
    "collective-permute": (f"collective-permute(l), {_SWAP}", 4, lambda a, b: [b, a]),
    "collective-broadcast": (f"collective-broadcast(l), {_GROUPS}", 4, lambda a, b: [a, a]),
}  # fmt: skip


@pytest.mark.parametrize("columns", [6, 5])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_is_cut_along_its_free_dimension(name: str, columns: int) -> None:
    line, rows, meaning = COLLECTIVES[name]
    inside = "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"
    module = hlo.parse(f"""HloModule m, num_partitions=4
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[8,{columns}] parameter(0), sharding={{devices=[2,2]<=[4]}}
  l = f32[4,{columns}] custom-call(x), custom_call_target="SPMDFullToShardShape", {inside}
  r = f32[{rows},{columns}] {line}, {inside}
  ROOT f = f32[{2 * rows},{columns}] custom-call(r), custom_call_target="SPMDShardToFullShape", \
sharding={{devices=[2,2]<=[4]}} }}""")
    found = hlo.partition(module)
    (made,) = [i for i in found.module.instructions() if i.opcode == name]
    assert made.array_shape.dims == (rows, -(-columns // 2))  # nothing is gathered for it
    assert not found.notes
    x = np.arange(8 * columns, dtype=np.float32).reshape(8, columns)
    for native in (False, True) if columns == 6 else (False,):
        (got,) = leaves(run(found, [x], native=native))
        np.testing.assert_array_equal(got, np.concatenate(meaning(x[:4], x[4:])))
