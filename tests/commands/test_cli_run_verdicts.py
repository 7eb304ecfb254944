"""`hlo-run --check`, `--expect`: tables of what differs, JUnit XML, GitHub's annotations."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.command_line.verdicts import Verdict, annotation, junit
from hlo_tools.run.command import main

from hlo.testing.compare import compare
from tests.harness.schemas import check_schema

MODULE = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] add(x, x)
  z = s32[] constant(7)
  ROOT t = (f32[4], s32[]) tuple(y, z)
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    Path("m.hlo").write_text(MODULE)
    wanted = np.array([2, 4, 6, 9], np.float32)
    np.savez("good.npz", out0=np.array([2, 4, 6, 8], np.float32), out1=np.int32(7))
    np.savez("bad.npz", out0=wanted, out1=np.int32(5))


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, ["m.hlo", "-i", "{1,2,3,4}", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_table_has_the_elements_that_are_furthest_off() -> None:
    result = run("--expect", "bad.npz")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "m.hlo: out0: 1 of 4 elements differ by more than 7.01e-05 of the value + 0.000368; "
        "worst at [3]: 8.0, 9.0 expected",
        "  index  expected  found  difference  relative      ulp",
        "  [3]         9.0    8.0           1     0.111  1048576",
        "m.hlo: out1: 1 of 1 elements differ; worst at []: 7, 5 expected",
        "  index  expected  found  difference  relative  ulp",
        "  []            5      7           2       0.4    -",
        "m.hlo: 0 of 2 results match bad.npz",
    ]


def test_json_has_the_same_elements() -> None:
    report = json.loads(run("--expect", "bad.npz", "--check", "--json").stdout)
    check_schema("hlo-run", report)
    found = report["expect"]["out0"]
    assert (found["worst"], found["got"], found["want"]) == ([3], "8.0", "9.0")
    assert found["mismatched"] == [
        {"index": [3], "got": "8.0", "want": "9.0", "difference": 1.0,
         "relative": pytest.approx(1 / 9), "ulps": 1 << 20},
    ]  # fmt: skip
    assert run("--expect", "none.npz", "--json").exit_code == 1
    check_schema("hlo-run", json.loads(run("--expect", "none.npz", "--json").stdout))
    each = CliRunner().invoke(main, ["m.hlo", "--isolate-instructions", "--json"])
    check_schema("hlo-run", json.loads(each.stdout))


def test_the_worst_comes_first_and_five_are_kept() -> None:
    want = np.zeros(10, np.float32)
    got = np.arange(10, dtype=np.float32)
    got[2] = np.nan
    found = compare(got, want, 0.0, 0.0)
    assert [m.index for m in found.worst] == [(2,), (9,), (8,), (7,), (6,)]
    assert (found.worst[0].ulps, found.worst[1].relative) == (None, np.inf)


@pytest.mark.parametrize(
    ("dtype", "got", "want", "ulps"),
    [
        (np.float32, 1.0, 1 + 2**-23, 1), (np.float32, -1e-45, 1e-45, 2),
        (np.float64, 0.0, -0.0, 0), (np.float16, np.inf, 65504, 1),
        (ml_dtypes.bfloat16, 1.5, 1.0, 64), (ml_dtypes.float8_e8m0fnu, 8.0, 2.0, 2),
        (ml_dtypes.float4_e2m1fn, -0.5, 1.0, 3), (np.complex64, 1 + 2j, 1 + 1j, 1 << 23),
    ],
)  # fmt: skip
def test_units_in_the_last_place(dtype: type, got: complex, want: complex, ulps: int) -> None:
    from hlo.testing.ulps import ulps_between

    a, b = (np.array(v).astype(dtype)[()] for v in (got, want))
    assert ulps_between(a, b) == ulps_between(b, a) == ulps


def test_junit_has_a_case_for_each_result() -> None:
    assert run("--check", "--expect", "bad.npz", "--fail-on-nan", "--junit", "r.xml").exit_code == 1
    suites = xml.parse("r.xml").getroot()
    assert (suites.tag, suites.get("tests"), suites.get("failures")) == ("testsuites", "7", "2")
    [suite] = suites
    assert (suite.get("name"), suite.get("errors")) == ("m.hlo", "0")
    failed = {c.get("name"): c for c in suite if c.find("failure") is not None}
    assert list(failed) == ["out0 matches bad.npz", "out1 matches bad.npz"]
    case = failed["out0 matches bad.npz"]
    assert (case.get("file"), case.get("line")) == ("m.hlo", "4")
    failure = case.find("failure")
    assert failure is not None and failure.get("type") == "differs"
    assert "worst at [3]" in str(failure.get("message")) and "1048576" in str(failure.text)


def test_junit_of_what_passes_and_of_what_does_not_run() -> None:
    assert run("--expect", "good.npz", "--junit", "r.xml").exit_code == 0
    assert xml.parse("r.xml").getroot().get("failures") == "0"
    Path("m.hlo").write_text(MODULE.replace("add(x, x)", "add(x, 	w\1)"))
    assert run("--junit", "r.xml").exit_code == 1
    [error] = xml.parse("r.xml").getroot().iter("error")
    assert error.get("type") == "syntax" or "unknown" in str(error.get("type"))
    assert run("--junit", "no/such/r.xml").exit_code == 1


def test_github_shows_failures_at_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = [s for s in run("--expect", "bad.npz").stderr.splitlines() if s.startswith("::")]
    first, second = lines
    assert first.startswith(
        "::error file=m.hlo,line=4,col=3,title=out0 matches bad.npz%3A differs::out0: 1 of 4 "
    )
    assert "%0Aindex  expected" in first and "line=5," in second
    assert "::error" not in run("--expect", "good.npz").stderr
    assert "::error" not in run("--expect", "bad.npz", "--no-github").stderr


def test_annotations_are_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    found = annotation(Verdict("f", "50%: a,b", "differs", "1\r\n2%", path="a:b,c.hlo", line=3))
    file = f"{tmp_path.name}/a%3Ab%2Cc.hlo"
    assert found == f"::error file={file},line=3,title=50%25%3A a%2Cb%3A differs::1%0D%0A2%25"


def test_xml_holds_what_xml_cannot() -> None:
    text = junit("hlo-run", [Verdict("a<b>&\0", 'x "1"', "differs", "\x1b[1m \ud800")])
    [case] = xml.fromstring(text).iter("testcase")
    assert case.get("classname") == "a<b>&\ufffd"
    assert case[0].get("message") == "\ufffd[1m \ufffd"


def test_quiet_shows_failures_only() -> None:
    for flags in ([], ["--check"], ["--expect", "good.npz", "--fail-on-nan"], ["--trace"]):
        assert run("--quiet", *flags).output == ""
    failed = run("--quiet", "--expect", "bad.npz")
    assert failed.exit_code == 1 and failed.stdout == ""
    assert "m.hlo: 0 of 2 results match bad.npz" in failed.stderr
    assert run("--quiet", "-o", "-").stdout.startswith("f32[4] {2, 4, 6, 8}")
    result = run("--quiet", "--expect", "good.npz", "--junit", "r.xml", "--json")
    assert xml.parse("r.xml").getroot().get("tests") == "3" and json.loads(result.stdout)
    body = "x = f32[4] parameter(0)\n  n = f32[4] negate(x)\n  ROOT y = f32[4] log(n)"
    Path("m.hlo").write_text(f"HloModule m\nENTRY e {{\n  {body}\n}}\n")
    found = run("--quiet", "--find-nan")
    assert found.exit_code == 1 and "y" in found.stdout and "NaN" in found.stdout
