"""Options that require or exclude others, and the options that several commands share."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from xml.etree import ElementTree as xml

import click
import pytest
from click.testing import CliRunner, Result
from hlo_tools.command_line.common import Tool, common_options
from hlo_tools.command_line.options import Option

from tests.harness.paths import ROOT

GOOD = "HloModule m\n\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n"
OTHER = GOOD.replace("f32[2]", "f32[3]")
BROKEN = "HloModule m\n\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[3] negate(x)\n}\n"
TRUNCATED = "HloModule m\n\nENTRY e {\n  ROOT x = f32[2] param"


def commands() -> dict[str, click.Command]:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    pairs = (entry.split(":") for entry in scripts.values())
    return {
        name: getattr(importlib.import_module(module), attr)
        for name, (module, attr) in zip(scripts, pairs, strict=True)
    }


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for name, text in (
        ("good", GOOD), ("other", OTHER), ("broken", BROKEN), ("truncated", TRUNCATED),
        ("ugly", GOOD.replace("  ROOT", "ROOT")),
    ):  # fmt: skip
        Path(f"{name}.hlo").write_text(text)


def run(command: str, *args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(commands()[command], list(args))
    assert result.exit_code == code, result.output
    return result


# --- requires and excludes ----------------------------------------------------------------------


@click.command("tool", cls=Tool)
@click.option("--cost", "report", flag_value="cost")
@click.option("--stats", "report", flag_value="stats")
@click.option("--backend", default="compiled")
@click.option("-o", "--output", multiple=True)
@click.option("--device", cls=Option, requires="--cost")
@click.option("--both", is_flag=True, cls=Option, requires=["--cost", "--stats"])
@click.option("--seen", is_flag=True, cls=Option, requires="--backend gpu", excludes=["--cost"])
@click.option("--emit", cls=Option, requires="--output -")
@click.option("--zero", type=int, cls=Option, excludes=["--device"])
@common_options
def tool(**_: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--device x", "--device requires --cost."),
        ("--device x --stats", "--device requires --cost."),
        ("--device x --cost", ""),
        ("--both", "--both requires --cost or --stats."),
        ("--both --stats", ""),
        ("--seen", "--seen requires --backend gpu."),
        ("--seen --backend gpu", ""),
        ("--seen --backend gpu --cost", "--seen excludes --cost."),
        ("--seen --backend gpu --stats", ""),
        ("--emit x -o y", "--emit requires --output -."),
        ("--emit x -o y -o -", ""),
        ("--zero 0 --device x --cost", "--zero excludes --device."),
        ("--zero 0", ""),
    ],
)
def test_options_require_and_exclude_others(args: str, message: str) -> None:
    result = CliRunner().invoke(tool, args.split())
    assert result.exit_code == (2 if message else 0), result.output
    assert result.stderr.endswith(f"Error: {message}\n") or not message


def test_conditions_name_options_that_the_command_has() -> None:
    for command in commands().values():
        names = {name for p in command.params for name in p.opts}
        for option in command.params:
            if isinstance(option, Option):
                for condition in (*option.requires, *option.excludes):
                    assert condition.partition(" ")[0] in names, (command.name, option.name)


# --- what all commands have ---------------------------------------------------------------------


def test_every_command_lists_the_common_options() -> None:
    assert len(commands()) == 10
    for name in commands():
        text = run(name, "--help").stdout
        for option in ("--debug ", "--version", "--install-completion", "-h, --help"):
            assert option in text, (name, option)


@pytest.mark.parametrize("command", ["hlo-run", "hlo-opt", "hlo-fmt", "hlo-diff"])
def test_options_for_continuous_integration_are_the_same(command: str) -> None:
    shared = [p for p in commands()[command].params if p.name in ("quiet", "junit", "github")]
    assert [sorted(p.opts + p.secondary_opts) for p in shared] == [
        ["--quiet"], ["--junit"], ["--github", "--no-github"]
    ]  # fmt: skip


# --- several files ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["hlo-opt", "hlo-run", "hlo-fmt"])
def test_a_command_goes_on_after_a_broken_file(command: str) -> None:
    files = ["good.hlo", "broken.hlo", "truncated.hlo", "missing.hlo"]
    flags = ["--check"] if command == "hlo-fmt" else []
    result = run(command, "--quiet", *files, *flags, "--junit=r.xml", "--github", code=1)
    # hlo-fmt parses, but does not verify.
    bad = files[1:] if command != "hlo-fmt" else files[2:]
    assert result.stdout == ""
    for file in bad:
        assert f"{file}:" in result.stderr
        assert f"::error file={file}" in result.stderr
    suites = {s.get("name"): s for s in xml.parse("r.xml").getroot()}
    assert list(suites) == files
    assert {name for name, s in suites.items() if s.get("errors") != "0"} == set(bad)
    assert run(command, "--quiet", "good.hlo", "good.hlo", *flags).output == ""


def test_modules_of_a_split_file_are_read_after_a_broken_one() -> None:
    Path("split.hlo").write_text(f"{BROKEN}// -----\n{GOOD}// -----\n{TRUNCATED}")
    result = run("hlo-opt", "split.hlo", "--split-input-file", code=1)
    assert "split.hlo:5:8: error: y: negate" in result.stderr
    assert "split.hlo:17:" in result.stderr and "parameter(0)" in result.stdout
    told = run("hlo-translate", "split.hlo", "--split-input-file", code=1).stderr
    assert "split.hlo:5:8: error" in told and "split.hlo:17:" in told


def test_nothing_is_written_where_a_file_has_errors() -> None:
    run("hlo-opt", "good.hlo", "broken.hlo", "-o", "out.hlo", code=1)
    assert not Path("out.hlo").exists()
    assert "2 of 3 files have errors: broken.hlo, truncated.hlo" in run(
        "hlo-opt", "good.hlo", "broken.hlo", "truncated.hlo", code=1
    ).stderr  # fmt: skip


def test_both_sides_of_a_difference_are_read() -> None:
    result = run("hlo-diff", "missing.hlo", "truncated.hlo", code=1)
    assert "missing.hlo: no such" in result.stderr and "truncated.hlo:4:" in result.stderr


def test_differences_for_continuous_integration() -> None:
    result = run(
        "hlo-diff", "good.hlo", "other.hlo", "--quiet", "--junit=r.xml", "--github", code=1
    )
    assert result.stdout == "" and "::error file=other.hlo,title=matches good.hlo" in result.stderr
    [case] = xml.parse("r.xml").getroot().iter("testcase")
    assert case.get("name") == "matches good.hlo" and case[0].get("type") == "differs"
    assert run("hlo-diff", "good.hlo", "good.hlo", "--quiet", "--github").output == ""


def test_formats_for_continuous_integration() -> None:
    result = run("hlo-fmt", "--check", "ugly.hlo", "good.hlo", "--quiet", "--github", code=1)
    assert result.stderr.splitlines() == [
        "::error file=ugly.hlo,line=4,title=is in canonical form%3A not-canonical"
        "::not in canonical form",
        "ugly.hlo: not in canonical form",
    ]


# --- extensions of output files -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("hlo-opt", ["-o", "x.jpg"]), ("hlo-opt", ["--stage=asm", "-o", "x.o"]),
        ("hlo-opt", ["--stats", "-o", "x.hlo"]), ("hlo-opt", ["--stage=dot", "-o", "x.hlo"]),
        ("hlo-opt", ["--emit-proto", "-o", "x.pb"]),
        ("hlo-translate", ["-o", "x.onnx"]), ("hlo-translate", ["-o", "x.py", "-hlo-to-mlir"]),
        ("hlo-compile", ["-o", "x.exe"]), ("hlo-compile", ["--header", "x.txt"]),
        ("hlo-reduce", ["--check", "-o", "x.pb"]), ("hlo-diff", ["other.hlo", "--html=x.txt"]),
    ],
)  # fmt: skip
def test_unsupported_extensions_are_refused(command: str, args: list[str]) -> None:
    result = run(command, "good.hlo", *args, code=1)
    assert "unsupported extension '." in result.stderr and "use one of ." in result.stderr
    assert not list(Path().glob("x.*"))


def test_supported_extensions() -> None:
    for name in ("x.hlo", "x.txt", "x.pb", "x.pbtxt", "x.mlir", "x"):
        run("hlo-opt", "good.hlo", "-o", name)
        run("hlo-translate", "good.hlo", "-o", name)
        assert Path(name).read_bytes()
    for flags in (["--stage=dot", "-o", "x.dot"], ["--stats", "--json", "-o", "x.json"]):
        run("hlo-opt", "good.hlo", *flags)


# --- suggestions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "flag", "words"),
    [
        ("hlo-run", "--quite", "No such option '--quite'. Did you mean --quiet?"),
        ("hlo-run", "--stage=asm", "No such option '--stage'. It is an option of hlo-opt."),
        ("hlo-run", "--tolerance=1", "Did you mean --rtol or --atol?"),
        ("hlo-run", "--verbose", "Did you mean --debug?"),
        ("hlo-opt", "--expekt=x", "No such option '--expekt'.\n"),
        (
            "hlo-opt",
            "--stage=assm",
            "'assm' is unknown; --list-stages shows all. Did you mean 'asm'?",
        ),
        ("hlo-opt", "--print=canon", "Did you mean 'canonical'?"),
        ("hlo-opt", "--verify=loose", "'loose' is not one of 'strict', 'lenient'."),
    ],
)
def test_what_may_be_meant(command: str, flag: str, words: str) -> None:
    assert words in run(command, "good.hlo", flag, code=2).stderr


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("[1, 2]", "literals have braces: {1, 2}"),
        ("(1, 2)", "literals have braces: {1, 2}"),
        ("x=random,y=zeros", "each parameter takes an --input of its own: --input y=zeros"),
    ],
)
def test_values_of_other_notations(given: str, hint: str) -> None:
    assert f"hint: {hint}" in run("hlo-run", "good.hlo", "--input", given, code=1).stderr


@pytest.mark.parametrize(
    "end",
    ["x = f32[2", "x = f32[2] add(x, ", "x = f32[2] ad", "x = f32[2] add(x, x), meta",
     "x = f32[2] add(x, x), metadata={op_name=\"a", "x = f32[2] add(x, x) /* a", "x = ",
     "x = f32[2] constant({1, ", "x = f32[2] parameter(0)\n"],
)  # fmt: skip
def test_a_truncated_file_is_said_to_end(end: str) -> None:
    Path("cut.hlo").write_text(f"HloModule m\nENTRY e {{\n  {end}")
    told = run("hlo-opt", "cut.hlo", code=1).stderr
    assert told.count("hint: the file ends here; it may be truncated") == 1, told
