"""A program for a GPU in every output format."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from hlo.errors import HloError
from hlo.gpu.plan import LaunchPlan
from hlo.gpu.ptxas import assemble
from hlo.llvm import LlvmModule
from hlo.objects.archive import archive
from hlo.objects.exports import Reserved
from hlo.objects.gpu.calls import HostStep
from hlo.objects.gpu.example import gpu_example_texts
from hlo.objects.gpu.header import gpu_exports, gpu_header
from hlo.objects.gpu.launcher import DRIVER, FUNCTIONS, Embedded, constants_of, launcher
from hlo.objects.gpu.targets import GpuPlatform
from hlo.objects.interface import Interface
from hlo.runtime.assembly import assembly_of, optimized_text

# Names that C programs for GPUs have besides those of their own function.
_TAKEN = re.compile("cu[A-Z]|CU|hlo_gpu_")


@dataclass(frozen=True)
class GpuCode:
    """Kernels in LLVM IR, and the plan by which they are launched.

    host_steps: what C programs do for the calls of the host, by number.
    problem: why there is no C program of it, or None. source: what the module was read from.
    has_cubin: C programs hold machine code, not PTX.
    """

    interface: Interface
    platform: GpuPlatform
    module: LlvmModule
    plan: LaunchPlan
    host_steps: Sequence[HostStep]
    problem: HloError | None
    source: str
    has_cubin: bool = False

    def write(self, kind: str, name: str, linker: str = "") -> bytes:
        """Return the content of a file of a kind. `name` is the file's name, without folders.

        linker: the command of a C compiler to use instead of the system's. Raises HloError.
        """
        match kind:
            case ".ptx" | ".s":
                return self.assembly.encode()
            case ".cubin":
                return self._cubin
            case ".ll":
                return optimized_text(self.module, self.platform.target.cpu).encode()
            case ".c":
                return self.launcher().encode()
            case ".o":
                return self._object(linker)
            case ".a":
                member = f"{PurePath(name).stem}.o"
                return archive(member, self._object(linker), gpu_exports(self.interface))
        raise AssertionError(kind)

    def headers(self, source: str, path: str) -> dict[str, bytes]:
        """Return the header to be written to a path, and that of the driver's functions, by path.

        source: what the module was read from. Raises HloError where there is none.
        """
        self._need_launcher()
        if PurePath(path).suffix != ".h":
            raise HloError.at("bad-output", f"{path}: headers for GPU programs are C headers, .h")
        at = PurePath(path)
        beside = [DRIVER, *([FUNCTIONS] if self.interface.uses_host else [])]
        if any(at.name == header.name for header in beside):
            raise HloError.at("bad-output", f"{path} would be written twice: it needs this name")
        return {
            path: gpu_header(self.interface, PurePath(source).name, at.name).encode(),
            **{str(at.with_name(header.name)): header.read_bytes() for header in beside},
        }

    def example(self, source: str, folder: str) -> dict[str, bytes]:
        """Return a C program that runs the code, and all to build it, by path. Raises HloError."""
        name, at = self.interface.symbol, PurePath(folder)
        texts = gpu_example_texts(self.interface, PurePath(source).name)
        return {
            str(at / f"{name}.c"): self.launcher().encode(),
            **self.headers(source, str(at / f"{name}.h")),
            **{str(at / path): text.encode() for path, text in texts.items()},
        }

    @cached_property
    def assembly(self) -> str:
        """The kernels in assembly: PTX."""
        return assembly_of(self.module, self.platform.target.cpu)

    def launcher(self, constants: bytes | None = None) -> str:
        """Return a C source that runs the program. Raises HloError where C has no means to.

        constants: what stands for them.
        """
        self._need_launcher()
        code = self._cubin if self.has_cubin else self.assembly.encode()
        embedded = Embedded(code, self.platform.capabilities(is_machine_code=self.has_cubin))
        return launcher(
            self.interface, self.plan, self.host_steps, embedded, PurePath(self.source).name,
            f"{self.interface.symbol}.h", constants=constants,
        )  # fmt: skip

    @cached_property
    def _cubin(self) -> bytes:
        return assemble(self.assembly, self.platform.target.cpu).cubin

    def _need_launcher(self) -> None:
        if self.problem is not None:
            raise self.problem
        if _TAKEN.match(self.interface.symbol):
            raise HloError.at(
                "bad-value", f"{self.interface.symbol}: functions of the CUDA driver, or of what "
                "runs the plan, begin so", hint="--name selects another",
            )  # fmt: skip
        if not self.platform.is_cuda:
            raise HloError.at(
                "bad-output", f"{self.platform.target.triple}: C programs run the code of "
                "nvptx64 only",
            )  # fmt: skip

    def _object(self, linker: str) -> bytes:
        command = shlex.split(linker) if linker else _compiler()
        data = constants_of(self.plan)
        if not data.size:
            return _compiled(command, self.launcher())
        # A compiler takes minutes for large constants.
        reserved = Reserved(f"{self.interface.symbol}.constants", data)
        return reserved.fill(_compiled(command, self.launcher(reserved.mark)))


def _compiler() -> list[str]:
    """Return the command of the system's C compiler. Raises HloError."""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise HloError.at(
        "no-linker", "no C compiler: the object of a program that runs on a GPU needs one",
        hint="install gcc, give --linker, or write a .c",
    )  # fmt: skip


def _compiled(command: list[str], source: str) -> bytes:
    """Return the object file of a C source. Raises HloError."""
    with tempfile.TemporaryDirectory(prefix="hlo-cc-") as folder:
        # Objects hold the name of their source, not its folder.
        Path(folder, "code.c").write_text(source)
        target = Path(folder, "code.o")
        try:
            done = subprocess.run(
                [*command, "-std=c99", "-O2", "-fPIC", "-c", "code.c", "-o", target.name],
                cwd=folder, capture_output=True, text=True, errors="replace", check=False,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError as e:
            raise HloError.at("no-linker", f"cannot run {command[0]}: {e.strerror}") from None
        if done.returncode or not target.exists():
            said = [x for x in (done.stderr or done.stdout).splitlines() if x.strip()]
            reason = said[0] if said else f"it ends with status {done.returncode}"
            raise HloError.at("no-linker", f"{shlex.join(command)} fails: {reason}")
        return target.read_bytes()
