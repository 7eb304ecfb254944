"""`hlo-diff`: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_tools.diff import main

from tests.harness.schemas import check_schema

A = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] tanh(x)
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.hlo").write_text(A)
    Path("b.hlo").write_text(A.replace("tanh", "sine"))
    Path("same.hlo").write_text(A.replace("x", "p").replace("y", "q"))
    return tmp_path


def run(*args: str, code: int = 0, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exit_code == code, result.output
    return result


def test_says_what_changed_and_where() -> None:
    assert run("a.hlo", "same.hlo").stdout == "no difference\n"
    assert run("a.hlo", "b.hlo", code=1).stdout == (
        "--- a.hlo\n+++ b.hlo\n1 changed\n\n"
        "tanh: now sine\n"
        "  @@ ENTRY e @@\n"
        "  - a.hlo:4: ROOT %y = f32[2]{0} tanh(%x)\n"
        "  + b.hlo:4: ROOT %y = f32[2]{0} sine(%x)\n"
        "      opcode: tanh -> sine\n"
    )


def test_one_side_may_be_standard_input() -> None:
    assert "+++ -" in run("a.hlo", "-", code=1, text=A.replace("tanh", "sine")).stdout
    assert "standard input has only one module" in run("-", "-", code=2).stderr


def test_passes_are_compared_with_what_they_start_from() -> None:
    double = A.replace("ROOT y", "y").replace("\n}", "\n  n = f32[2] negate(y)\n"
                                              "  ROOT r = f32[2] negate(n)\n}")  # fmt: skip
    Path("double.hlo").write_text(double)
    out = run("double.hlo", "--passes", "algsimp,dce", code=1).stdout
    assert "+++ double.hlo after algsimp,dce\n2 removed\n" in out
    assert "A second module is needed" in run("a.hlo", code=2).stderr


def test_json_and_pages() -> None:
    data = json.loads(run("a.hlo", "b.hlo", "--json", code=1).stdout)
    check_schema("hlo-diff", data)
    assert not data["equal"] and data["counts"]["changed"] == 1
    equal = json.loads(run("a.hlo", "same.hlo", "--json", "--html", "out.html").stdout)
    check_schema("hlo-diff", equal)
    assert equal["equal"] and "Side by side" in Path("out.html").read_text()


def test_bad_input_is_one_error() -> None:
    Path("bad.hlo").write_text(A.replace("tanh(x)", "tanh(z)"))
    assert "bad.hlo:4" in run("a.hlo", "bad.hlo", code=1).stderr
    failed = json.loads(run("a.hlo", "none.hlo", "--json", code=1).stdout)
    check_schema("hlo-diff", failed)
    assert failed["errors"][0]["code"] == "bad-file"
    assert "flops" in run("a.hlo", "b.hlo", "--machine", "flops=fast", code=1).stderr
    Path("a.html").write_text(A)
    assert "is an input" in run("a.html", "b.hlo", "--html", "a.html", code=1).stderr
    assert Path("a.html").read_text() == A
