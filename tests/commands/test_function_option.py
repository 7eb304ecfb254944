"""--function: which function of StableHLO is the entry, in every command that reads modules."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner

import hlo

TEXT = """
func.func @first(%a: tensor<2xf32>) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}
func.func @second(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
COMMANDS = {
    "opt.command": [], "run.command": ["--backend", "reference"], "translate": [],
    "diff": ["--passes", "dce"],
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "two.mlir"
    file.write_text(TEXT)
    return file


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_take_it(name: str, path: Path) -> None:
    command = importlib.import_module(f"hlo_tools.{name}").main
    runner = CliRunner()
    result = runner.invoke(command, [*COMMANDS[name], "--function", "@second", str(path)])
    assert result.exit_code == 0, result.output
    if name == "opt.command":
        assert "negate(" in result.stdout and result.stdout.startswith("HloModule")
    result = runner.invoke(command, [*COMMANDS[name], str(path)])
    assert result.exit_code == 1 and "--function says which is the entry: @first, @second" in (
        result.stderr
    )


def test_the_format_of_the_file_may_be_said(path: Path) -> None:
    command = importlib.import_module("hlo_tools.opt.command").main
    arguments = ["--format", "mlir", "--function", "second", str(path)]
    assert "negate(" in CliRunner().invoke(command, arguments).stdout


def test_other_files_have_no_functions(tmp_path: Path) -> None:
    file = tmp_path / "m.hlo"
    file.write_text("HloModule m\nENTRY e { ROOT c = s32[] constant(7) }\n")
    command = importlib.import_module("hlo_tools.opt.command").main
    result = CliRunner().invoke(command, ["--function", "e", str(file)])
    assert result.exit_code == 1 and "is not StableHLO" in result.stderr


def test_python_takes_it() -> None:
    module = hlo.from_stablehlo(TEXT, function="second")
    assert module.entry.root.opcode == "negate"
    with pytest.raises(hlo.HloError, match="there is no function @third"):
        hlo.from_stablehlo(TEXT, function="third")
