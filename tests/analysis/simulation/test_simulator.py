"""Simulated runs: times by hand, overlap, loops, permutations and further replicas."""

from __future__ import annotations

import pytest

import hlo
from hlo.analysis.simulation import simulator
from hlo.analysis.simulation.machine import Machine
from hlo.analysis.simulation.simulator import Simulation, simulate
from hlo.analysis.simulation.topology import Links, topology_named
from hlo.errors import HloError

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"
# A product of two matrices of 128 takes 2 * 128 ** 3 / 4194304 = 1 second.
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
MACHINE = Machine(flops=2 * 128.0**3, memory_bandwidth=1e15)
# An all-reduce of 64 KiB among four takes 2 * 3/4 of it, 1.5 seconds.
LINKS = Links(bandwidth=65536.0, latency=0.0)


def run(
    body: str, *, header: str = "num_partitions=4", more: str = "", devices: int = 4,
    machine: Machine = MACHINE, seed: int = 0,
) -> Simulation:  # fmt: skip
    module = hlo.parse(f"HloModule m, {header}\n{ADD}{more}ENTRY e {{ {body} }}")
    hlo.verify(module)
    return simulate(module, topology_named("switch", devices, LINKS), machine, seed)


def test_one_after_the_other() -> None:
    found = run(f"""x = f32[128,128] parameter(0)
      y = f32[128,128] dot(x, x), {DOT}
      z = f32[128,128] all-reduce(y), {ALL}, to_apply=add
      ROOT r = f32[128,128] dot(z, z), {DOT}""")
    assert found.seconds == pytest.approx(3.5, rel=1e-6)
    assert (found.computing, found.waiting) == pytest.approx((2.0, 1.5), rel=1e-6)


def test_what_goes_on_meanwhile_is_hidden() -> None:
    found = run(f"""x = f32[128,128] parameter(0)
      s = f32[128,128] all-reduce-start(x), {ALL}, to_apply=add
      y = f32[128,128] dot(x, x), {DOT}
      z = f32[128,128] all-reduce-done(s)
      ROOT r = f32[128,128] dot(y, z), {DOT}""")
    assert found.seconds == pytest.approx(2.5, rel=1e-6)
    assert (found.waiting, found.communicating) == pytest.approx((0.5, 1.5), rel=1e-6)


def test_a_wrapped_collective_overlaps_as_well() -> None:
    found = run(
        f"""x = f32[128,128] parameter(0)
      s = ((f32[128,128]), f32[128,128]) async-start(x), calls=w
      y = f32[128,128] dot(x, x), {DOT}
      ROOT z = f32[128,128] async-done(s)""",
        more=f"""w {{ p = f32[128,128] parameter(0)
      ROOT r = f32[128,128] all-reduce(p), {ALL}, to_apply=add }}
""",
    )
    assert found.seconds == pytest.approx(1.5, rel=1e-6)


def test_collectives_are_under_way_one_at_a_time() -> None:
    found = run(f"""x = f32[128,128] parameter(0)
      s = f32[128,128] all-reduce-start(x), {ALL}, to_apply=add
      t = f32[128,128] all-reduce-start(x), {ALL}, to_apply=add
      y = f32[128,128] all-reduce-done(s)
      z = f32[128,128] all-reduce-done(t)
      ROOT r = (f32[128,128], f32[128,128]) tuple(y, z)""")
    assert found.seconds == pytest.approx(3.0)


def loop(count: int) -> str:
    return f"""
body {{ s = (s32[], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  x = f32[128,128] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)
  t = f32[128,128] all-reduce-start(x), {ALL}, to_apply=add
  y = f32[128,128] dot(x, x), {DOT}
  z = f32[128,128] all-reduce-done(t)
  r = f32[128,128] maximum(y, z)
  ROOT t2 = (s32[], f32[128,128]) tuple(j, r) }}
test {{ s = (s32[], f32[128,128]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({count})  ROOT c = pred[] compare(i, n), direction=LT }}
"""


WHILE = """x = f32[128,128] parameter(0)  z = s32[] constant(0)
  t = (s32[], f32[128,128]) tuple(z, x)
  ROOT w = (s32[], f32[128,128]) while(t), condition=test, body=body"""


@pytest.mark.parametrize("count", [0, 1, 2, 3, 40])
def test_iterations_that_are_alike_are_not_repeated(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = run(WHILE, more=loop(count))
    monkeypatch.setattr(simulator, "_ALIKE", -1.0)
    long = run(WHILE, more=loop(count))
    assert short.seconds == pytest.approx(long.seconds)
    assert short.waiting == pytest.approx(long.waiting)
    counts = [[c.count for c in s.collectives] for s in (short, long)]
    assert counts[0] == pytest.approx(counts[1]) == ([count] if count else [])
    if count:
        assert long.seconds == pytest.approx(1.5 * count, rel=0.02)


def test_a_million_iterations_take_no_time() -> None:
    assert run(WHILE, more=loop(10**6)).seconds == pytest.approx(1.5e6, rel=0.02)


def test_jitter_makes_devices_wait_for_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""x = f32[128,128] parameter(0)
      y = f32[128,128] dot(x, x), {DOT}
      ROOT z = f32[128,128] all-reduce(y), {ALL}, to_apply=add"""
    machine = Machine(MACHINE.flops, MACHINE.memory_bandwidth, jitter=0.1)
    first, again, other = (run(body, machine=machine, seed=s) for s in (1, 1, 2))
    assert first.seconds == again.seconds != other.seconds
    assert first.waiting > 1.5
    monkeypatch.setattr(simulator, "_MOST_STEPS", 200)
    with pytest.raises(HloError, match="more than 200 simulated instructions"):
        run(WHILE, more=loop(100), machine=machine)


def test_pairs_wait_for_who_sends_to_them() -> None:
    found = run("""x = f32[128,128] parameter(0)
      ROOT y = f32[128,128] collective-permute(x), channel_id=1,
        source_target_pairs={{0,1},{1,2}}""")
    assert found.seconds == pytest.approx(1.0)
    # Device 3 neither sends nor gets anything.
    assert found.waiting == pytest.approx(0.75)


def test_further_replicas() -> None:
    body = """x = f32[128,128] parameter(0)
      ROOT y = f32[128,128] all-reduce(x), replica_groups={}, to_apply=add"""
    times = [run(body, header="replica_count=2", devices=n).seconds for n in (2, 4, 16)]
    assert times == pytest.approx([1.0, 1.5, 2 * 15 / 16])
    listed = body.replace("{},", "{{0,1}},")
    assert run(listed, header="replica_count=2", devices=16).seconds == pytest.approx(1.0)
    gather = """x = f32[128,128] parameter(0)
      ROOT y = f32[256,128] all-gather(x), replica_groups={}, dimensions={0}"""
    with pytest.raises(HloError, match="the shape of y depends on the number of replicas"):
        run(gather, header="replica_count=2", devices=4)
    with pytest.raises(HloError, match="devices=3 is not a multiple of the module's 2 devices"):
        run(body, header="replica_count=2", devices=3)


def test_the_longer_branch_runs() -> None:
    found = run(
        """x = f32[128,128] parameter(0)  p = pred[] parameter(1)
      ROOT y = f32[128,128] conditional(p, x, x), true_computation=a, false_computation=b""",
        more=f"""a {{ p = f32[128,128] parameter(0)
      ROOT r = f32[128,128] all-reduce(p), {ALL}, to_apply=add }}
b {{ p = f32[128,128] parameter(0)
      ROOT r = f32[128,128] dot(p, p), {DOT} }}
""",
    )
    assert found.seconds == pytest.approx(1.5)
    assert not found.exact
    assert [c.count for c in found.collectives] == [1]
