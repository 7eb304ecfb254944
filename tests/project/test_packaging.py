"""What is shipped runs where it says it does."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.harness.paths import ROOT


def test_possessive_repetitions_are_of_single_characters() -> None:
    # Of a group, they match wrongly before Python 3.11.5, which Debian 12 has. What ends a group in
    # a pattern: its parenthesis, or what is filled in.
    of_group = re.compile(r"(?:(?<!\\)[)}]|>>)(?:[*+?]|\{\d*,?\d*\})\+")
    assert of_group.search("(?:ab?c)*+") and of_group.search("{GAP}?+")
    assert not of_group.search(r"\)++[^)]*+\}*+")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ("hlo", "tools")
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in (".py", ".lark")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if of_group.search(line)
    ]
    assert not found, "\n".join(found)


def test_make_says_what_it_installs() -> None:
    """pip is silent for minutes where the network is slow."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    for target in ("hlo-run", "pytest", "sphinx-build"):
        told = _run("make", "-n", "-B", f".venv/bin/{target}", cwd=ROOT)
        assert re.search(r"echo .installing hlo-tools.* into \.venv \.\.\.", told), told


# What is no part of the sources, or takes long to copy.
_LEFT_OUT = (".*", "*.egg-info", "build", "dist", "share", "site", "__pycache__", "tests")


def _archives(folder: Path) -> tuple[Path, Path]:
    """Return a wheel and a source archive, made as `make dist` does."""
    root = folder / "checkout"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    _run(sys.executable, "docs/share.py", "share", cwd=root)
    _run(sys.executable, "-m", "build", "--no-isolation", cwd=root)
    return next((root / "dist").glob("*.whl")), next((root / "dist").glob("*.tar.gz"))


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def _check_contents(wheel: Path, source: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        about = email.message_from_bytes(packed.read(next(n for n in names if "METADATA" in n)))
    assert about["License-Expression"] == "Apache-2.0 AND MIT"
    assert about["Requires-Python"] == ">=3.11"
    for licence in ("licenses/LICENSE", "page/static/dagre/LICENSE"):
        assert any(n.endswith(licence) for n in names)
    assert {n.split("/")[0].split("-")[0] for n in names} == {"hlo", "hlo_tools"}
    with tarfile.open(source) as packed_source:
        members = {n.partition("/")[2] for n in packed_source.getnames()}
    files = {str(p.relative_to(ROOT)) for p in (ROOT / "hlo").rglob("*") if p.is_file()}
    missing = {f for f in files if "__pycache__" not in f} - members
    assert not missing and {"LICENSE", "README.md", "share/man/man1/hlo-opt.1"} <= members


def test_the_archives_are_whole_and_the_wheel_works_in_a_fresh_environment(tmp_path: Path) -> None:
    for needed in ("build", "click_man", "setuptools"):
        pytest.importorskip(needed)
    wheel, source = _archives(tmp_path)
    _check_contents(wheel, source)
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    binaries = tmp_path / "env" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(binaries / "python"), "install"]
    _run(*pip, "--no-deps", "--no-index", "-q", str(wheel), cwd=tmp_path)
    # What it depends on is lent by the environment of the tests, but not the package itself.
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    lent = sysconfig.get_paths()["purelib"]
    (site / "lent.pth").write_text(f"{lent}\n")

    asked = "import hlo; print(hlo.__file__)"
    assert Path(_run(str(binaries / "python"), "-c", asked, cwd=tmp_path)).is_relative_to(site)
    text = "HloModule m\nENTRY e {\n  ROOT c = s32[] constant(7)\n}\n"
    (tmp_path / "m.hlo").write_text(text)
    assert _run(str(binaries / "hlo-run"), "m.hlo", cwd=tmp_path) == "out0 = s32[] 7\n"
    _run(str(binaries / "hlo-opt"), "m.hlo", "-o", "m.pb", cwd=tmp_path)
    _run(str(binaries / "hlo-compile"), "m.pb", "-o", "m.o", "--header", "m.h", cwd=tmp_path)
    assert "s32[2]" in _run(str(binaries / "hlo-layout"), "s32[2]", cwd=tmp_path)
    # What no import needs.
    assert (site / "hlo" / "py.typed").exists()
    for static in ("page.js", "page.css", "dagre/dagre.min.js", "dagre/LICENSE"):
        assert (site / "hlo" / "reports" / "page" / "static" / static).exists()
    for header in ("hlo_ffi.h", "hlo_collectives.h"):
        assert (site / "hlo" / "include" / header).exists()
    shared = tmp_path / "env" / "share"
    assert ".SH OPTIONS" in (shared / "man" / "man1" / "hlo-run.1").read_text()
    assert (shared / "bash-completion" / "completions" / "hlo-run").exists()
