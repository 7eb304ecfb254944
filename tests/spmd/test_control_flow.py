"""Loops, branches, calls, tuples and manual regions of partitioned modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from tests.harness.partitioned import run_partitioned

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
# The state is cut along rows, the body wants columns, and reduces over rows.
LOOP = f"""HloModule loop, num_partitions=4
{ADD}body {{ p = (s32[], f32[6,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[6,8] get-tuple-element(p), index=1
  s = f32[8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[] constant(0)
  r = f32[8] reduce(x, z), dimensions={{0}}, to_apply=add
  t = f32[8] add(s, r)
  y = f32[6,8] negate(x), sharding={{devices=[1,4]<=[4]}}
  ROOT o = (s32[], f32[6,8], f32[8]) tuple(j, y, t) }}
condition {{ p = (s32[], f32[6,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ x = f32[6,8] parameter(0), sharding={{devices=[4,1]<=[4]}}
  z = s32[] constant(0)
  s = f32[8] parameter(1)
  t = (s32[], f32[6,8], f32[8]) tuple(z, x, s)
  ROOT w = (s32[], f32[6,8], f32[8]) while(t), condition=condition, body=body }}
"""
BRANCHES = """HloModule branches, num_partitions=6
a { p = (f32[5,7], f32[7]) parameter(0)
  x = f32[5,7] get-tuple-element(p), index=0
  y = f32[7] get-tuple-element(p), index=1
  b = f32[5,7] broadcast(y), dimensions={1}
  ROOT r = f32[5,7] add(x, b) }
b { x = f32[5,7] parameter(0)
  ROOT r = f32[5,7] multiply(x, x), sharding={devices=[3,2]<=[6]} }
ENTRY e { c = pred[] parameter(0)
  x = f32[5,7] parameter(1), sharding={devices=[2,3]<=[3,2]T(1,0)}
  y = f32[7] parameter(2), sharding={devices=[6]5,4,3,2,1,0}
  t = (f32[5,7], f32[7]) tuple(x, y)
  ROOT r = f32[5,7] conditional(c, t, x), true_computation=a, false_computation=b }
"""
CALLS = """HloModule calls, num_partitions=2
twice { x = f32[4,6] parameter(0)  ROOT y = f32[4,6] add(x, x) }
ENTRY e { x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[4,6] call(x), to_apply=twice
  z = f32[4,6] negate(y), sharding={devices=[1,2]<=[2]}
  ROOT w = f32[4,6] call(z), to_apply=twice }
"""
MAXIMAL = """HloModule one_device, num_partitions=4
ENTRY e { x = f32[4] parameter(0), sharding={maximal device=2}
  y = f32[4] negate(x), sharding={maximal device=1}
  ROOT z = f32[4] add(x, y), sharding={devices=[4]<=[4]} }
"""


def arrays(*dims: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, d).astype(np.float32) for d in dims]


CASES: dict[str, tuple[str, list[Any]]] = {
    "loop": (LOOP, arrays((6, 8), (8,))),
    "then": (BRANCHES, [np.array(True), *arrays((5, 7), (7,))]),
    "else": (BRANCHES, [np.array(False), *arrays((5, 7), (7,))]),
    "calls": (CALLS, arrays((4, 6))),
    "maximal": (MAXIMAL, arrays((4,))),
}


@pytest.mark.parametrize("backend", ["reference", "compiled"])
@pytest.mark.parametrize("case", CASES)
def test_a_partitioned_module_computes_the_same(case: str, backend: str) -> None:
    text, arguments = CASES[case]
    # Sums of small integers are exact in any order.
    run_partitioned(hlo.parse(text), arguments, backend)


def test_tuples_in_tuples_and_orders_of_devices() -> None:
    module = hlo.parse("""HloModule nested, num_partitions=2
ENTRY e {
  p = ((f32[4], s32[]), (f32[3,2])) parameter(0),
    sharding={{devices=[2]<=[2]}, {replicated}, {devices=[1,2]<=[2]}}
  a = (f32[4], s32[]) get-tuple-element(p), index=0
  b = (f32[3,2]) get-tuple-element(p), index=1
  x = f32[4] get-tuple-element(a), index=0
  y = f32[4] sqrt(x)
  ROOT r = ((f32[3,2]), f32[4], (f32[4], s32[])) tuple(b, y, a),
    sharding={{replicated}, {devices=[2]1,0}, {devices=[2]<=[2]}, {replicated}}
}
""")
    x, (y,) = (np.float32([1, 4, 9, 16]), np.int32(7)), (np.ones((3, 2), np.float32),)
    (whole,), roots, (again, seven) = hlo.compile(module, devices=2)((x, (y,)))
    np.testing.assert_array_equal(whole, y)
    np.testing.assert_array_equal(roots, [1, 2, 3, 4])
    np.testing.assert_array_equal(again, x[0])
    assert seven == 7


def test_replicas_of_partitions() -> None:
    module = hlo.parse(f"""HloModule both, num_partitions=2, replica_count=2
{ADD}ENTRY e {{
  x = f32[4,6] parameter(0), sharding={{devices=[1,2]<=[2]}}
  w = f32[6,3] parameter(1), sharding={{devices=[2,1]<=[2]}}
  d = f32[4,3] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[4,3] all-reduce(d), replica_groups={{{{0,1}}}}, to_apply=add
}}
""")
    # Over the replicas, of what the partitions of each have added up.
    x, w = arrays((4, 6), (6, 3))
    found = hlo.compile(module, devices=4)(x, w)
    np.testing.assert_array_equal(found, 2 * (x @ w))


MANUAL = f"""HloModule manual, num_partitions=4
{ADD}ENTRY e {{
  x = f32[8,6] parameter(0), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
  y = f32[8,6] negate(x)
  whole = f32[8,6] custom-call(y), custom_call_target="Sharding",
    sharding={{devices=[2,2]<=[4]}}
  part = f32[4,3] custom-call(whole), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  sum = f32[4,3] all-reduce(part), channel_id=1, replica_groups={{{{0,2}},{{1,3}}}},
    use_global_device_ids=true, to_apply=add
  id = u32[] partition-id(), sharding={{manual}}
  number = f32[] convert(id), sharding={{manual}}
  numbers = f32[4,3] broadcast(number), dimensions={{}}, sharding={{manual}}
  told = f32[4,3] add(sum, numbers), sharding={{manual}}
  ROOT r = f32[8,6] custom-call(told), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,2]<=[4]}}
}}
"""


@pytest.mark.parametrize("backend", ["reference", "compiled"])
def test_a_manual_region_is_written_per_device(backend: str) -> None:
    (x,) = arrays((8, 6))
    found = hlo.compile(hlo.parse(MANUAL), devices=4, backend=backend)(x)
    # Both halves of the rows have the sum of both, and the number of their device.
    sums = -(x[:4] + x[4:])
    want = np.block([[sums[:, :3], sums[:, 3:] + 1], [sums[:, :3] + 2, sums[:, 3:] + 3]])
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("backend", ["reference", "compiled"])
def test_a_region_that_is_manual_along_one_axis(backend: str) -> None:
    """Along the other axis the partitioner goes on: the sum over columns is reduced there."""
    module = hlo.parse(f"""HloModule half, num_partitions=4
{ADD}ENTRY e {{
  x = f32[8,6] parameter(0), sharding={{devices=[2,2]<=[4]}}
  part = f32[4,6] custom-call(x), custom_call_target="SPMDFullToShardShape",
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
  zero = f32[] constant(0),
    sharding={{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={{replicated, manual}}}}
  rows = f32[4] reduce(part, zero), dimensions={{1}}, to_apply=add,
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{replicated, manual}}}}
  total = f32[4] all-reduce(rows), channel_id=1, replica_groups={{{{0,2}},{{1,3}}}},
    use_global_device_ids=true, to_apply=add,
    sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{replicated, manual}}}}
  ROOT r = f32[8] custom-call(total), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}}
}}
""")
    (x,) = arrays((8, 6))
    rows = x.sum(1)
    found = hlo.compile(module, devices=4, backend=backend)(x)
    np.testing.assert_array_equal(found, np.tile(rows[:4] + rows[4:], 2))


def test_a_device_that_is_none() -> None:
    text = LOOP.replace("{devices=[4,1]<=[4]}", "{devices=[4,1]-1,1,2,3}")
    with pytest.raises(HloError, match="names a device that is not there: there are 4"):
        hlo.partition(hlo.parse(text))


def test_an_alias_is_kept_where_both_ends_are_cut_alike() -> None:
    text = """HloModule alias, num_partitions=2, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  y = f32[4] parameter(1), sharding={devices=[2]<=[2]}
  ROOT t = (f32[4], f32[4]) tuple(x, y), sharding={{devices=[2]<=[2]}, {replicated}}
}
"""
    module = hlo.partition(hlo.parse(text)).module
    hlo.verify(module)
    assert [a.output for a in module.attrs["input_output_alias"]] == [(0,)]


def test_a_result_that_only_its_root_annotates() -> None:
    module = hlo.parse("""HloModule root, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  t = (f32[4]) tuple(x)
  ROOT y = f32[4] get-tuple-element(t), index=0, sharding={devices=[2]<=[2]}
}
""")
    assert hlo.partition(module).module.entry.result_shape.dims == (2,)


def test_shardings_by_shardys_axes_are_read_first() -> None:
    module = hlo.parse("""HloModule m, num_partitions=2,
  frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2]>}}
ENTRY e { ROOT x = f32[4] parameter(0) }
""")
    with pytest.raises(HloError, match="shardy-xla"):
        hlo.optimize(module, "sharding-propagation,spmd-partitioning")


def test_partial_sums_of_a_narrow_type_are_wide() -> None:
    module = hlo.parse("""HloModule narrow, num_partitions=2
ENTRY e {
  x = f8e4m3fn[1,2] parameter(0), sharding={devices=[1,2]<=[2]}
  y = f8e4m3fn[2,1] parameter(1), sharding={devices=[2,1]<=[2]}
  ROOT z = f8e4m3fn[1,1] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""")
    # Each half is 800, more than the type has.
    found = hlo.compile(module, devices=2)([[400, -400]], [[2], [2]])
    assert found.astype(np.float32).tolist() == [[0.0]]
