"""The tutorials run as they are written, and print what they say.

Blocks of a page run in order, in one folder: `python` ones in one namespace, followed by what they
print as `text`; `console` ones hold commands after `$` and what those print; a block with `file=`
is written there. The pictures of a page are what its commands draw.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.paths import ROOT

TUTORIALS = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), ROOT / "docs" / "jax.md"]
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", re.M)


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with this tree's commands."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("run", "opt", "compile", "layout"):
        file = folder / f"hlo-{name}"
        file.write_text(f'#!/bin/sh\nexec {sys.executable} -m hlo {name} "$@"\n')
        file.chmod(0o755)
    return folder


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: f"{p.parent.stem}-{p.stem}")
def test_a_tutorial_runs(
    path: Path, commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if re.search(r"^\$ (.*&& )?cc ", path.read_text(), re.M) and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, Any] = {"__name__": "tutorial"}
    printed, ran = "", 0
    for kind, file, body in _BLOCK.findall(path.read_text()):
        if file:
            Path(file).write_text(body)
        elif kind == "python":
            assert printed == "", "something is printed that the page does not show"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, str(path), "exec"), names)
            printed, ran = out.getvalue(), ran + 1
        elif kind == "text":
            assert printed == body
            printed = ""
        elif kind == "console":
            for command, want in _COMMAND.findall(body):
                done = subprocess.run(command, shell=True, capture_output=True, text=True)
                assert (done.returncode, done.stdout) == (0, want), done.stderr
                ran += 1
    assert ran and printed == ""
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text()):
        assert Path(picture).read_text() == (path.parent / picture).read_text(), picture


def test_what_the_readme_shows_first_happens(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    # What it shows of JAX is in docs/jax.md, whose tests run it.
    found = _COMMAND.findall((ROOT / "README.md").read_text())
    (_, module), *shown = [(c, want) for c, want in found if c.startswith(("cat ", "hlo-"))]
    Path("axpy.hlo").write_text(module.rstrip() + "\n")
    Path("broken.hlo").write_text(module.replace(" add(", " ad("))
    assert len(shown) == 2
    for command, want in shown:
        done = subprocess.run(
            command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert done.stdout == want


def test_every_tutorial_is_linked() -> None:
    readme = (ROOT / "README.md").read_text()
    for path in TUTORIALS:
        assert f"(docs/tutorials/{path.name})" in readme, path.name


def test_links_of_tutorials_lead_somewhere() -> None:
    for path in TUTORIALS:
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"
