"""Calls our shared libraries from Python."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from hlo.compiler.binding import bind
from hlo.errors import HloError, did_you_mean
from hlo.host import Host
from hlo.io.files import named_file, reason_of
from hlo.objects.interface import Interface, find_interfaces
from hlo.objects.targets import architecture
from hlo.runtime.executable import Executable
from hlo.runtime.frame import Frame
from hlo.runtime.jit import host_machine
from hlo.runtime.meeting import meeting_code
from hlo.runtime.outside import Outside
from hlo.runtime.program import NativeProgram
from hlo.runtime.support import support_code
from hlo.runtime.watch import CONSTANTS, THREADS
from hlo.support.signature import checked


class Library(Executable):
    """A function of a shared library that `hlo-compile` or `Executable.save` wrote.

    It is called as the module it was compiled from; see `Executable`.
    """

    def __init__(
        self,
        native: ctypes.CDLL,
        interface: Interface,
        *,
        threads: int | None,
        outside: Outside | None,
    ) -> None:
        self._native = native
        self._interface = interface
        super().__init__(_program(interface), threads=threads, outside=outside)

    # It contains its constants: the arguments after them move up.
    _threads_word, _host_word = CONSTANTS, THREADS

    def _load(self, program: NativeProgram, called: Mapping[str, int]) -> int:
        call = getattr(self._native, f"{self._interface.symbol}_call")
        address = ctypes.cast(call, ctypes.c_void_p).value
        assert address is not None
        return address

    def _frame(self) -> Frame:
        frame = super()._frame()
        if self._pool is None:
            frame.watch[self._threads_word] = 0
        return frame


@checked
def load_library(
    path: str | Path,
    name: str | None = None,
    *,
    threads: int | None = None,
    host: Host | None = None,
) -> Library:
    """Return a function of a shared library that `hlo-compile` or `Executable.save` wrote.

    Args:
        path: the library.
        name: which function, if there are several.
        threads: how many may work on a call, by default one a processor.
        host: the function's custom calls, queues and random state, as for `hlo.compile`.

    Returns:
        A function called as the module it was compiled from.

    Raises:
        HloError: for other libraries, those of other machines, and where there is no such function.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> hlo.compile(module).save("roots.so")
    >>> hlo.load_library("./roots.so")(4)
    array(2., dtype=float32)
    """
    found = _interfaces(path)
    interface = _chosen(path, found, name)
    _check_machine(path, interface)
    native = _opened(path, interface)
    program = _program(interface)
    outside = (
        bind(program.imports, host or Host(), program.collectives) if program.uses_host else None
    )
    return Library(native, interface, threads=threads, outside=outside)


def _interfaces(path: str | Path) -> dict[str, Interface]:
    """Return the interfaces in a file by symbol."""
    place = named_file(path)
    try:
        with (
            open(place, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            found = find_interfaces(data)
    except OSError as e:
        raise HloError.at("bad-file", f"{path}: {reason_of(e)}") from None
    except ValueError as e:
        reason = str(e) if Path(path).stat().st_size else "it is empty"
        raise HloError.at("bad-file", f"{path}: {reason}") from None
    if not found:
        raise HloError.at("bad-file", f"{path}: not a library written by hlo-compile")
    return {i.symbol: i for i in found}


def _chosen(path: str | Path, found: dict[str, Interface], name: str | None) -> Interface:
    if name is None and len(found) == 1:
        (only,) = found.values()
        return only
    if name is None:
        names = ", ".join(sorted(found))
        raise HloError.at("unknown-function", f"{path}: give a name, it has {names}")
    if name not in found:
        raise HloError.at(
            "unknown-function", f"{path}: there is no {name}, only {', '.join(sorted(found))}",
            hint=did_you_mean(name, found),
        )  # fmt: skip
    return found[name]


def _check_machine(path: str | Path, interface: Interface) -> None:
    """Raise HloError if this processor lacks features that all versions of the code need."""
    here = llvm.get_process_triple()
    if architecture(interface.triple) != architecture(here):
        raise HloError.at("bad-target", f"{path}: compiled for {interface.triple}, this is {here}")
    have = llvm.get_host_cpu_features()
    missing = [[f for f in level.features if not have.get(f, True)] for level in interface.levels]
    if all(missing):
        raise HloError.at(
            "bad-target",
            f"{path}: compiled for a processor with {', '.join(missing[0])}, which this one lacks",
        )


def _opened(path: str | Path, interface: Interface) -> ctypes.CDLL:
    """Load a library, and check that it is the one in the file now."""
    native = _dlopen(os.path.abspath(path), path)
    if _signature(native, interface) == interface.to_bytes():
        return native
    # The loader caches a library by name, even if the file has been replaced.
    with tempfile.TemporaryDirectory(prefix="hlo-library-") as folder:
        copy = shutil.copy(path, folder)
        native = _dlopen(copy, path)
    if _signature(native, interface) != interface.to_bytes():
        raise HloError.at("bad-file", f"{path}: its signature does not match its code")
    return native


def _dlopen(file: str, path: str | Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(file)
    except OSError as e:
        raise HloError.at("bad-file", f"{path}: cannot be loaded: {e}") from None


def _signature(native: ctypes.CDLL, interface: Interface) -> bytes:
    """Return the signature of the loaded code, up to the length of the file's."""
    size = len(interface.to_bytes())
    try:
        at = ctypes.addressof(ctypes.c_char.in_dll(native, f"{interface.symbol}_signature"))
    except ValueError:  # there is none
        return b""
    return ctypes.string_at(at, size)


def _program(interface: Interface) -> NativeProgram:
    """Return the description that calls need, without code."""
    return NativeProgram(
        interface.module,
        interface.symbol,
        (),
        interface.parameters,
        interface.result,
        interface.workspace_bytes,
        np.empty(0, np.uint8),
        aliases=interface.aliases,
        cost=interface.cost,
        support=support_code(host_machine()),
        is_parallel=interface.is_parallel,
        imports=interface.imports,
        collectives=interface.collectives,
        meetings=meeting_code(host_machine()) if interface.collectives else b"",
        uses_host=interface.uses_host,
    )
