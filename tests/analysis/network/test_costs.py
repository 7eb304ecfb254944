"""What collectives send, and how long that takes on a network without structure."""

from __future__ import annotations

import pytest

import hlo
from hlo.analysis.memory import peak_memory
from hlo.analysis.network.algorithms import algorithms_for
from hlo.analysis.network.costs import CollectiveCost, Network, collective_costs

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


def costs(body: str, header: str = "num_partitions=4", more: str = "") -> list[CollectiveCost]:
    module = hlo.parse(f"HloModule m, {header}\n{ADD}{more}ENTRY e {{ {body} }}")
    hlo.verify(module)
    return collective_costs(module, Network(bandwidth=1e6, latency=0.0))


ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (f"f32[64] all-reduce(x), {ALL}, to_apply=add", 2 * 256 * 3 / 4),
        (f"f32[256] all-gather(x), {ALL}, dimensions={{0}}", 1024 * 3 / 4),
        (f"f32[16] reduce-scatter(x), {ALL}, dimensions={{0}}, to_apply=add", 256 * 3 / 4),
        ("f32[64] all-to-all(x), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}",
         256 * 3 / 4),
        ("f32[64] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}", 256),
        ("f32[64] collective-permute(x), channel_id=1, source_target_pairs={{0,0}}", 0),
        ("f32[64] collective-broadcast(x), channel_id=1, replica_groups={{0,1,2,3}}", 384),
        ("f32[64] all-reduce(x), channel_id=1, replica_groups=[2,2]<=[4], "
         "use_global_device_ids=true, to_apply=add", 256),
        ("f32[64] all-reduce(x), replica_groups={}, to_apply=add", 0),
    ],
)  # fmt: skip
def test_bytes_that_each_device_sends(text: str, sent: float) -> None:
    (cost,) = costs(f"x = f32[64] parameter(0)  ROOT r = {text}")
    assert cost.sent_bytes == pytest.approx(sent)
    assert cost.seconds == pytest.approx(sent / 1e6)


def test_groups_of_replicas_meet_all_partitions() -> None:
    (cost,) = costs(
        "x = f32[64] parameter(0)  "
        "ROOT r = f32[64] all-reduce(x), channel_id=1, replica_groups={{0,1}}, to_apply=add",
        "replica_count=2, num_partitions=4",
    )
    assert cost.transfer.members == 8


def test_a_start_counts_as_the_collective() -> None:
    body = f"""x = f32[64] parameter(0)
      s = (f32[64], f32[256]) all-gather-start(x), {ALL}, dimensions={{0}}
      ROOT d = f32[256] all-gather-done(s)"""
    (cost,) = costs(body)
    assert cost.instruction.name == "s"
    assert (cost.sent_bytes, cost.transfer.result_bytes) == (768, 1024)
    wrapped = f"""w {{ p = f32[64] parameter(0)
      ROOT r = f32[16] reduce-scatter(p), {ALL}, dimensions={{0}}, to_apply=add }}
    """
    body = """x = f32[64] parameter(0)
      s = ((f32[64]), f32[16]) async-start(x), calls=w
      ROOT d = f32[16] async-done(s)"""
    (cost,) = costs(body, more=wrapped)
    assert (cost.instruction.name, cost.transfer.opcode) == ("s", "reduce-scatter")
    assert cost.sent_bytes == 192


LOOP = """
body {{ s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)
  r = f32[64] all-reduce(x), {all}, to_apply=add
  ROOT t = (s32[], f32[64]) tuple(j, r) }}
test {{ s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] {bound}  ROOT c = pred[] compare(i, n), direction=LT }}
"""


def test_loops_count_their_trips() -> None:
    body = """x = f32[64] parameter(0)  z = s32[] constant(0)
      t = (s32[], f32[64]) tuple(z, x)
      ROOT w = (s32[], f32[64]) while(t), condition=test, body=body"""
    (cost,) = costs(body, more=LOOP.format(all=ALL, bound="constant(5)"))
    assert (cost.runs.count, cost.runs.exact) == (5, True)
    unknown = LOOP.format(all=ALL, bound='custom-call(), custom_call_target="f"')
    (cost,) = costs(body, more=unknown)
    assert (cost.runs.count, cost.runs.exact) == (1, False)


def test_small_ones_take_few_rounds_and_large_ones_few_bytes() -> None:
    network = Network(bandwidth=1e9, latency=1e-6)
    ways = algorithms_for("all-to-all", 64, 64 * 4)
    assert min(ways, key=network.seconds).name == "Bruck"
    ways = algorithms_for("all-to-all", 64, 64 << 20)
    assert min(ways, key=network.seconds).name == "pairwise"
    ways = algorithms_for("all-reduce", 64, 4096)
    assert min(ways, key=network.seconds).rounds == 12


@pytest.mark.parametrize("members", [2, 3, 5, 6, 8, 12, 31])
@pytest.mark.parametrize("opcode", ["all-gather", "reduce-scatter", "all-reduce"])
def test_all_algorithms_send_the_least_bytes_possible(opcode: str, members: int) -> None:
    least = 840.0 * (members - 1) / members * (2 if opcode == "all-reduce" else 1)
    for way in algorithms_for(opcode, members, 840):
        assert way.sent == pytest.approx(least)


@pytest.mark.parametrize("members", [2, 3, 5, 6, 8, 12, 31])
def test_doubling_brings_every_block_to_every_member(members: int) -> None:
    (way,) = [a for a in algorithms_for("all-gather", members, members) if a.name == "doubling"]
    have = [{m} for m in range(members)]
    for phase in way.phases:
        (distance,) = phase.distances
        # A member gets blocks from those after it, the next one first.
        came = [
            {(m - distance - k) % members for k in range(round(phase.bytes))}
            for m in range(members)
        ]
        assert all(came[m] <= have[(m - distance) % members] for m in range(members))
        have = [h | c for h, c in zip(have, came, strict=True)]
    assert all(h == set(range(members)) for h in have)


def test_a_pair_of_start_and_done_takes_the_memory_of_the_result() -> None:
    plain = f"x = f32[64] parameter(0)  ROOT g = f32[256] all-gather(x), {ALL}, dimensions={{0}}"
    pair = f"""x = f32[64] parameter(0)
      s = (f32[64], f32[256]) all-gather-start(x), {ALL}, dimensions={{0}}
      ROOT d = f32[256] all-gather-done(s)"""
    peaks = [
        peak_memory(hlo.parse(f"HloModule m, num_partitions=4\nENTRY e {{ {body} }}").entry).bytes
        for body in (plain, pair)
    ]
    assert peaks == [(64 + 256) * 4] * 2
