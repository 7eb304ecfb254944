"""Collectives on 2 and 4 devices: both of our backends against XLA:CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.harness.devices import BACKENDS, assert_equal, program, run_here
from tests.harness.replicas import Program, run_on_devices


def values(dtype: Any, devices: int, *dims: int, seed: int = 0) -> np.ndarray:
    """Return small whole numbers, whose sums and products are exact in any type."""
    found = np.random.default_rng([seed, devices, *dims]).integers(0, 3, (devices, *dims))
    return found.astype(dtype) if dtype is not bool else found > 0


F32 = values(np.float32, 4, 4, 2)
S32 = values(np.int32, 4, 4, 2)
BF16 = values(ml_dtypes.bfloat16, 4, 4, 2)
PRED = values(bool, 4, 4, 2)
HALVES, GLOBAL = "replica_groups={{0,1},{2,3}}", "channel_id=1, use_global_device_ids=true"

# Each with how many replicas and partitions there are, and the values of x0, ...
XLA: dict[str, Program] = {
    # Types and reductions.
    "sum of f32": program(
        "f32[4,2] all-reduce(x0), replica_groups={}, to_apply=add", (4, 1), [F32]),
    "sum of s32": program(
        "s32[4,2] all-reduce(x0), replica_groups={}, to_apply=add", (2, 1), [S32[:2]]),
    "product of bf16": program(
        "bf16[4,2] all-reduce(x0), replica_groups={}, to_apply=multiply", (4, 1), [BF16]),
    "or of pred": program(
        "pred[4,2] all-reduce(x0), replica_groups={}, to_apply=or", (4, 1), [PRED]),
    "maximum, two arrays": program(
        "(f32[4,2], f32[3]) all-reduce(x0, x1), replica_groups={}, to_apply=maximum", (2, 1),
        [F32[:2], values(np.float32, 2, 3)]),
    "gather of pred": program(
        "pred[4,8] all-gather(x0), replica_groups={}, dimensions={1}", (4, 1), [PRED]),
    "gather of bf16 in another layout": program(
        "bf16[8,2]{0,1} all-gather(x0), replica_groups={}, dimensions={0}", (2, 1), [BF16[:2]]),
    "permutation of s32": program(
        "s32[4,2] collective-permute(x0), source_target_pairs={{0,1},{1,2},{3,0}}", (4, 1), [S32]),
    "exchange of bf16": program(
        "bf16[4,2] all-to-all(x0), replica_groups={{0,1,2,3}}, dimensions={0}", (4, 1), [BF16]),
    "scattered sums of f32": program(
        "f32[1,2] reduce-scatter(x0), replica_groups={}, dimensions={0}, to_apply=add", (4, 1),
        [F32]),
    # Groups.
    "groups": program(
        f"f32[4,2] all-reduce(x0), {HALVES}, to_apply=add", (4, 1), [F32]),
    "groups of different sizes": program(
        "f32[4,2] all-reduce(x0), replica_groups={{0,2,3},{1}}, to_apply=add", (4, 1), [F32]),
    "groups of one": program(
        "f32[4,2] all-reduce(x0), replica_groups={{0},{1}}, to_apply=add", (2, 1), [F32[:2]]),
    "groups in another order": program(
        "f32[8,2] all-gather(x0), replica_groups={{3,0},{2,1}}, dimensions={0}", (4, 1), [F32]),
    "groups of a grid": program(
        "f32[8,2] all-gather(x0), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}", (4, 1),
        [F32]),
    "exchange in groups": program(
        "f32[4,2] all-to-all(x0), replica_groups={{2,0},{1,3}}, dimensions={1}", (4, 1), [F32]),
    "exchange of arrays": program(
        "(s32[4,2], s32[4,2]) all-to-all(x0, x1), replica_groups={{1,0}}", (2, 1),
        [S32[:2], S32[2:]]),
    "scatter in groups": program(
        "s32[2,2] reduce-scatter(x0), replica_groups={{3,1},{0,2}}, dimensions={0}, to_apply=add",
        (4, 1), [S32]),
    # Modes.
    "across replicas": program(
        "f32[4,2] all-reduce(x0), replica_groups={{0,1}}, to_apply=add", (2, 2), [F32]),
    "across partitions": program(
        "f32[8,2] all-gather(x0), replica_groups={{1,0}}, channel_id=1, dimensions={0}, "
        "use_global_device_ids=true".replace("{{1,0}}", "{{1,0},{3,2}}"), (2, 2), [F32]),
    "across partitions, as an exchange has it": program(
        "f32[4,2] all-to-all(x0), replica_groups={{1,0}}, channel_id=1, dimensions={0}", (2, 2),
        [F32]),
    "across replicas and partitions": program(
        "f32[16,2] all-gather(x0), replica_groups={{1,0}}, channel_id=1, dimensions={0}", (2, 2),
        [F32]),
    "across replicas and partitions, of one replica": program(
        "f32[4,2] all-reduce(x0), replica_groups={{0},{1}}, channel_id=1, to_apply=add", (2, 2),
        [F32]),
    "numbers of devices": program(
        f"f32[4,2] all-reduce(x0), replica_groups={{{{0,3}},{{2,1}}}}, {GLOBAL}, to_apply=add",
        (2, 2), [F32]),
    "numbers of partitions": program(
        f"f32[2,2] reduce-scatter(x0), replica_groups=[2,2]<=[4], {GLOBAL}, dimensions={{0}}, "
        "to_apply=add", (1, 4), [F32]),
    "permutation of replicas": program(
        "f32[4,2] collective-permute(x0), source_target_pairs={{0,1}}", (2, 2), [F32]),
    "permutation of partitions": program(
        "f32[4,2] collective-permute(x0), source_target_pairs={{1,0}}, channel_id=1", (2, 2),
        [F32]),
    "ids": program(
        "(u32[], u32[]) tuple(i, p)", (2, 2), [F32],
        before="i = u32[] replica-id()\np = u32[] partition-id()"),
    # Several, one after the other.
    "in a loop": program(
        "(s32[], f32[2]) while(s), condition=c, body=b", (2, 1), [F32[:2, 0]],
        before="z = s32[] constant(0)\ns = (s32[], f32[2]) tuple(z, x0)",
        more="""add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
c { p = (s32[], f32[2]) parameter(0)  n = s32[] get-tuple-element(p), index=0
  m = s32[] constant(5)  ROOT r = pred[] compare(n, m), direction=LT }
b { p = (s32[], f32[2]) parameter(0)  n = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1  o = s32[] constant(1)  i = s32[] add(n, o)
  y = f32[2] all-reduce(x), replica_groups={}, to_apply=add
  z = f32[2] collective-permute(y), source_target_pairs={{0,1}}
  w = f32[2] subtract(y, z)  ROOT r = (s32[], f32[2]) tuple(i, w) }"""),
}  # fmt: skip


@cache
def answers() -> dict[str, Any]:
    return dict(zip(XLA, run_on_devices(list(XLA.values())), strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", XLA)
def test_devices_compute_what_those_of_xla_do(name: str, backend: str) -> None:
    want = answers()[name]
    assert not isinstance(want, str), want
    assert_equal(run_here(XLA[name], backend), want)
