"""`hlo-run --trace` and `--find-nan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

from hlo.debug.trace.record import Trace
from tests.harness.schemas import check_schema

MODULE = """HloModule m
cond { p = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2) ROOT go = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[2] log(x), metadata={op_name="f/log" source_file="f.py" source_line=3}
  ROOT t = (s32[], f32[2]) tuple(j, y) }
ENTRY e { x = f32[2] parameter(0) zero = s32[] constant(0) t = (s32[], f32[2]) tuple(zero, x)
  w = (s32[], f32[2]) while(t), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(MODULE)


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["m.hlo", "-i", "{0.5, 2}", *args])


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_table(backend: str) -> None:
    result = run("--trace", "--trace-only", "y", "--backend", backend)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["value", "w[0]/y", "w[1]/y"]
    assert lines[2].split()[5:] == ["1", "0", "0", "0", "f.py:3"]


def test_files() -> None:
    result = run("--trace=t.npz", "--trace-only", "opcode=log", "--json")
    report = json.loads(result.stdout)
    check_schema("hlo-run", report)
    trace = Trace.load("t.npz")
    assert trace.to_json() == report["trace"]
    assert [v.array is not None and v.array.shape for v in trace.values] == [(2,), (2,)]
    assert run("--trace=t.json").exit_code == 0
    check_schema("trace", json.loads(Path("t.json").read_text()))


def test_find_nan() -> None:
    result = run("--find-nan")
    assert result.exit_code == 1
    assert "m.hlo: y (log) makes NaN\n  at        f.py:3 (f/log), m.hlo:6" in result.stdout
    again = CliRunner().invoke(
        main, ["m.nan/instruction.hlo", "--inputs", "m.nan/inputs.npz", "--fail-on-nan"]
    )
    assert again.exit_code == 1 and "1 of 2 elements are NaN" in again.stderr
    report = json.loads(run("--find-nan=other/", "--json").stdout)
    check_schema("hlo-run", report)
    assert report["find_nan"]["written"] == ["other/instruction.hlo", "other/inputs.npz"]


def test_nothing_found() -> None:
    result = CliRunner().invoke(main, ["m.hlo", "-i", "{20, 30}", "--find-nan"])
    assert (result.exit_code, result.stdout) == (
        0, "m.hlo: no instruction makes a NaN or an infinity\n",
    )  # fmt: skip
    assert not Path("m.nan").exists()


def test_a_nan_that_was_given() -> None:
    result = CliRunner().invoke(main, ["m.hlo", "-i", "{nan, 30}", "--find-nan"])
    assert result.exit_code == 1 and "parameter x has NaN" in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--trace", "--find-nan"], "--find-nan excludes --trace."),
        (["--trace-only", "x"], "--trace-only requires --trace."),
        (["--trace", "--check"], "--trace excludes --check."),
        (["--trace=t.txt"], "unsupported extension '.txt'; use one of .npz, .json"),
    ],
)
def test_usage(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == 2 and message in result.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--trace", "--trace-only", "opcod=log"], "bad-selection"),
        (["--trace", "--trace-only", "iteration=a"], "bad-selection"),
        (["--trace=no/such/t.npz"], "bad-file"),
    ],
)
def test_errors(args: list[str], code: str) -> None:
    result = run(*args)
    assert result.exit_code == 1 and f"[{code}]" in result.stderr


@pytest.mark.parametrize("backend", ["compiled", "reference"])
@pytest.mark.parametrize(
    "body",
    [
        "x = f32[0,3] parameter(0)  ROOT y = f32[0,3] log(x)",
        "ROOT t = () tuple()",
        "ROOT x = f32[4,0] parameter(0)",
        "x = f32[0] parameter(0)  y = f32[0] exponential(x)  ROOT t = (f32[0], f32[0]) tuple(x, y)",
        "x = s32[2,0] parameter(0)  ROOT y = s32[0,2] transpose(x), dimensions={1,0}",
    ],
)
def test_a_trace_of_empty_values_is_an_empty_table(body: str, backend: str) -> None:
    Path("empty.hlo").write_text(f"HloModule m ENTRY e {{ {body} }}")
    for more in ([], ["--json"], ["--trace-only", "opcode=log"]):
        args = ["empty.hlo", "--trace", "--backend", backend, *more]
        result = CliRunner().invoke(main, args)
        assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split()[0] == "value"
