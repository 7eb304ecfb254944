"""Builds the stub driver, and programs that run on it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.native import run_command
from tests.harness.paths import ROOT

NAME = "libcuda.so.1"
# Nothing was left on the device when a process ended.
CLEAN = "0 bytes, 0 contexts, 0 modules, 0 streams, 0 pinned\n"
_STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g")


def build_driver(folder: Path) -> Path:
    """Compile the stub driver into a folder; skips the test where there is no C compiler."""
    if shutil.which("cc") is None or sys.platform != "linux":
        pytest.skip("there is no C compiler, or no Linux")
    library = folder / NAME
    source = Path(__file__).with_name("driver.c")
    places = [f'-DPYTHON="{sys.executable}"', f'-DROOT="{ROOT}"', f"-I{ROOT / 'hlo/include'}"]
    run_command(
        ["cc", *_STRICT, *places, "-fPIC", "-shared", f"-Wl,-soname,{NAME}", str(source),
         "-o", str(library), "-ldl", "-lpthread"], folder,
    )  # fmt: skip
    return library


def build_program(folder: Path, sources: Sequence[str], library: Path, *options: str) -> None:
    """Compile C sources to `program`, which runs on the stub driver."""
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-g", "-I."]
    run_command(["cc", *strict, *options, *sources, str(library), "-o", "program"], folder)


def environment(library: Path, **more: str) -> dict[str, str]:
    """Return the environment in which programs find the stub driver."""
    return {**os.environ, "LD_LIBRARY_PATH": str(library.parent), **more}
