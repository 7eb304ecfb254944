"""Compilation: `PJRT_Client_Compile`, ahead of time `PJRT_Compile`, and loading."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hlo.pjrt import records
from hlo.pjrt.calls import give_functions, host
from hlo.pjrt.client import CLIENTS, Client
from hlo.pjrt.compile_options import CompileOptions, read_compile_options
from hlo.pjrt.entries import PjrtError, bytes_at, entry
from hlo.pjrt.executables import EXECUTABLES, Executable, drop_dead
from hlo.pjrt.interface import interface
from hlo.pjrt.kept import Kept
from hlo.pjrt.loaded import loaded_record
from hlo.pjrt.memory import Held
from hlo.pjrt.options import Options
from hlo.pjrt.outside import Devices
from hlo.pjrt.programs import Program
from hlo.pjrt.topology import TOPOLOGIES
from hlo.pjrt.transforms import TRANSFORMS, transformed
from hlo.runtime.cache import Cache
from hlo.runtime.executable import Executable as NativeExecutable
from hlo.spmd.partitioners import PARTITIONERS

if TYPE_CHECKING:
    from hlo.ir import Module

_Program = interface().structs["Program"]
_LOOK_SECONDS = 0.001


@entry("Client_Compile")
def _client_compile(args: Any) -> None:
    client = CLIENTS[args.client]
    args.executable = _compiled(args, client.options, client).address


@entry("Compile")
def _compile(args: Any) -> None:
    options = TOPOLOGIES[args.topology].options
    client = CLIENTS[args.client] if args.client else None
    args.executable = _compiled(args, options, client).address


@entry("Client_Load")
def _load(args: Any) -> None:
    """Return a loaded executable for one that was compiled ahead of time."""
    client, made = CLIENTS[args.client], EXECUTABLES[args.executable]
    options = made.options
    if args.compile_options_size:
        given = bytes_at(args.compile_options, args.compile_options_size)
        options = read_compile_options(given, client.options)
    args.loaded_executable = load(made.program, made.native, options, client).address


def _compiled(args: Any, defaults: Options, client: Client | None) -> Executable:
    """Return the executable of the program in the arguments of a call."""
    drop_dead()
    if not args.program:
        raise PjrtError("INVALID_ARGUMENT", "the program is null")
    given = _Program.from_address(args.program)
    form = bytes_at(given.format, given.format_size).decode(errors="replace")
    content = bytes_at(args.compile_options, args.compile_options_size)
    options = read_compile_options(content, defaults)
    code = bytes_at(given.code, given.code_size)
    program, native = compiled(code, form, options)
    return load(program, native, options, client)


def compiled(code: bytes, form: str, options: CompileOptions) -> tuple[Program, NativeExecutable]:
    """Return a program and its native code, kept or new. Raises PjrtError or HloError."""
    own = options.options
    store = Cache(own.cache) if isinstance(own.cache, str) else Cache() if own.cache else None
    kept = Kept(store, code, form, options) if store and not TRANSFORMS else None
    found = kept and kept.get()
    if found:
        return found
    program = Program(code, form, options)
    program.module = transformed(program.module)
    native = native_code(program.module, options, store)
    # What functions of this process decide is not kept.
    if (
        TRANSFORMS
        or program.module.custom_calls
        or any(name.encode() in code for name in PARTITIONERS)
    ):
        return program, native
    if kept:
        kept.put(program, native)
    program.forget_module()
    return program, native


def native_code(module: Module, options: CompileOptions, store: Cache | None) -> NativeExecutable:
    """Return the native code of what each device runs. Raises HloError."""
    from hlo.compiler.pipeline import compile as compile_module

    own = options.options
    give_functions(module)
    found = compile_module(
        module,
        cache=store or False,
        threads=own.threads or None,
        host=host(),
        passes="" if own.passes == "none" else own.passes,
        verify="lenient",
        tune=own.tune or None,
        strict=own.strict,
    )
    assert isinstance(found, NativeExecutable)
    # It has the module.
    found.saver = None
    return found


def load(
    program: Program, native: NativeExecutable, options: CompileOptions, client: Client | None
) -> Executable:
    """Return an executable on the devices that its options name; on none without a client."""
    assignment = options.assignment
    if assignment is None and not options.is_portable:
        numbers = range(options.num_devices)
        assignment = tuple(
            tuple(numbers[r * options.num_partitions + p] for p in range(options.num_partitions))
            for r in range(options.num_replicas)
        )
    flat = [n for row in assignment or () for n in row]
    devices = [] if client is None else [client.device(n) for n in flat]
    if len(set(flat)) < len(flat):
        raise PjrtError("INVALID_ARGUMENT", "the device assignment names a device twice")
    held = Held()
    counts = (options.num_replicas, options.num_partitions)
    outside = Devices(native, counts)
    address = loaded_record(
        held, program, native, devices, counts, outside.addresses, outside.stop_at
    )
    return Executable(address, held, program, native, options, assignment, outside)


@entry("failure")
def _failure(args: Any) -> None:
    """Raise the error of a run that has ended with a status."""
    EXECUTABLES[args.loaded].outside.fail(args.device, args.status)


@entry("renew")
def _renew(args: Any) -> None:
    """Have the devices of a program meet again after a failure."""
    made, record = EXECUTABLES[args.loaded], records.Loaded.from_address(args.loaded)
    while record.running:  # They have been told to stop.
        time.sleep(_LOOK_SECONDS)
    record.stop = made.outside.renew()
