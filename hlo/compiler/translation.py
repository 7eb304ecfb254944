"""From a module to files: the pipeline for any machine, and what an object has besides the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo.codegen.entry.constants import Constants
from hlo.codegen.llvm import ModuleBuilder
from hlo.codegen.pipeline import Program, write_program
from hlo.compiler.constants import need_constants
from hlo.compiler.lowering import (
    Clock,
    collectives_of,
    imports_of,
    optimized,
    parameters_of,
    plan_optimized,
)
from hlo.errors import HloError
from hlo.io.files import need_places, write_files
from hlo.ir import Module
from hlo.objects.code import KINDS, Code, kind_of
from hlo.objects.exports import add_exports
from hlo.objects.features import needed_features
from hlo.objects.gpu.targets import GpuPlatform, gpu_platform, is_gpu
from hlo.objects.interface import Interface, Level, need_symbol, symbol_of_file
from hlo.objects.metadata import add_metadata, add_unwinding
from hlo.objects.processor import choice
from hlo.objects.targets import Platform, platforms
from hlo.objects.versions import Version, joined
from hlo.runtime.cache import digest
from hlo.runtime.program import constant_data
from hlo.support.signature import need_each
from hlo.version import __version__

if TYPE_CHECKING:
    from hlo.compiler.tuning import Tuning
    from hlo.objects.gpu.code import GpuCode

# Processors of an architecture, or a GPU.
Machines = Sequence[Platform] | GpuPlatform


def translate(
    module: Module, target: Platform | Sequence[Platform], symbol: str, *,
    source: str | None = None, clock: Clock | None = None, passes: str = "default",
    verify: str = "strict", tuning: Tuning | None = None,
) -> Code:  # fmt: skip
    """Return a module as code for a machine, to be written to files.

    Raises HloError, also where results depend on constants whose values are elided.
    target: the machine, or processors of an architecture as `platforms` has them: there is code for
    each, of which the best that the processor runs is taken. symbol: name of the exported function.
    source: name of the HLO file for debug information; None for none. passes, verify: as for
    `compile`. tuning: what was measured.
    """
    clock = clock or Clock()
    targets = [target] if isinstance(target, Platform) else list(target)
    if tuning is not None:
        targets = [replace(t, target=replace(t.target, choices=tuning.taken())) for t in targets]
    base, constants = targets[0].base, f"{symbol}.constants"
    programs = _programs(
        module, targets, symbol, clock, is_located=source is not None, passes=passes, verify=verify
    )
    need_constants(module)
    # The versions do the same in the same order: they are alike but for the code and its memory.
    emitted = programs[-1]
    data = constant_data(emitted.constant_bytes, emitted.constants)[: emitted.constant_bytes]
    interface = Interface(
        symbol, module.name, parameters_of(module), emitted.result,
        max(p.arena_bytes for p in programs), aliases=tuple(emitted.aliases),
        imports=imports_of(emitted, module), collectives=collectives_of(emitted),
        uses_host=emitted.uses_host, is_parallel=any(p.is_parallel for p in programs),
        triple=base.machine.triple,
        levels=tuple(
            Level(t.machine.cpu, tuple(sorted(t.target.features)), t.is_native) for t in targets
        ),
        cost=asdict(emitted.cost),
        digest=digest([*(p.llvm.encode() for p in programs), data.data]),
    )  # fmt: skip
    for t in targets:
        _need_address_space(interface, t)
    with clock("emit"):
        front = ModuleBuilder(
            base.machine.triple, base.machine.data_layout, pointer_bits=base.pointer_bits
        )
        front.source_name = source or module.name
        add_exports(
            front, interface, [p.entry for p in programs], constants, data.size, base.pointer_bits
        )
        for llvm in (front, *(p.module for p in programs)):
            if base.container == "coff":
                add_unwinding(llvm)
            add_metadata(
                llvm, base.flags, source, module.entry.span, f"hlo-tools {__version__}",
                for_windows=base.has_codeview,
            )  # fmt: skip
    with clock("optimize"):
        needs = [needed_features(interface.triple, x.features) for x in interface.levels]
        versions = [Version(t, p.module, p.entry) for t, p in zip(targets, programs, strict=True)]
        chosen = choice(symbol, needs, base) if interface.asks_processor else ""
        code = joined(front, chosen, versions, base)
    return Code(interface, base, code, constants, data)


def machines_of(triple: str | None, cpu: str | None, features: str) -> Machines:
    """Return the target of these names: processors, as `platforms` has them, or a GPU.

    Raises HloError.
    """
    if is_gpu(triple):
        assert triple is not None
        return gpu_platform(triple, cpu, features)
    return platforms(triple, cpu, features)


def kinds_of(machines: Machines) -> Mapping[str, str]:
    """Return what can be written for a target, by the end of a file's name."""
    return machines.kinds if isinstance(machines, GpuPlatform) else KINDS


def translated(
    module: Module, machines: Machines, symbol: str, *, source: str | None = None,
    passes: str = "default", verify: str = "strict", tuning: Tuning | None = None,
    has_cubin: bool = False,
) -> Code | GpuCode:  # fmt: skip
    """Return a module as code for a target of any kind; see `translate`, `translate_for_gpu`."""
    if not isinstance(machines, GpuPlatform):
        return translate(
            module, machines, symbol, source=source, passes=passes, verify=verify, tuning=tuning
        )
    from hlo.compiler.gpu_translation import translate_for_gpu

    if tuning is not None:
        raise HloError.at("bad-target", "a tuning measured on this machine does not apply to a GPU")
    return translate_for_gpu(
        module, machines, symbol, source=source, passes=passes, verify=verify, has_cubin=has_cubin
    )


def _programs(
    module: Module, targets: Sequence[Platform], symbol: str, clock: Clock, *, is_located: bool,
    passes: str, verify: str,
) -> list[Program]:  # fmt: skip
    """Return a module in LLVM IR for each target, all of which have the constants of the last."""
    module = optimized(module, clock, passes=passes, verify=verify)
    constants = Constants(targets[0].target.buffer_alignment)
    programs = []
    for t in targets:
        entry = f"{symbol}.entry" + (f".{t.symbol_suffix}" if len(targets) > 1 else "")
        planned = plan_optimized(module, t.target, clock, constants=constants)
        with clock("emit"):
            programs.append(write_program(planned, entry, t.target, is_located=is_located))
    return programs


def _need_address_space(interface: Interface, platform: Platform) -> None:
    """Raise HloError if a machine has no addresses for all that a program works on."""
    leaves = (*interface.inputs, *interface.outputs)
    sizes = [interface.workspace_bytes, *(leaf.size_bytes for leaf in leaves)]
    bits = platform.pointer_bits
    if sum(sizes) >> bits:
        raise HloError.at(
            "too-large", f"{interface.module}: arrays and workspace take {sum(sizes)} bytes; "
            f"{platform.machine.triple} has addresses of {bits} bits",
        )  # fmt: skip
    # Places in an array are signed numbers of an address's width.
    if max(sizes) >> bits - 1:
        raise HloError.at(
            "too-large", f"{interface.module}: an array takes {max(sizes)} bytes; "
            f"{platform.machine.triple} has {bits}-bit addresses, half of them for an array",
        )  # fmt: skip


def save(
    module: Callable[[], Module], path: str, *, name: str | None = None, header: str | None = None,
    target: str | None = None, cpu: str | None = None, features: str = "",
    debug_info: bool = True, linker: str = "", passes: str = "default", verify: str = "strict",
    tuning: Tuning | None = None,
) -> None:  # fmt: skip
    """Write the module that a function returns to a file, as the end of its name says.

    Raises HloError.
    name: of the exported function, by default from the file's. header: where to write a C header;
    for `.hpp` a C++ header, and that beside it.
    target, cpu, features: the machine, as for `hlo-compile`. linker: the command that links.
    passes, verify: as for `compile`. tuning: what was measured.
    """
    need_each(
        "save", name=(name, str | None), header=(header, str | None), target=(target, str | None),
        cpu=(cpu, str | None), features=(features, str), debug_info=(debug_info, bool),
        linker=(linker, str), passes=(passes, str), verify=(verify, str),
    )  # fmt: skip
    machines = machines_of(target, cpu, features)
    kind = kind_of(path, kinds_of(machines))
    symbol = symbol_of_file(path) if name is None else need_symbol(name)
    need_places([path] if header is None else [path, header])
    source = module()
    span = source.entry.root.span
    file = span.source.name if span is not None else None
    code = translated(
        source, machines, symbol, source=file if debug_info else None, passes=passes,
        verify=verify, tuning=tuning,
    )  # fmt: skip
    written = {path: code.write(kind, Path(path).name, linker)}
    if header is not None:
        written |= code.headers(file or source.name, header)
    write_files(written)
