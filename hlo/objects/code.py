"""A compiled module in every output format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

import llvmlite.binding as llvm
import numpy as np

from hlo.errors import HloError, did_you_mean
from hlo.io.formats import unsupported_extension
from hlo.objects.archive import archive
from hlo.objects.builtins import with_builtins
from hlo.objects.example import cmake_lists, example, makefile
from hlo.objects.exports import Reserved, spelled_constants
from hlo.objects.headers import headers
from hlo.objects.interface import Interface
from hlo.objects.link import link
from hlo.objects.parsing import parsed_for
from hlo.objects.targets import Platform
from hlo.objects.wasm import link_wasm

# Output formats by file suffix.
KINDS = {
    ".o": "object file",
    ".a": "archive",
    ".so": "shared library",
    ".dylib": "shared library",
    ".wasm": "WebAssembly module",
    ".ll": "LLVM IR",
    ".bc": "LLVM bitcode",
    ".s": "assembly",
    ".obj": "object file",
    ".lib": "archive",
    ".dll": "shared library",
}
# What other machines have.
_GPU_HINTS = dict.fromkeys((".ptx", ".cubin", ".c"), "--target nvptx64 writes code for GPUs")
# The range of x86's small code model, minus space for code.
_MOST_CONSTANT_BYTES = (1 << 31) - (1 << 26)


def kind_of(path: str, kinds: Mapping[str, str] = KINDS) -> str:
    """Return the suffix of a path that selects the output format. Raises HloError.

    kinds: those that there are for a machine.
    """
    suffix = PurePath(path).suffix
    if suffix not in kinds:
        raise HloError.at(
            "bad-output", f"{path}: {unsupported_extension(suffix, kinds)}",
            hint=_GPU_HINTS.get(suffix) or did_you_mean(suffix, kinds),
        )  # fmt: skip
    return suffix


@dataclass(frozen=True)
class Code:
    """Optimized code without its constants, which are added when it is written.

    constants: their bytes, which `symbol` names.
    """

    interface: Interface
    platform: Platform
    module: llvm.ModuleRef
    symbol: str
    constants: np.ndarray

    def __post_init__(self) -> None:
        if self.constants.size > _MOST_CONSTANT_BYTES:
            raise HloError.at(
                "too-large", f"{self.constants.size} bytes of constants do not fit in an object; "
                "pass large ones as arguments",
            )  # fmt: skip

    def write(self, kind: str, name: str, linker: str = "") -> bytes:
        """Return the content of a file of a kind. `name` is the file's name, without folders."""
        match kind:
            case ".o" | ".obj":
                return self._object()
            case ".a" | ".lib":
                return self._archive(name)
            case ".so" | ".dylib" | ".dll" | ".wasm":
                return self._linked(kind, name, linker)
            case ".ll":
                return str(self._spelled()).encode()
            case ".bc":
                return bytes(self._spelled().as_bitcode())
            case ".s":
                return self.platform.machine.assembly(self._spelled()).encode()
        raise AssertionError(kind)

    def headers(self, source: str, path: str) -> dict[str, bytes]:
        """Return the header to be written to a path, and those that it needs, by path.

        source: what the module was read from. Raises HloError.
        """
        return headers(self.interface, source, path)

    def example(self, source: str, folder: str) -> dict[str, bytes]:
        """Return a C program that calls the code, with the object and all to build it, by path.

        source: what the module was read from. Raises HloError.
        """
        interface, machine, at = self.interface, self.platform, PurePath(folder)
        name, file = interface.symbol, PurePath(source).name
        objects = [f"{name}.o"]
        found = {
            str(at / objects[0]): self.write(".o", objects[0]),
            **self.headers(source, str(at / f"{name}.h")),
        }
        included = [PurePath(path).name for path in found if path.endswith(".h")]
        texts = {
            "example.c": example(interface, file, f"{name}.h", objects, machine.compiler),
            "Makefile": makefile(interface, file, included, objects, machine),
            "CMakeLists.txt": cmake_lists(interface, file, objects, machine),
        }
        return {**found, **{str(at / path): text.encode() for path, text in texts.items()}}

    @property
    def exports(self) -> list[str]:
        """The exported symbols."""
        name = self.interface.symbol
        parts = ["call", "workspace_bytes", "signature", "inputs", "outputs"]
        parts += ["processor"] if self.interface.names_processor else []
        return [*([name] if self.interface.is_typed else []), *(f"{name}_{p}" for p in parts)]

    def _object(self, *, is_alone: bool = False) -> bytes:
        """Return an object file. is_alone: it does not need the C library."""
        machine, module = self.platform.machine, self._complete
        if is_alone:
            module = with_builtins(self.module, self.platform, is_alone=True)
        if not self.constants.size:
            return machine.object_code(module)
        reserved = Reserved(self.symbol, self.constants)
        return reserved.fill(machine.object_code(_linked_in(module, reserved.definition)))

    def _archive(self, name: str) -> bytes:
        if self.platform.container == "macho":
            raise HloError.at(
                "bad-output", f"{name}: archives for macOS are not supported; write a .o"
            )
        return archive(f"{PurePath(name).stem}.o", self._object(), self.exports)

    def _linked(self, kind: str, name: str, linker: str) -> bytes:
        wanted = self.platform.library_suffix
        if kind != wanted and (kind, wanted) != (".so", ".dylib"):
            raise HloError.at(
                "bad-output", f"{name}: code for {self.platform.machine.triple} goes into {wanted}"
            )
        if self.platform.container == "wasm" and not linker:
            return link_wasm(self._object(is_alone=True), self.exports)
        return link(self._object(), name, self.platform, self.exports, linker)

    @cached_property
    def _complete(self) -> llvm.ModuleRef:
        """The module with all functions that it needs, but without its constants."""
        return with_builtins(self.module, self.platform)

    def _spelled(self) -> llvm.ModuleRef:
        if not self.constants.size:
            return self._complete
        return _linked_in(self._complete, spelled_constants(self.symbol, self.constants))


def _linked_in(module: llvm.ModuleRef, definition: str) -> llvm.ModuleRef:
    """Return a module with its constants defined."""
    found = module.clone()
    found.link_in(parsed_for(module, definition))
    return found
