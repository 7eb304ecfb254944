"""C programs for GPUs, built and run on the stub driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hlo.compiler.gpu_translation import translate_for_gpu
from hlo.frontends.text import parse
from hlo.objects.gpu.code import GpuCode
from hlo.objects.gpu.targets import gpu_platform
from tests.gpu.stub_driver.library import build_program, environment
from tests.harness.processes import HANG_S

SANITIZED = "-fsanitize=address,undefined"


def code_of(text: str, symbol: str = "m", cpu: str = "sm_90") -> GpuCode:
    return translate_for_gpu(parse(text), gpu_platform("nvptx64", cpu), symbol, source="m.hlo")


def write_code(folder: Path, text: str, symbol: str = "m") -> GpuCode:
    """Write the C source of a module and its headers."""
    code = code_of(text, symbol)
    (folder / f"{symbol}.c").write_bytes(code.write(".c", f"{symbol}.c"))
    for path, data in code.headers("m.hlo", str(folder / f"{symbol}.h")).items():
        Path(path).write_bytes(data)
    return code


def write_example(folder: Path, text: str, driver: Path) -> GpuCode:
    """Build the example of a module."""
    code = code_of(text)
    for path, data in code.example("m.hlo", str(folder)).items():
        Path(path).write_bytes(data)
    build_program(folder, ["example.c", "m.c"], driver, SANITIZED)
    return code


def run_program(
    folder: Path, driver: Path, *args: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program; what it has not given back is in `report`."""
    report = folder / "report"
    report.unlink(missing_ok=True)
    return subprocess.run(
        ["./program", *args], cwd=folder, capture_output=True, text=True, check=False,
        timeout=HANG_S, env=environment(driver, HLO_STUB_REPORT=str(report), **environ),
    )  # fmt: skip
