"""Collectives of the builder on several devices of XLA:CPU, with the documents' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builder_cases import Case, plus
from replicas import run_on_replicas

from hlo.builder import XlaBuilder
from hlo.types import Layout

_X = np.arange(2 * 2 * 4, dtype=np.float32).reshape(2, 2, 4)

# name: (program of one parameter, its values by replica, results by replica)
CASES: dict[str, tuple[Case, Any, Any]] = {
    "AllGather": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 2),
        [[1.0, 2.5], [3.0, 5.25]], [[1.0, 2.5, 3.0, 5.25]] * 2,
    ),
    "AllReduce": (
        lambda b, p: b.all_reduce(p("f32[2]"), plus, [[0, 1]]),
        [[1.0, 2.5], [3.0, 5.25]], [[4.0, 7.75]] * 2,
    ),
    "CrossReplicaSum": (
        lambda b, p: b.cross_replica_sum(p("f32[2]")),
        [[1.0, 2.5], [3.0, 5.25]], [[4.0, 7.75]] * 2,
    ),
    "ReduceScatter": (
        lambda b, p: b.reduce_scatter(p("f32[2]"), plus, 0, 2),
        [[1.0, 2.25], [3.0, 5.25]], [[4.0], [7.5]],
    ),
    "AllToAll": (
        lambda b, p: b.all_to_all(p("f32[2,4]"), 1, 0, 2, [[0, 1]]),
        _X, [np.concatenate([_X[0, :, 2 * r : 2 * r + 2], _X[1, :, 2 * r : 2 * r + 2]])
             for r in range(2)],
    ),
    "AllToAll, other way": (
        lambda b, p: b.all_to_all(p("f32[2,4]"), 0, 1, 2, [[0, 1]]),
        _X, [np.concatenate([_X[0, r : r + 1], _X[1, r : r + 1]], 1) for r in range(2)],
    ),
    "AllToAll in a layout": (
        lambda b, p: b.all_to_all(p("f32[2,4]"), 1, 0, 2, [[0, 1]], layout=Layout((0, 1))),
        _X, [np.concatenate([_X[0, :, 2 * r : 2 * r + 2], _X[1, :, 2 * r : 2 * r + 2]])
             for r in range(2)],
    ),
    "CollectivePermute": (
        lambda b, p: b.collective_permute(p("f32[2]"), [(0, 1)]),
        [[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [1.0, 2.0]],
    ),
    "ReplicaId": (
        lambda b, p: b.convert_element_type(b.replica_id(), "f32") + p("f32[1]"),
        [[0.0], [10.0]], [[0.0], [11.0]],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    programs = []
    for case, values, _ in CASES.values():
        b = XlaBuilder("replicas")
        root = case(b, lambda shape, b=b: b.parameter(0, shape))  # type: ignore[misc]
        module = b.build(root).module(replica_count=2)
        programs.append((str(module), [np.asarray(values, np.float32)]))
    return dict(zip(CASES, run_on_replicas(programs, 2), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_two_replicas_compute_what_the_page_says(name: str, answers: dict[str, Any]) -> None:
    got = answers[name]
    assert not isinstance(got, str), got
    for mine, want in zip(got, CASES[name][2], strict=True):
        np.testing.assert_array_equal(mine, want)
