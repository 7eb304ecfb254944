"""ptxas, NVIDIA's assembler: PTX to machine code (cubin), and what the kernels take.

It comes with the extra `cuda` (the package nvidia-cuda-nvcc-cu12), or with a CUDA toolkit. It needs
no GPU.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hlo.errors import HloError

# Where packages of NVIDIA's have it, below the folder `nvidia`.
_IN_PACKAGES = ("cuda_nvcc/bin/ptxas", "cu13/bin/ptxas")
_HINT = "pip install 'hlo-tools[cuda]', or set CUDA_HOME to a CUDA toolkit"


@dataclass(frozen=True)
class Resources:
    """What a thread of a kernel takes, and a block of shared memory, as ptxas says.

    stack_bytes: local memory of a thread, spilled registers and arrays alike. shared_bytes: static.
    """

    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0


@dataclass(frozen=True)
class Assembled:
    """A program in machine code. resources: of each kernel, by name. warnings: lines of ptxas."""

    cubin: bytes
    resources: dict[str, Resources]
    warnings: tuple[str, ...] = ()


@cache
def find_ptxas() -> Path | None:
    """Return where ptxas is: in a package of NVIDIA's, a CUDA toolkit, or the search path."""
    return next((path for path in _candidates() if os.access(path, os.X_OK)), None)


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from (Path(folder, name) for name in _IN_PACKAGES)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", "ptxas")
    found = shutil.which("ptxas")
    if found:
        yield Path(found)


@cache
def ptxas_version() -> str:
    """Return the version of ptxas that is found, nothing if there is none."""
    path = find_ptxas()
    if path is None:
        return ""
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bV([\d.]+)", said)
    return found[1] if found else ""


def assemble(ptx: str, cpu: str, *, optimization: int = 3) -> Assembled:
    """Return PTX as machine code for a GPU, `sm_90` say.

    Raises HloError, code `no-ptxas` where there is no ptxas, `bad-ptx` where it refuses the text.
    """
    path = find_ptxas()
    if path is None:
        raise HloError.at("no-ptxas", "ptxas was not found; it assembles PTX to cubins", hint=_HINT)
    with tempfile.TemporaryDirectory(prefix="hlo-ptxas-") as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(ptx)
        options = ["-v", f"-arch={cpu}", f"-O{optimization}", "-o", str(target), str(source)]
        # The folder's name is in no output: equal texts make equal cubins.
        done = subprocess.run(
            [str(path), *options], capture_output=True, text=True, cwd=folder, check=False
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line or "fatal" in line]
            told = (said or done.stderr.splitlines() or ["no message"])[0].replace(f"{folder}/", "")
            raise HloError.at("bad-ptx", f"ptxas refuses the code for {cpu}: {told.strip()}")
        said = done.stderr.replace(f"{folder}/", "").splitlines()
        warnings = tuple(line.strip() for line in said if "warning" in line.lower())
        return Assembled(target.read_bytes(), _resources(said), warnings)


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


def _resources(lines: list[str]) -> dict[str, Resources]:
    """Return what ptxas -v has said of each kernel."""
    found: dict[str, Resources] = {}
    kernel, described, stack = "", "", (0, 0, 0)
    for line in lines:
        if entry := _ENTRY.search(line):
            kernel, stack = entry[1], (0, 0, 0)
        elif of := _PROPERTIES.search(line):
            described = of[1]
        elif (frame := _STACK.search(line)) and described == kernel:
            stack = (int(frame[1]), int(frame[2]), int(frame[3]))
        elif used := _REGISTERS.search(line):
            barriers, shared = _BARRIERS.search(line), _SHARED.search(line)
            found[kernel] = Resources(
                int(used[1]), *stack, int(shared[1]) if shared else 0,
                int(barriers[1]) if barriers else 0,
            )  # fmt: skip
    return found
