"""`hlo-fmt`: what it writes, prints and answers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_tools.fmt import main

from tests.harness.paths import ROOT
from tests.harness.schemas import check_schema

UGLY = "ENTRY e{ROOT x=f32[2]parameter(0)} // é\n"
GOOD = "ENTRY e {\n  ROOT x = f32[2] parameter(0)\n} // é\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/ugly.hlo").write_text(UGLY)
    Path("good.hlo").write_text(GOOD)
    Path("bad.hlo").write_text("ENTRY e { ROOT x = f32[2] krameter(0) }")
    return tmp_path


def run(*args: str, code: int = 0, given: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=given)
    assert result.exit_code == code, result.output
    return result


def test_files_in_place() -> None:
    os.chmod("sub/ugly.hlo", 0o640)
    before = os.stat("good.hlo").st_mtime_ns
    assert run("sub", "good.hlo").stderr == "1 of 2 files changed\n"
    assert Path("sub/ugly.hlo").read_text() == GOOD
    assert os.stat("sub/ugly.hlo").st_mode & 0o777 == 0o640
    assert os.stat("good.hlo").st_mtime_ns == before


def test_a_file_with_errors_stays_and_the_others_are_formatted() -> None:
    result = run("bad.hlo", "sub/ugly.hlo", code=1)
    assert "bad.hlo:1:27: error: unknown opcode 'krameter'" in result.stderr
    assert "1 of 2 files changed, 1 could not be parsed" in result.stderr
    assert Path("sub/ugly.hlo").read_text() == GOOD
    assert "krameter" in Path("bad.hlo").read_text()


def test_check_and_diff_write_nothing() -> None:
    assert run("--check", "good.hlo").output == ""
    result = run("--check", ".", "good.hlo", code=1)
    assert "sub/ugly.hlo: not in canonical form\n" in result.stderr
    assert "1 of 3 files would change, 1 could not be parsed" in result.stderr
    assert run("--diff", "sub/ugly.hlo").stdout.startswith("--- sub/ugly.hlo\n+++ sub/ugly.hlo")
    assert run("--diff", "--check", "sub/ugly.hlo", code=1).stdout.count("\n+") == 4
    assert run("--diff", "good.hlo").output == ""
    assert Path("sub/ugly.hlo").read_text() == UGLY


def test_standard_input() -> None:
    assert run("-", given=UGLY).stdout == GOOD
    assert run("-", "--check", code=1, given=UGLY).stderr == "-: not in canonical form\n"


def test_ends_of_lines_stay() -> None:
    Path("dos.hlo").write_bytes(UGLY.replace("\n", "\r\n").encode())
    run("dos.hlo")
    assert Path("dos.hlo").read_bytes() == GOOD.replace("\n", "\r\n").encode()
    run("--check", "dos.hlo")


def test_json() -> None:
    found = json.loads(run("--json", "--check", ".", code=1).stdout)
    check_schema("hlo-fmt", found)
    by_name = {f["file"]: f for f in found["files"]}
    assert by_name["sub/ugly.hlo"]["changed"] and not by_name["good.hlo"]["changed"]
    assert by_name["bad.hlo"]["errors"][0]["column"] == 27


def test_usage() -> None:
    assert "--json excludes -" in run("--json", "-", code=2).stderr
    assert "no such file" in run("none.hlo", code=1).stderr


def test_hooks_name_what_there_is() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    options = {o for param in main.params for o in param.opts}
    entries = re.findall(r"^  entry: (.*)$", text, re.M)
    assert len(entries) == text.count("- id: ") == 2
    for command, *flags in map(str.split, entries):
        assert f'{command} = "hlo_tools.fmt:main"' in (ROOT / "pyproject.toml").read_text()
        assert options.issuperset(flags)
    (pattern,) = set(re.findall(r"^  files: (.*)$", text, re.M))
    assert re.search(pattern, "a/model.hlo") and not re.search(pattern, "model.hlo.txt")
