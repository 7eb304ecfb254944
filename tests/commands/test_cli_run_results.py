"""`hlo-run`: results that are shown, written, and compared; queues from files; notes and hints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

import hlo
from hlo.testing.summary import summarize
from tests.harness.paths import ROOT

TWO = """HloModule two
ENTRY e {
  x = f32[3] parameter(0)
  b = f32[10,3] broadcast(x), dimensions={1}
  ROOT t = (f32[3], f32[10,3]) tuple(x, b)
}
"""
FEED = """HloModule feed
ENTRY e {
  t = token[] after-all()
  i = ((bf16[2], s32[]), token[]) infeed(t)
  d = (bf16[2], s32[]) get-tuple-element(i), index=0
  u = token[] get-tuple-element(i), index=1
  o = token[] outfeed(d, u), outfeed_shape=(bf16[2], s32[])
  j = (f32[2], token[]) infeed(o)
  ROOT r = f32[2] get-tuple-element(j), index=0
}
"""
SHARDED = """HloModule s, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[4] negate(x)
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("two.hlo").write_text(TWO)
    Path("feed.hlo").write_text(FEED)
    return tmp_path


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- what is shown ------------------------------------------------------------------------------


def test_large_results_are_a_table() -> None:
    result = run("two.hlo", "-i", "{1, -2, nan}")
    assert result.stdout == (
        "out0 = f32[3] {1, -2, nan}\n"
        "name  shape      min  max  mean  NaN  inf\n"
        "out1  f32[10,3]   -2    1  -0.5   10    0\n"
    )
    assert "{ 1, -2, nan }, {" in run("two.hlo", "-i", "{1, -2, nan}", "-o", "-").stdout


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (np.array([2**63 - 1, -5]), ("s64[2]", 2**63 - 1, 0, 0)),
        (np.array([True, False]), ("pred[2]", 1, 0, 0)),
        (np.array([7, 3], ml_dtypes.uint4), ("u4[2]", 7, 0, 0)),
        (np.array([-8, 3], ml_dtypes.int4), ("s4[2]", 3, 0, 0)),
        (np.array([2, np.nan, np.inf], ml_dtypes.bfloat16), ("bf16[3]", 2, 1, 1)),
        (np.array([3 + 4j, np.nan]), ("c128[2]", 5, 1, 0)),
        (np.array([np.nan, -np.inf], np.float32), ("f32[2]", None, 1, 1)),
        (np.zeros((0, 3)), ("f64[0,3]", None, 0, 0)),
    ],
)
def test_summaries(values: np.ndarray, want: tuple[Any, ...]) -> None:
    found = summarize(values)
    assert (found.shape, found.high, found.nans, found.infinities) == want


def test_json_is_as_documented() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \|", (ROOT / "docs/hlo-run.md").read_text(), re.M)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    np.savez("want.npz", out0=np.zeros(3, np.float32), out1=np.zeros((10, 3), np.float32))
    flags = ["--check", "--expect", "want.npz", "--fail-on-nan", "--json"]
    report = json.loads(run("two.hlo", *flags).stdout)
    one, *_ = json.loads(run("two.hlo", "--isolate_instructions", "--json").stdout)
    inside = ("--trace", "--find-nan", "--first-divergence")
    found = [json.loads(run("two.hlo", flag, "--json").stdout) for flag in inside]
    simt = ("--backend=gpu-emulated", "--simt-report")
    found.append(json.loads(run("two.hlo", *simt, "--json").stdout))
    assert {*report, *one, "errors", *(key for r in found for key in r)} == documented
    assert one["instruction"] in [i.name for i in hlo.load("two.hlo").entry]
    first, second = report["results"]
    assert (first["shape"], first["nan"], "literal" in first) == ("f32[3]", 0, True)
    assert second["min"] == pytest.approx(first["min"]) and second["dims"] == [10, 3]
    assert report["expect"]["out0"]["mismatches"] == 3
    strict = json.dumps(report, allow_nan=False)
    assert json.loads(strict) == report


def test_exit_codes_are_in_the_help() -> None:
    assert "Exit status: 0 success; 1 an error in the input" in run("--help").stdout


# --- where results go ---------------------------------------------------------------------------


def test_a_folder_is_made() -> None:
    assert run("two.hlo", "-o", "new/deep/").exit_code == 0
    assert Path("new/deep/two.npz").exists()


def test_a_folder_that_cannot_be_made() -> None:
    Path("file").write_text("")
    result = run("two.hlo", "-o", "file/deep/")
    assert (result.exit_code, "cannot make file/deep" in result.stderr) == (1, True)


# --- comparisons --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["npz", "txt"])
def test_results_are_compared_with_a_file(form: str) -> None:
    given = ["two.hlo", "-i", "{1, 2, 3}"]
    if form == "npz":
        run(*given, "-o", "want.npz")
    else:
        Path("want.txt").write_text(run(*given, "-o", "-").stdout)
    expect = ["--expect", f"want.{form}"]
    same = run(*given, *expect)
    assert (same.exit_code, "2 of 2 results match want." in same.stderr) == (0, True)
    near = ["two.hlo", "-i", "{1, 2, 3.01}", *expect]
    assert run(*near).exit_code == 1
    assert run(*near, "--rtol", "0.01").exit_code == run(*near, "--atol", "0.02").exit_code == 0
    off = run(*near, "--rtol", "0.001")
    assert off.exit_code == 1 and "worst at [2]: 3.01, 3.0 expected" in off.stderr


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"out0": np.zeros(3, np.float32)}, "e.npz has nothing for out1"),
        ({"out0": np.zeros(4, np.float32)}, "e.npz: out0 has dimensions [4], f32[3] is needed"),
        (
            {"out0": np.zeros(3, "f"), "out1": np.zeros((10, 3), "f"), "out2": np.zeros(3)},
            "e.npz: there is no result out2",
        ),
    ],
)
def test_expected_values_that_do_not_fit(arrays: dict[str, Any], message: str) -> None:
    np.savez("e.npz", **arrays)
    result = run("two.hlo", "--expect", "e.npz")
    assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


# --- queues -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_queues_come_from_files_and_go_to_them(backend: str) -> None:
    Path("in.txt").write_text("(bf16[2], s32[]) ({1, 2}, 7)\n\nf32[2] {3, 4}\n")
    args = ["feed.hlo", "--infeed", "in.txt", "--backend", backend]
    result = run(*args, "--repeat", "2")
    assert result.stdout == (
        "outfeed0.0 = bf16[2] {1, 2}\noutfeed0.1 = s32[] 7\nout0 = f32[2] {3, 4}\n"
    )
    assert run(*args, "--outfeed", "out.npz").stdout == "out0 = f32[2] {3, 4}\n"
    np.save("rest.npy", np.array([5, 6], np.float32))
    again = run("feed.hlo", "--infeed", "out.npz", "--infeed", "rest.npy", "--backend", backend)
    assert again.stdout.endswith("outfeed0.1 = s32[] 7\nout0 = f32[2] {5, 6}\n")


def test_a_check_compares_what_was_fed_out() -> None:
    Path("in.txt").write_text("(bf16[2], s32[]) ({1, 2}, 7)\nf32[2] {3, 4}\n")
    result = run("feed.hlo", "--infeed", "in.txt", "--check")
    assert "3 of 3 results match the interpreter" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--infeed FILE provides the values"),
        ("\n(bf16[2], s32[]) ({1, 2}, 7", "in.txt:2:28: error:"),
        ("{1, 2}", "in.txt:1:1: error:"),
        ("f32[2] {...}", "a value cannot be elided"),
        ("f32[2] {1, 2}", "the next value is one value, (bf16[2], s32[]) is needed"),
    ],
)
def test_queues_that_do_not_fit(text: str, message: str) -> None:
    Path("in.txt").write_text(text)
    result = run("feed.hlo", "--infeed", "in.txt")
    assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["1"], "values are numbered from 0 on"),
        (["0", "0.0"], "'0.0' is inside of an array"),
        (["0.0", "0"], "'0' is a tuple and an array"),
        (["x"], "'x' is not a position in a queue"),
    ],
)
def test_places_in_a_queue(keys: list[str], message: str) -> None:
    np.savez("q.npz", **{key: np.zeros(2) for key in keys})
    result = run("feed.hlo", "--infeed", "q.npz")
    assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


# --- notes and hints ----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_a_module_for_several_devices_on_one_says_so(backend: str) -> None:
    noted = "it runs on one device, on whole arrays: num_partitions=2, shardings"
    assert noted in run("-", "--per-device", "--backend", backend, text=SHARDED).stderr
    told = run("-", "--per-device", "--num-partitions", "2", text=SHARDED)
    assert noted not in told.stderr
    whole = SHARDED.replace("devices=[2]<=[2]", "replicated").replace(", num_partitions=2", "")
    assert "note" not in run("-", "--backend", backend, text=whole).stderr


@pytest.mark.parametrize(
    ("args", "status", "hint"),
    [
        (["x.npz"], 2, "--inputs x.npz takes its values"),
        (["two.hlo", "-i", "x.npz"], 1, "hint: --inputs x.npz takes it"),
        (["two.hlo", "--inputs", "x.npy"], 1, "hint: --input x.npy takes it"),
        (["two.hlo", "-i", "two.hlo"], 1, "hint: @two.hlo reads a literal from it"),
    ],
)
def test_hints_name_the_flag(args: list[str], status: int, hint: str) -> None:
    result = run(*args)
    assert (result.exit_code, hint in result.stderr) == (status, True), result.stderr
