"""Shells complete the commands; `python -m hlo` runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main as opt
from hlo_tools.run.command import main as run

from hlo.__main__ import commands

# What lies behind Tab, called as each shell does, with a word that is begun.
_ASK = {
    "bash": """
        COMP_WORDS=(hlo-run --backe) COMP_CWORD=1
        _hlo_run_completion hlo-run; echo "${COMPREPLY[@]}"
        """,
    "zsh": """
        compadd() { print -r -- "$@" }; _describe() { print -r -- "${(P@)3}" }
        words=(hlo-run --backe) CURRENT=2; _hlo_run_completion
        """,
    "fish": "complete --do-complete 'hlo-run --backe'",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user who has `hlo-run` on the path, and nothing else."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "BASH_ENV"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "a b" / "bin" / "hlo-run"
    place.parent.mkdir(parents=True)
    place.write_text(f'#!/bin/sh\nexec {sys.executable} -m hlo run "$@"\n')
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "a b"))
    return tmp_path / "a b"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_what_was_installed(shell: str, home: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    for _ in range(2):
        done = CliRunner().invoke(run, ["--install-completion", shell])
        assert done.exit_code == 0, done.stderr
    start = {"bash": ". ~/.bashrc\n", "zsh": ". ~/.zshrc\n", "fish": ""}[shell]
    if start:
        assert len((home / f".{shell}rc").read_text().splitlines()) == 1
    got = subprocess.run(
        [shell, "-c", start + _ASK[shell]], capture_output=True, text=True, check=False
    )
    assert "--backend" in got.stdout, got.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_one_command_installs_the_completion_of_all(shell: str, home: Path) -> None:
    done = CliRunner().invoke(opt, ["--install-completion", shell])
    files = [f for f in home.rglob("*") if f.is_file() and f.suffix == f".{shell}"]
    scripts = "".join(f.read_text() for f in files)
    for name in commands():
        assert f"_HLO_{name.upper()}_COMPLETE" in scripts, name
        assert f"hlo-{name}" in done.stdout
    assert len(commands()) == 10
    assert len(files) == (10 if shell == "fish" else 1)


def test_a_start_up_file_keeps_what_it_has(home: Path) -> None:
    (home / ".bashrc").write_text("alias ll='ls -l'")
    assert CliRunner().invoke(run, ["--install-completion=bash"]).exit_code == 0
    first, second = (home / ".bashrc").read_text().splitlines()
    assert first == "alias ll='ls -l'" and "completion.bash" in second


def test_a_shell_that_is_not_known(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    got = CliRunner().invoke(opt, ["--install-completion"])
    assert got.exit_code == 1
    assert "unknown shell 'tcsh'; completion supports bash, zsh, fish" in got.stderr
    assert not [p for p in home.rglob("*") if p.is_file() and p.name != "hlo-run"]


@pytest.mark.parametrize(
    ("command", "words", "wanted"),
    [
        (
            run,
            "hlo-run --backend ",
            "plain,compiled\nplain,reference\nplain,gpu\nplain,gpu-emulated\n",
        ),
        (run, "hlo-run mod", "file,mod\n"),
        (run, "hlo-run m.hlo -o r", "file,r\n"),
        (run, "hlo-run --see", "plain,--seed\n"),
        (opt, "hlo-opt --list-pa", "plain,--list-passes\n"),
    ],
)
def test_words(
    command: click.Command, words: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = words.split()[0]
    monkeypatch.setenv(f"_{name.replace('-', '_').upper()}_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    got = CliRunner().invoke(command)
    assert (got.exit_code, got.stdout) == (0, wanted)


def _python_m(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hlo", *args]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_python_m_runs_the_commands() -> None:
    text = "HloModule m\nENTRY e {\n  ROOT c = s32[] constant(7)\n}\n"
    done = _python_m("run", "-", stdin=text)
    assert (done.returncode, done.stdout) == (0, "out0 = s32[] 7\n")
    assert _python_m("opt", "-", stdin="nonsense").returncode == 1
    assert "opt, reduce, run" in _python_m("--help").stdout
    for args in ([], ["jump"]):
        done = _python_m(*args)
        assert done.returncode == 2 and "there is one of bench" in done.stderr
