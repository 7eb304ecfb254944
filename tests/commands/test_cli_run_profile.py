"""`hlo-run --profile`: where the time of runs goes, in each of its forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_tools.run import command as run_tool

from tests.harness.schemas import check_schema
from tests.harness.trace_events import check_trace_events

MODULE = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="jit(f)/layer/dot_general" source_file="f.py" source_line=7}
  ROOT z = f32[64,64] sort(y), dimensions={1}, to_apply=less
}
"""
DEVICES = """HloModule m, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[64] parameter(0) y = f32[64] tanh(x)
  ROOT z = f32[64] all-reduce(y), replica_groups={}, to_apply=sum }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(MODULE)
    Path("devices.hlo").write_text(DEVICES)


def _run(*args: str) -> Result:
    return CliRunner().invoke(run_tool.main, args)


def _profiled(*args: str) -> str:
    result = _run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_table_follows_the_results() -> None:
    lines = _profiled("--profile", "m.hlo", "--repeat", "3").splitlines()
    assert lines[0].startswith("out0") or lines[0].startswith("name")
    (dot,) = (line for line in lines if "y = dot" in line)
    assert dot.endswith("f.py:7 (jit(f)/layer/dot_general), m.hlo:5")
    assert sum(line.startswith("m: 3 runs on ") for line in lines) == 1


def test_the_table_makes_room_for_results_on_standard_output() -> None:
    result = _run("m.hlo", "--profile", "-o", "-")
    assert "y = dot" in result.stderr and "y = dot" not in result.stdout


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("p.txt", "entry/overhead"), ("p.folded", "m;entry/overhead;y "),
        ("p.json", '"kind": "kernel"'), ("p.trace.json", '"traceEvents"'),
    ],
)  # fmt: skip
def test_a_file_has_the_form_of_its_ending(name: str, part: str) -> None:
    _profiled("m.hlo", f"--profile={name}", "--repeat", "2")
    assert part in Path(name).read_text()
    assert sorted(p.name for p in Path().iterdir()) == ["devices.hlo", "m.hlo", name] or name < "m"


def test_json_is_as_the_schemas_say() -> None:
    _profiled("m.hlo", "--profile=p.json")
    check_schema("profile", json.loads(Path("p.json").read_text()))
    _profiled("m.hlo", "--profile=p", "--profile-format=chrome")
    check_trace_events(json.loads(Path("p").read_text()))
    report = json.loads(_profiled("m.hlo", "--profile", "--json"))
    check_schema("hlo-run", report)
    check_schema("profile", report["profile"][0])


def test_the_interpreter_has_a_time_for_each_instruction() -> None:
    _profiled("devices.hlo", "--profile=p.json", "--backend=reference", "--repeat", "2")
    profiles = json.loads(Path("p.json").read_text())
    check_schema("profile", profiles)
    for p in profiles:
        assert (p["backend"], p["runs"]) == ("reference", 2)
        calls = {e["name"]: e["calls"] for e in p["entries"]}
        assert calls["y"] == calls["z"] == 1
        assert sum(e["self_s"] for e in p["entries"]) == pytest.approx(p["wall_s"]["mean"])


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="of Linux")
def test_perf_finds_the_names_of_kernels() -> None:
    _profiled("m.hlo", "--profile=p.map", "--profile-format=perf")
    names = [line.split()[2] for line in Path("p.map").read_text().splitlines()]
    assert {"hlo_entry", "kernel.y", "kernel.z"} <= set(names)


def test_each_device_has_a_profile() -> None:
    _profiled("devices.hlo", "--profile=p.json", "--repeat", "3")
    profiles = json.loads(Path("p.json").read_text())
    check_schema("profile", profiles)
    assert [p["device"] for p in profiles] == [0, 1]
    for p in profiles:
        assert p["runs"] == 3
        kinds = {e["name"]: e["kind"] for e in p["entries"]}
        assert (kinds["y"], kinds["z"]) == ("kernel", "host")
    _profiled("devices.hlo", "--profile=p.trace.json")
    events = json.loads(Path("p.trace.json").read_text())["traceEvents"]
    assert {e["pid"] for e in events} == {0, 1}


def test_compilation_is_divided_into_stages_passes_and_parts() -> None:
    lines = _profiled("m.hlo", "--profile-compile").splitlines()
    assert any(line.startswith("m: 1 run on ") for line in lines)
    assert any(line.endswith(" parse") for line in lines)
    _profiled("m.hlo", "--profile-compile=c.json")
    profile = json.loads(Path("c.json").read_text())
    check_schema("profile", profile)
    entries = profile["entries"]
    assert {"verify", "passes", "emit", "flat", "roles", "compile", "load"} <= {
        e["name"] for e in entries if e["kind"] == "stage"
    }
    (algsimp,) = (e for e in entries if e["name"] == "algsimp")
    assert algsimp["kind"] == "pass" and entries[algsimp["parent"]]["name"] == "passes"
    parts = [e["name"] for e in entries if e["kind"] == "part"]
    assert any("kernel.y" in name for name in parts)
    assert sum(e["self_s"] for e in entries) == pytest.approx(profile["wall_s"]["mean"])
    assert entries[0]["total_s"] == pytest.approx(profile["wall_s"]["mean"])
    _profiled("m.hlo", "--profile-compile=c.trace.json")
    check_trace_events(json.loads(Path("c.trace.json").read_text()))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("m.hlo", "--profile=p.xyz"), "unsupported extension '.xyz'; use one of .trace.json"),
        (
            ("m.hlo", "--profile-format=json"),
            "--profile-format requires --profile or --profile-compile.",
        ),
        (("m.hlo", "devices.hlo", "--profile=p.json"), "--profile=p.json takes one FILE, not 2."),
        (("m.hlo", "--profile", "--profile-format=svg"), "'svg' is not one of"),
        (
            ("m.hlo", "--profile-compile", "--backend=reference"),
            "--profile-compile requires --backend compiled.",
        ),
        (("m.hlo", "--profile=p.json", "--profile-compile=p.json"), "need different files"),
    ],
)
def test_what_cannot_be_is_said(args: tuple[str, ...], message: str) -> None:
    result = _run(*args)
    assert result.exit_code == 2 and message in result.output


def test_a_place_that_cannot_be_written_is_an_error_before_the_run() -> None:
    result = _run("m.hlo", "--profile=nowhere/p.json")
    assert result.exit_code == 1 and "nowhere" in result.output and "out0" not in result.output
