"""`hlo-opt --simulate`: what it prints, and settings that are none."""

from __future__ import annotations

import json

import pytest

from tests.commands.test_cli_opt_reports import run

TEXT = """HloModule train, replica_count=8
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[1024,1024] parameter(0)
  y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT g = f32[1024,1024] all-reduce(y), replica_groups={}, to_apply=add
}
"""


def test_tables() -> None:
    settings = "devices=4096,topology=torus3d,bandwidth=50GB/s,latency=1us,flops=10TFLOP/s"
    code, out, err = run(f"--simulate={settings}", text=TEXT)
    assert code == 0, err
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == ("train: 4096 devices (512 copies of 8 replicas x 1 partition)")
    assert lines[1] == "network     torus 16x16x16, links 50 GB/s each way, 1 us a hop"
    assert lines[2] == "device      10 TFLOP/s, memory 2 TB/s"
    assert lines[4] == "computing   214.7 us (64.5 %)"
    assert lines[6] == "memory      12 MiB a device, unfused, at g; arguments 4 MiB"
    assert lines[-1].split()[:4] == ["all-reduce", "g", "4096", "1"]
    assert lines[-1].endswith("by dimension")


def test_defaults_are_printed_and_json_has_all() -> None:
    out = run("--simulate=topology=switch", text=TEXT)[1]
    assert "train: 8 devices (8 replicas x 1 partition)" in out
    assert "one switch, links 50 GB/s each way, latency 2 us" in out
    assert "100 TFLOP/s, memory 2 TB/s" in out
    found = json.loads(run("--simulate=devices=16", "--json", text=TEXT)[1])
    assert (found["devices"], found["copies"], found["collectives"][0]["members"]) == (16, 2, 16)
    assert found["seconds"] == pytest.approx(found["computing"] + found["waiting"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("devices=12", "the module's 8 devices (8 replicas x 1 partition)"),
        ("devices=0", "'0' is not a whole number from 1 to 65536"),
        ("devices=many", "'many' is not a whole number"),
        ("topology=star", "unknown topology star"),
        ("flops=0", "must be more than 0 FLOP/s"),
        ("jitter=much", "'much' is not a number"),
        ("speed=3", "unknown setting speed"),
    ],
)
def test_settings_that_are_none(settings: str, message: str) -> None:
    code, _, err = run(f"--simulate={settings}", text=TEXT)
    assert (code, message in err, "[bad-value]" in err) == (1, True, True), err


@pytest.mark.parametrize(
    ("header", "settings", "devices"),
    [
        (", num_partitions=4", "topology=ring", "4 devices (1 replica x 4 partitions)"),
        (", num_partitions=4", "devices=8", "8 devices (2 copies of 1 replica x 4 partitions)"),
        ("", "devices=4", "4 devices (1 replica x 4 partitions)"),
    ],
)
def test_a_module_of_whole_arrays_is_partitioned(header: str, settings: str, devices: str) -> None:
    text = f"""HloModule m{header}
ENTRY e {{ x = f32[8] parameter(0), sharding={{devices=[4]<=[4]}}
  ROOT y = f32[8] negate(x), sharding={{replicated}} }}"""
    code, out, err = run(f"--simulate={settings}", text=text)
    assert code == 0, err
    assert f"m: {devices}" in out and "partitioned by its shardings" in out
    assert out.splitlines()[-1].split()[0] == "all-gather"


def test_shardings_that_do_not_fit_the_devices() -> None:
    text = """HloModule m
ENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]}  ROOT y = f32[8] negate(x) }"""
    code, _, err = run("--simulate=devices=3", text=text)
    assert code == 1 and "is over 4 devices, there are 3" in err


def test_an_annotated_module_is_partitioned_by_passes() -> None:
    text = """HloModule m, num_partitions=4
ENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  ROOT y = f32[8] negate(x), sharding={replicated} }"""
    passes = "--passes=sharding-propagation,shardy-xla,spmd-partitioning,default"
    code, out, err = run(passes, "--simulate=topology=ring", text=text)
    assert code == 0, err
    assert "4 devices (1 replica x 4 partitions)" in out
    assert out.splitlines()[-1].split()[0] == "all-gather"
    # What needs no other device has no collectives, and is for as many devices.
    code, out, err = run(
        passes, "--simulate=topology=ring", text=text.replace("replicated", "devices=[4]<=[4]")
    )
    assert code == 0, err
    assert "4 devices" in out and "waiting     0 s" in out


def test_two_reports() -> None:
    code, _, err = run("--simulate=devices=8", "--stats", text=TEXT)
    assert (code, "--simulate excludes --stats." in err) == (2, True)
