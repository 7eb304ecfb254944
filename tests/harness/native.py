"""Build C programs around compiled modules, for this machine and others, and run them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo.compiler.translation import translate
from hlo.frontends.text import parse
from hlo.objects.code import Code
from hlo.objects.targets import platform
from hlo.values.layout.packing import pack, unpack


@dataclass(frozen=True)
class Machine:
    """A machine that programs are compiled for, and how they run here.

    compiler, runner: commands; a program is appended to the second. nm: lists symbols of objects.
    tools: others that running needs.
    """

    triple: str | None
    cpu: str | None = None
    features: str = ""
    compiler: tuple[str, ...] = ("cc",)
    runner: tuple[str, ...] = ()
    nm: str = "nm"
    tools: tuple[str, ...] = ()

    @property
    def is_narrow(self) -> bool:
        """True for processors of 32 bits that run natively compiled code."""
        return self.triple is not None and self.triple.startswith(("armv7", "i686"))

    def need(self) -> None:
        """Skip the test if a tool is missing."""
        for tool in (self.compiler[0], *self.runner[:1], self.nm, *self.tools):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
        if self.triple == "wasm32" and not Path("/usr/lib/wasm32-wasi").exists():
            pytest.skip("wasi-libc is not installed")

    def code(self, text: str, symbol: str = "m", **options: Any) -> Code:
        """Return a module's code for the machine."""
        machine = platform(self.triple, self.cpu, self.features)
        return translate(parse(text), machine, symbol, **options)


def _linux(arch: str, features: str = "", options: tuple[str, ...] = ()) -> Machine:
    triple = f"{arch}-linux-gnu"
    runner = (f"qemu-{arch}", *options, "-L", f"/usr/{triple}")
    return Machine(triple, None, features, (f"{triple}-gcc",), runner)


# Runs a WebAssembly program that uses the system interface WASI.
_NODE = """\
import { readFileSync } from "fs";
import { WASI } from "wasi";
const args = process.argv.slice(1);
const wasi = new WASI({ version: "preview1", args, preopens: { ".": "." } });
const module = await WebAssembly.compile(readFileSync(process.argv[1]));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
"""


def _wasm(features: str = "") -> Machine:
    runner = ("node", "--no-warnings", "--input-type=module", "-e", _NODE, "--")
    return Machine(
        "wasm32", None, features, ("clang", "--target=wasm32-wasi"), runner, nm="llvm-nm"
    )


MACHINES = {
    "native": Machine(None),
    "x86-64": Machine("x86_64-linux-gnu"),
    "x86-64-v3": Machine("x86_64-linux-gnu", "x86-64-v3"),
    "aarch64": _linux("aarch64"),
    "riscv64": _linux("riscv64"),
    "riscv64-v": _linux("riscv64", "+v", ("-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0")),
    "armv7": Machine(
        "armv7-linux-gnueabihf",
        None,
        "",
        ("arm-linux-gnueabihf-gcc",),
        ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"),
    ),
    "i686": Machine(
        "i686-linux-gnu",
        None,
        "",
        ("i686-linux-gnu-gcc",),
        ("qemu-i386", "-L", "/usr/i686-linux-gnu"),
    ),
    # Windows' compilers add to a program's name.
    "windows": Machine(
        "x86_64-w64-mingw32",
        compiler=("x86_64-w64-mingw32-gcc",),
        nm="llvm-nm",
        tools=("wine",),
        runner=("sh", "-c", 'program=$1; shift; WINEDEBUG=-all exec wine "$program.exe" "$@"', "-"),
    ),
    "wasm32": _wasm(),
    "wasm32-simd": _wasm("+simd128,+bulk-memory"),
}
STRICT = ("-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror")


def run_command(command: Sequence[str], folder: Path) -> str:
    """Run a command, which has to succeed; returns what it prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command[:6])}: {done.stdout}{done.stderr}"
    return done.stdout


def undefined(machine: Machine, objects: Path) -> set[str]:
    """Return the symbols that an object file wants from others."""
    lines = run_command([machine.nm, "-u", str(objects)], objects.parent).splitlines()
    return {line.split()[-1] for line in lines if line.strip() and not line.endswith(":")}


def physical(array: np.ndarray, shape: Any) -> bytes:
    """Return an array as it lies in memory."""
    return bytes(pack(np.asarray(array), shape))


def logical(data: bytes, shape: Any) -> np.ndarray:
    """Return the array that memory holds."""
    return unpack(np.frombuffer(data, np.uint8), shape)
