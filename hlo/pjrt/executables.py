"""Executables as Python knows them, and what is asked about them."""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hlo.pjrt import records
from hlo.pjrt.compile_options import CompileOptions, assignment_bytes
from hlo.pjrt.devices import MEMORY_KINDS
from hlo.pjrt.entries import PjrtError, entry
from hlo.pjrt.handles import Handles
from hlo.pjrt.interface import interface
from hlo.pjrt.loaded import buffer_type, bytes_of, dims_of
from hlo.pjrt.memory import FREE, Held, handed
from hlo.pjrt.native.code import addresses
from hlo.pjrt.outside import Devices
from hlo.pjrt.programs import Program
from hlo.runtime.executable import Executable as NativeExecutable
from hlo.version import __version__

if TYPE_CHECKING:
    from hlo.ir import Module

_ProgramStruct = interface().structs["Program"]
_LogicalIds = interface().structs["LogicalDeviceIds"]


@dataclass(eq=False)
class Executable:
    """A program with its code, behind both of PJRT's handles of an executable.

    address: of its record. assignment: for each replica the
    devices of its partitions, None for a portable one.
    """

    address: int
    held: Held
    program: Program
    native: NativeExecutable
    options: CompileOptions
    assignment: tuple[tuple[int, ...], ...] | None
    outside: Devices
    kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        EXECUTABLES.add(self.address, self)

    @cached_property
    def optimized(self) -> Module:
        """The module of each device after the passes."""
        from hlo.compiler.lowering import Clock, optimized

        own = self.options.options
        passes = "" if own.passes == "none" else own.passes
        return optimized(self.program.module, Clock(), passes=passes, verify="lenient")

    @cached_property
    def fingerprint(self) -> str:
        """What tells it from executables that may compute something else."""
        digest = hashlib.sha256(self.program.code)
        digest.update(f"{__version__} {self.options!r}".encode())
        return digest.hexdigest()

    @cached_property
    def optimized_program(self) -> bytes:
        """The optimized module as a HloModuleProtoWithConfig."""
        return program_with_config(self.optimized, self.options)


EXECUTABLES: Handles[Executable] = Handles("executable")


def drop_dead() -> None:
    """Let go of the executables that native code has seen the end of."""
    first: Any = ctypes.CFUNCTYPE(ctypes.c_size_t)(addresses()["programs_dead"])
    at = first()
    while at:
        following = records.Loaded.from_address(at).next
        EXECUTABLES.pop(at)
        at = following


def program_with_config(module: Module, options: CompileOptions) -> bytes:
    """Return a module as a HloModuleProtoWithConfig."""
    from hlo.frontends.proto import to_proto, wire
    from hlo.frontends.proto.schema import Message, schema
    from hlo.frontends.proto.shapes import write_program_shape
    from hlo.spmd.contract import drop_contract

    kinds, module = schema(), module.clone()
    # The shapes of whole arrays are no part of what each device runs.
    drop_contract(module)
    message = wire.decode(to_proto(module), kinds["HloModuleProto"])
    parameters, result = module.program_shapes
    config = Message(
        entry_computation_layout=write_program_shape(
            parameters, result, [p.name for p in module.entry.parameters]
        ),
        replica_count=options.num_replicas, num_partitions=options.num_partitions,
        use_spmd_partitioning=options.num_partitions > 1,
    )  # fmt: skip
    both = Message(hlo_module=message, config=config)
    return wire.encode(both, kinds["HloModuleProtoWithConfig"])


# --- what it is ----------------------------------------------------------------------------------


@entry("Executable_Name")
def _name(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.executable_name, args.executable_name_size = e.held.string(e.program.shape.name)


@entry("Executable_Fingerprint")
def _fingerprint(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.executable_fingerprint, args.executable_fingerprint_size = e.held.string(e.fingerprint)


@entry("LoadedExecutable_Fingerprint")
def _loaded_fingerprint(args: Any) -> None:
    _fingerprint(args)


@entry("Executable_GetCompileOptions")
def _compile_options(args: Any) -> None:
    content = EXECUTABLES[args.executable].options.content
    args.serialized_bytes = args.serialized_compile_options = handed(content)
    args.serialized_bytes_size = len(content)
    args.serialized_compile_options_deleter = FREE


@entry("Executable_OptimizedProgram")
def _optimized_program(args: Any) -> None:
    """Say the size of the program, or copy it to where the caller has room."""
    e = EXECUTABLES[args.executable]
    if not args.program:
        raise PjrtError("INVALID_ARGUMENT", "the program is null")
    given = _ProgramStruct.from_address(args.program)
    content = e.optimized_program
    given.format, given.format_size = e.held.string("hlo_with_config")
    if given.code:
        if given.code_size < len(content):
            raise PjrtError("INVALID_ARGUMENT", f"the program needs {len(content)} bytes")
        ctypes.memmove(given.code, content, len(content))
    given.code_size = len(content)


# --- where it runs -------------------------------------------------------------------------------


@entry("LoadedExecutable_GetDeviceAssignment")
def _device_assignment(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    content = assignment_bytes(e.assignment or ())
    args.serialized_bytes = args.serialized_device_assignment = handed(content)
    args.serialized_bytes_size = len(content)
    args.serialized_device_assignment_deleter = FREE


@entry("LoadedExecutable_AddressableDeviceLogicalIds")
def _logical_ids(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    rows = list(enumerate(e.assignment or ()))
    ids = [_LogicalIds(r, p) for r, row in rows for p in range(len(row))]
    if "logical ids" not in e.kept:
        e.kept["logical ids"] = e.held.array(_LogicalIds, ids)
    args.addressable_device_logical_ids = e.kept["logical ids"]
    args.num_addressable_device_logical_ids = len(ids)


# --- its arguments and results -------------------------------------------------------------------


def _memory_kinds(e: Executable, side: int) -> tuple[int, int]:
    """Return the addresses of arrays of names and of their sizes, made once."""
    key = f"memory kinds {side}"
    if key not in e.kept:
        kinds = (e.program.shape.argument_kinds, e.program.shape.result_kinds)[side]
        e.kept[key] = e.held.strings([MEMORY_KINDS[n] for n in kinds])
    found: tuple[int, int] = e.kept[key]
    return found


@entry("Executable_OutputMemoryKinds")
def _output_memory_kinds(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.num_outputs = len(e.program.shape.results)
    args.memory_kinds, args.memory_kind_sizes = _memory_kinds(e, 1)


@entry("Executable_ParameterMemoryKinds")
def _parameter_memory_kinds(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    args.num_parameters = len(e.program.shape.arguments)
    args.memory_kinds, args.memory_kind_sizes = _memory_kinds(e, 0)


@entry("Executable_OutputElementTypes")
def _output_types(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    if "types" not in e.kept:
        e.kept["types"] = e.held.array(ctypes.c_int32, map(buffer_type, e.program.shape.results))
    args.output_types, args.num_output_types = e.kept["types"], len(e.program.shape.results)


@entry("Executable_OutputDimensions")
def _output_dimensions(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    if "dims" not in e.kept:
        dims = [dims_of(s) for s in e.program.shape.results]
        flat = e.held.array(ctypes.c_int64, (d for of in dims for d in of))
        e.kept["dims"] = flat, e.held.addresses(map(len, dims))
    args.num_outputs = len(e.program.shape.results)
    args.dims, args.dim_sizes = e.kept["dims"]


# --- what it costs -------------------------------------------------------------------------------


@entry("Executable_SizeOfGeneratedCodeInBytes")
def _code_size(args: Any) -> None:
    args.size_in_bytes = sum(map(len, EXECUTABLES[args.executable].native.program.code))


@entry("Executable_GetCostAnalysis")
def _cost_analysis(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    if "cost" not in e.kept:
        cost = e.native.cost
        e.kept["cost"] = e.held.named_values(
            {
                "flops": float(cost.get("operations", 0)),
                "transcendentals": float(cost.get("transcendentals", 0)),
                "bytes accessed": float(cost.get("bytes", 0)),
            }
        )
    args.properties, args.num_properties = e.kept["cost"]


@entry("Executable_GetCompiledMemoryStats")
def _memory_stats(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    sizes = [
        sum(map(bytes_of, side)) for side in (e.program.shape.arguments, e.program.shape.results)
    ]
    shared = sum(bytes_of(e.program.shape.results[n]) for n in e.program.shape.aliases)
    for name, *_ in type(args)._fields_[3:]:
        setattr(args, name, 0)
    args.generated_code_size_in_bytes = sum(map(len, e.native.program.code))
    args.argument_size_in_bytes, args.output_size_in_bytes = sizes
    args.alias_size_in_bytes, args.temp_size_in_bytes = shared, e.native.arena_bytes
    args.peak_memory_in_bytes = sum(sizes) - shared + e.native.arena_bytes
