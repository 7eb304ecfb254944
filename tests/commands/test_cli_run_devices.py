"""`hlo-run` on modules for several devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

SUM = """HloModule m, replica_count=2
add { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }
ENTRY e {
  x = s32[2] parameter(0)
  ROOT y = s32[2] all-reduce(x), replica_groups={}, to_apply=add
}
"""
# Annotated for partitions, and not partitioned.
ANNOTATED = """HloModule m, num_partitions=2
ENTRY e {
  x = s32[4] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = s32[4] add(x, x), sharding={devices=[2]<=[2]}
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sum.hlo").write_text(SUM)


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_a_module_runs_on_as_many_devices_as_its_header_says(backend: str) -> None:
    result = run("sum.hlo", "-i", "{3, 4}", "--backend", backend)
    assert result.stdout == "device0.out0 = s32[2] {6, 8}\ndevice1.out0 = s32[2] {6, 8}\n"


def test_flags_say_how_many_in_place_of_the_header() -> None:
    assert run("sum.hlo", "-i", "device-id", "--num-replicas", "4", "-o", "-").stdout == (
        "s32[2] {6, 6}\n" * 4
    )
    result = run("sum.hlo", "-i", "device-id", "--num-partitions", "2", "-o", "-")
    assert result.stdout == "".join(f"s32[2] {{{n}, {n}}}\n" for n in (2, 4, 2, 4))
    assert run("sum.hlo", "-i", "{3, 4}", "--num-replicas", "1").stdout == "out0 = s32[2] {3, 4}\n"


def test_each_device_may_have_inputs_of_its_own() -> None:
    np.savez("a.npz", x=np.int32([1, 2]))
    np.savez("b.npz", x=np.int32([10, 20]))
    assert run("sum.hlo", "--inputs", "a.npz", "--inputs", "b.npz", "-o", "r.npz").exit_code == 0
    with np.load("r.npz") as found:
        assert {k: v.tolist() for k, v in found.items()} == {
            "device0.out0": [11, 22], "device1.out0": [11, 22],
        }  # fmt: skip
    assert "{2, 4}" in run("sum.hlo", "--inputs", "a.npz").stdout
    wrong = run("sum.hlo", *["--inputs", "a.npz"] * 3)
    assert wrong.exit_code == 2
    assert "3 times for 2 devices; give it once" in wrong.output


def test_random_inputs_are_the_same_unless_they_shall_differ() -> None:
    text = SUM.replace("all-reduce(x), replica_groups={}, to_apply=add", "negate(x)")
    text = text.replace("ROOT y", "i = u32[] replica-id()\n  ROOT y").replace("[2]", "[50]")
    same = run("-", text=text)
    assert "the same on each device: x" in same.stderr
    _, first, second = same.stdout.splitlines()
    assert first.split()[1:] == second.split()[1:]
    _, first, second = run("-", "--random-by-device", text=text).stdout.splitlines()
    assert first.split()[1:] != second.split()[1:]


def test_check_compares_all_devices() -> None:
    result = run("sum.hlo", "--check", "--random-by-device")
    assert result.exit_code == 0
    assert "2 of 2 results match the interpreter" in result.stderr
    found = json.loads(run("sum.hlo", "--check", "--json").stdout)
    assert found["devices"] == 2
    assert list(found["check"]) == ["device0.out0", "device1.out0"]


def test_a_program_that_is_not_partitioned_runs_on_one_device() -> None:
    assert run("-", "-i", "{1,2,3,4}", text=ANNOTATED).stdout == "out0 = s32[4] {2, 4, 6, 8}\n"


def test_devices_that_never_meet_are_bad_input() -> None:
    text = SUM.replace("ROOT y", "i = u32[] replica-id()\n  z = u32[] constant(0)\n"
                       "  p = pred[] compare(i, z), direction=EQ\n  ROOT c = s32[2] "
                       "conditional(p, x, x), true_computation=t, false_computation=f\n}\n"
                       "f { ROOT x = s32[2] parameter(0) }\nt {\n  x = s32[2] parameter(0)\n"
                       "  ROOT y")  # fmt: skip
    for backend in ("compiled", "reference"):
        result = run("-", "--backend", backend, text=text)
        assert result.exit_code == 1
        assert "deadlock: device 0 in y (all-reduce)" in result.stderr
