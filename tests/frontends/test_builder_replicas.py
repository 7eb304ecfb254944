"""Collectives of the builder, on ours and on XLA:CPU, with the documents' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import XlaBuilder, XlaComputation
from hlo.values.types import Layout
from tests.harness.builder_cases import Case, plus
from tests.harness.devices import BACKENDS, assert_equal
from tests.harness.replicas import run_on_devices

_X = np.arange(2 * 2 * 4, dtype=np.float32).reshape(2, 2, 4)

# Of the first example of "AllToAll": four cores, on each a [4,16] array.
_CORES = np.arange(4 * 4 * 16, dtype=np.float32).reshape(4, 4, 16)

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
    "AllToAll of four cores": (
        lambda b, p: b.all_to_all(p("f32[4,16]"), 1, 0, 4),
        _CORES, [np.concatenate([_CORES[c, :, 4 * r : 4 * r + 4] for c in range(4)])
                 for r in range(4)],
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


# XLA:CPU has no rule for some, and dies of others.
OURS: dict[str, tuple[Case, Any, Any]] = {
    "CollectiveBroadcast": (
        lambda b, p: b.collective_broadcast(p("f32[2]"), [[1, 0]]),
        [[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0]] * 2,
    ),
}  # fmt: skip


def built(name: str) -> XlaComputation:
    b = XlaBuilder("replicas")
    return b.build((CASES | OURS)[name][0](b, lambda shape: b.parameter(0, shape)))


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    programs = []
    for name, (_, values, _) in CASES.items():
        count = len(values)
        text = str(built(name).module(replica_count=count))
        if "all-to-all" in text:  # XLA wants its groups spelled out
            text = text.replace("replica_groups={},", "replica_groups={{0,1,2,3}},")
        programs.append((text, (count, 1), [np.asarray(values, np.float32)]))
    return dict(zip(CASES, run_on_devices(programs), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_replicas_of_xla_compute_what_the_page_says(name: str, answers: dict[str, Any]) -> None:
    got = answers[name]
    assert not isinstance(got, str), got
    assert_equal(got, [[want] for want in CASES[name][2]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES | OURS)
def test_ours_do_too(name: str, backend: str) -> None:
    _, values, want = (CASES | OURS)[name]
    client = hlo.Client(len(values), backend=backend, cache=False)
    data = [client.transfer_to_server(np.asarray(v, np.float32), n) for n, v in enumerate(values)]
    results = client.execute_replicated(built(name), [[d] for d in data])
    assert_equal([[r] for r in results], [[w] for w in want])


@pytest.mark.parametrize("backend", BACKENDS)
def test_ragged_rows_go_where_the_page_says(backend: str) -> None:
    b = XlaBuilder("ragged")
    shapes = ["s32[3]", "s32[2]", "s32[2]", "s32[4]", "s32[2]", "s32[2]"]
    b.ragged_all_to_all(*(b.parameter(n, s) for n, s in enumerate(shapes)), [[0, 1]])
    # input, input_offsets, send_sizes, output, output_offsets, recv_sizes
    zeros = [0, 0, 0, 0]
    first = [[1, 2, 2], [0, 1], [1, 2], zeros, [0, 0], [1, 1]]
    second = [[3, 4, 0], [0, 1], [1, 1], zeros, [1, 2], [2, 1]]
    client = hlo.Client(2, backend=backend, cache=False)
    got = client.execute_replicated(b.build(), [first, second])
    assert [np.asarray(r).tolist() for r in got] == [[1, 3, 0, 0], [2, 2, 4, 0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_devices_know_their_numbers(backend: str) -> None:
    b = XlaBuilder("ids")
    b.tuple_([b.replica_id(), b.partition_id()])
    module = b.build().module(replica_count=2, num_partitions=3)
    client = hlo.Client(6, backend=backend, cache=False)
    got = [client.transfer(r).value for r in client.execute_replicated(module, [[]] * 6)]
    assert got == [(r, p) for r in range(2) for p in range(3)]
