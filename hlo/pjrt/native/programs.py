"""Loaded executables: their life, and the numbers that each dispatch asks for."""

from __future__ import annotations

import ctypes

from hlo.codegen.llvm import Val
from hlo.pjrt.interface import struct
from hlo.pjrt.native.writer import NULL, Code, Record, Writer, need
from hlo.pjrt.records import LOADED_TAG, Loaded

_Dead = struct("Dead", ["mutex:lock", "first:ptr"])


def _loaded(b: Writer, at: Val) -> Record:
    return need(b, Loaded, at, LOADED_TAG, "executable")


def write(code: Code) -> None:
    """Write the entries, and what other native code calls: `loaded_release(loaded)`.

    What is destroyed goes to a list that `programs_dead()` takes, as the next compilation does to
    drop the Python objects: now Python may have ended, or be raising an exception.
    """
    size = ctypes.sizeof(_Dead)
    code.module.define("dead_programs", f"internal global [{size} x i8] zeroinitializer, align 64")
    dead_at = Val("ptr", "@dead_programs")

    with code.function("loaded_release", "ptr", result="void") as (b, at):
        loaded = b.record(Loaded, at)
        with b.last_release(loaded):
            loaded.tag = 0
            dead = b.record(_Dead, dead_at)
            b.lock(dead)
            loaded.next = dead.first
            dead.first = at
            b.unlock(dead)
        b.ret()

    with code.function("programs_dead", exported=True) as (b,):
        dead = b.record(_Dead, dead_at)
        b.lock(dead)
        first = dead.first
        dead.first = 0
        b.unlock(dead)
        b.ret(first)

    for name in ("LoadedExecutable_Destroy", "Executable_Destroy"):
        with code.entry(name) as (b, args):
            at = args.executable
            with b.exit_if(b.is_null(at)):
                b.ret(NULL)
            b.do("loaded_release", _loaded(b, at).at)

    with code.entry("LoadedExecutable_GetExecutable") as (b, args):
        loaded = _loaded(b, args.loaded_executable)
        b.retain(loaded)
        args.executable = loaded.at

    with code.entry("LoadedExecutable_Delete") as (b, args):
        _loaded(b, args.executable).is_deleted = 1

    with code.entry("LoadedExecutable_IsDeleted") as (b, args):
        args.is_deleted = b.cast("trunc", _loaded(b, args.executable).is_deleted, "i8")

    with code.entry("Executable_NumOutputs") as (b, args):
        args.num_outputs = _loaded(b, args.executable).num_outputs

    with code.entry("Executable_NumReplicas") as (b, args):
        args.num_replicas = _loaded(b, args.executable).num_replicas

    with code.entry("Executable_NumPartitions") as (b, args):
        args.num_partitions = _loaded(b, args.executable).num_partitions

    with code.entry("LoadedExecutable_AddressableDevices") as (b, args):
        loaded = _loaded(b, args.executable)
        args.addressable_devices, args.num_addressable_devices = loaded.devices, loaded.num_devices
