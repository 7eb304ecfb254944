"""`hlo-opt`: printing, options, errors, the list of operations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hlo_tools.opt.command import main

from hlo.ops import OPS

TEXT = """HloModule m

ENTRY %main (x: f32[20]) -> f32[20] {
  %x = f32[20]{0} parameter(0)
  %c = f32[20]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19})
  ROOT %s = f32[20]{0} add(%x, %c), metadata={op_name="add"}
}
"""
BROKEN = """HloModule m
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[3] negate(x)
  ROOT z = f32[2] add(x, y)
}
"""


def run(*args: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_prints_what_it_read() -> None:
    assert run("-", text=TEXT).stdout == TEXT
    assert run("-", text=run("-", "--print=short", text=TEXT).stdout).exit_code == 0


@pytest.mark.parametrize(
    ("flags", "there", "gone"),
    [
        (["--print=short"], "ROOT s = f32[20]{0} add(x, c)", "%"),
        (["--constants=10"], "constant({...})", "19"),
        (["--no-metadata"], "ROOT", "metadata"),
        (["--no-layouts"], "f32[20] add", "{0}"),
        (["--print=canonical"], "tmp_0", "%s"),
        (["--print=short", "--percent"], "%s", "metadata"),
        (["--operand-shapes"], "add(f32[20]{0} %x", "add(%x"),
        (["--quiet"], "", "HloModule"),
    ],
)
def test_options_of_printing(flags: list[str], there: str, gone: str) -> None:
    result = run("-", *flags, text=TEXT)
    assert result.exit_code == 0
    assert there in result.stdout and gone not in result.stdout


def test_all_errors_at_once_with_places() -> None:
    result = run("-", text=BROKEN)
    assert result.exit_code == 1 and result.stdout == ""
    assert "<stdin>:4:" in result.stderr and "<stdin>:5:" in result.stderr
    assert "  y = f32[3] negate(x)" in result.stderr and "2 errors" in result.stderr
    assert run("-", "--no-verify", text=BROKEN).exit_code == 0
    recursive = (
        "HloModule m\nENTRY e { p = f32[] parameter(0) ROOT r = f32[] call(p), to_apply=e }\n"
    )
    assert "[recursive-call]" in run("-", "--no-verify", "--stats", text=recursive).stderr
    assert "[unknown-pass]" in run("-", "--passes=dce", "--print-after=no", text=TEXT).stderr


def test_errors_as_json() -> None:
    result = run("-", "--json", text=BROKEN)
    report = json.loads(result.stdout)
    assert result.exit_code == 1 and result.stderr == ""
    assert [e["line"] for e in report["errors"]] == [4, 5]
    assert all(e["file"] == "<stdin>" and e["code"] for e in report["errors"])
    assert json.loads(run("-", "--json", text=TEXT).stdout)["errors"] == []


def test_output_file(tmp_path: Path) -> None:
    out = tmp_path / "out.hlo"
    assert run("-", "-o", str(out), text=TEXT).stdout == ""
    assert out.read_text() == TEXT
    assert run("-", "-o", str(out), text=BROKEN).exit_code == 1
    assert out.read_text() == TEXT
    assert run("-", "-o", str(tmp_path / "no" / "x"), text=TEXT).exit_code == 1


def test_list_of_operations() -> None:
    lines = run("--list-ops").stdout.splitlines()
    assert len(lines) == len(OPS) + 1
    assert any(line.startswith("iota ") and "iota_dimension!" in line for line in lines)
    rows = json.loads(run("--list-ops", "--json").stdout)
    assert {row["opcode"] for row in rows} == set(OPS)


def test_bad_usage_exits_2() -> None:
    assert run().exit_code == 2
    assert run("--quiet").exit_code == 2
    assert run("missing.hlo").exit_code == 1


def test_help_shows_an_example() -> None:
    assert "Example:" in run("--help").stdout


def test_debug_options_of_xla_write_the_files_that_its_tool_writes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    result = run(
        f"--xla_dump_to={first}", "--xla_dump_hlo_pass_re=.*", "--xla_gpu_some_mb=3253",
        "--passes=dce,algsimp", "-", text=TEXT,
    )  # fmt: skip
    assert result.exit_code == 0
    assert "change nothing here: --xla_gpu_some_mb" in result.stderr
    assert sorted(p.name for p in first.iterdir()) == [
        "module_0000.m.0000.transforms_pipeline.after_pipeline-start.before_dce.txt",
        "module_0000.m.0001.transforms_pipeline.after_algsimp.before_pipeline-end.txt",
        "module_0000.m.after_optimization.txt",
        "module_0000.m.before_optimization.txt",
        "module_0000.m.debug_options",
    ]
    assert "constant({...})" in (first / "module_0000.m.after_optimization.txt").read_text()
    file = first / "module_0000.m.debug_options"
    assert file.read_text().startswith(f'xla_gpu_some_mb: 3253\nxla_dump_to: "{first}"\n')
    flags = (f"--xla_dump_to={second}", f"--debug_options_file={file}")
    run(*flags, "--xla_dump_large_constants", "--passes=dce", "-", text=TEXT)
    assert len(list(second.iterdir())) == 5
    assert "18, 19})" in (second / "module_0000.m.after_optimization.txt").read_text()


@pytest.mark.parametrize(
    ("flag", "words", "code"),
    [("--xla_dump_hlo_pass_re=(", "missing )", 2), ("--debug_options_file=/nowhere", "nowhere", 1)],
)
def test_bad_debug_options_are_errors(flag: str, words: str, code: int) -> None:
    result = run(flag, "--passes=dce", "-", text=TEXT)
    assert result.exit_code == code
    assert words in result.stderr


@pytest.mark.parametrize("line", ["rng(a, a, a), distribution=rng_uniform", "add(a)", "negate()"])
@pytest.mark.parametrize("passes", ["rng-expander", "algsimp", "default"])
def test_operands_are_counted_without_verification(line: str, passes: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  a = f32[] parameter(0)\n  ROOT r = f32[] {line}\n}}\n"
    result = run("-", "--no-verify", f"--passes={passes}", text=text)
    assert result.exit_code == 1
    assert result.stderr.count("[operand-count]") == 1
