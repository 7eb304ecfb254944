"""Shared libraries: object files through the linker of the system."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hlo.errors import HloError
from hlo.objects.targets import Platform


def link(code: bytes, name: str, platform: Platform, exports: Sequence[str], linker: str) -> bytes:
    """Return the shared library, or WebAssembly module, of an object file.

    name: the library's soname. linker: a command to use instead of the one that is found, with
    the interface of a C compiler. Raises HloError.
    """
    command = shlex.split(linker) if linker else _found(platform)
    with tempfile.TemporaryDirectory(prefix="hlo-link-") as folder:
        # The linker records the name of its input file.
        source, target = Path(folder, "code.o"), Path(folder, f"linked{platform.library_suffix}")
        source.write_bytes(code)
        flags = _flags(command, name, platform, exports)
        if platform.container == "coff":
            Path(folder, _LIST).write_text(_list_of_exports(name, exports))
        try:
            done = subprocess.run(
                [*command, *flags, "-o", target.name, source.name],
                cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            )  # fmt: skip
        except OSError as e:
            raise HloError.at("no-linker", f"cannot run {command[0]}: {e.strerror}") from None
        if done.returncode or not target.exists():
            said = [x for x in (done.stderr or done.stdout).splitlines() if x.strip()]
            reason = said[0] if said else f"it ends with status {done.returncode}"
            raise HloError.at("no-linker", f"{shlex.join(command)} fails: {reason}")
        return target.read_bytes()


# The exports of a library for Windows.
_LIST = "exports.def"


def _list_of_exports(name: str, exports: Sequence[str]) -> str:
    data = ("_signature", "_inputs", "_outputs")
    lines = [f"  {e} DATA" if e.endswith(data) else f"  {e}" for e in exports]
    return "\n".join([f'LIBRARY "{name}"', "EXPORTS", *lines, ""])


def _found(platform: Platform) -> list[str]:
    """Return a linker's command. Raises HloError naming what to install."""
    for candidate in _candidates(platform):
        if shutil.which(candidate):
            return [candidate]
    compiler = platform.cross_compiler
    package = f"gcc-{compiler[:-4]} or lld"
    if platform.is_host:
        package = "gcc or lld"
    if platform.container == "coff":
        package = "gcc-mingw-w64-x86-64"
    raise HloError.at(
        "no-linker", f"no linker for {platform.machine.triple}: a shared library needs one",
        hint=f"install {package}, give --linker, or write a .o or .a",
    )  # fmt: skip


def _candidates(platform: Platform) -> list[str]:
    if platform.container == "macho":
        return ["cc", "clang"] if platform.is_host else ["ld64.lld"]
    if platform.container == "coff":
        return [platform.cross_compiler]
    native = ["cc", "gcc", "clang", "ld"] if platform.is_host else []
    return [*native, platform.cross_compiler, "ld.lld"]


def _flags(
    command: Sequence[str], name: str, platform: Platform, exports: Sequence[str]
) -> list[str]:
    if platform.container == "wasm":
        # Memory is the module's own; memcpy and the like, where it needs them, are imports.
        return ["--no-entry", "--allow-undefined", *(f"--export={e}" for e in exports)]
    is_bare = os.path.basename(command[0]).startswith(("ld", "mold", "lld"))
    if platform.container == "macho":
        return ["-dylib" if is_bare else "-dynamiclib", "-install_name", f"@rpath/{name}"]
    if platform.container == "coff":
        return ["-shared", "-Wl,--no-insert-timestamp", _LIST]
    flags = [f"-soname={name}", "-znoexecstack", "--build-id=none"]
    if is_bare:
        return ["-shared", *flags]
    return ["-shared", "-nostartfiles", *(f"-Wl,{f}" for f in flags)]
