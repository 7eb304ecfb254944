"""LLVM's passes and code generation without the lock that its binding has, for threads."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

_ASSEMBLY, _OBJECT = 0, 1


def run_passes(
    passes: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder
) -> None:
    """Run passes on a module, which with its context is this thread's alone."""
    run = _unlocked("LLVMPY_RunNewModulePassManager")
    if run is None:
        passes.run(module, builder)
    else:
        run(passes, module, builder)


def object_code(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> bytes:
    """Return a module as an object file."""
    found = _emit(module, machine, _OBJECT)
    return bytes(machine.emit_object(module)) if found is None else found


def assembly(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> str:
    """Return a module as assembly text."""
    found = _emit(module, machine, _ASSEMBLY)
    return str(machine.emit_assembly(module)) if found is None else found.decode()


def _emit(module: llvm.ModuleRef, machine: llvm.TargetMachine, form: int) -> bytes | None:
    emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")
    if emit is None:
        return None
    with ffi.OutputString() as message:
        memory = emit(machine, module, form, message)
        if not memory:
            raise RuntimeError(str(message))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


@cache
def _unlocked(name: str) -> Any:
    """Return a function of the binding without the global lock that all of them take.

    LLVM needs no lock if nothing is shared: each thread has its own context and target machine.
    The binding has no public name for this. If it lacks the private one used here, the result is
    None: the public function generates the same code, one part after the other.
    """
    try:
        path, locked = ffi.lib._name, getattr(ffi.lib, name)
    except AttributeError:
        return None
    if not isinstance(path, str):
        return None
    function = getattr(ctypes.CDLL(path), name)
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function
