"""From a module to files for GPUs: assembly, machine code, and C programs that run it."""

from __future__ import annotations

from dataclasses import asdict

from hlo.codegen.launches.program import write_launches
from hlo.compiler.constants import need_constants
from hlo.compiler.gpu_calls import host_calls
from hlo.compiler.lowering import Clock, optimized, parameters_of, plan_optimized
from hlo.errors import HloError
from hlo.ir import Module
from hlo.objects.gpu.code import GpuCode
from hlo.objects.gpu.targets import GpuPlatform
from hlo.objects.interface import Interface, Level
from hlo.objects.metadata import add_metadata
from hlo.runtime.cache import digest
from hlo.runtime.program import constant_data
from hlo.version import __version__

# Sums of sizes in C programs are numbers of 64 bits.
_ADDRESS_BITS = 63


def translate_for_gpu(
    module: Module, platform: GpuPlatform, symbol: str, *, source: str | None = None,
    clock: Clock | None = None, passes: str = "default", verify: str = "strict",
    has_cubin: bool = False,
) -> GpuCode:  # fmt: skip
    """Return a module as code for a GPU, to be written to files; no GPU is needed for that.

    symbol: what the names of the C program begin with. source: name of the HLO file, whose lines
    are those of the code; None for none. passes, verify: as for `compile`. has_cubin: C programs
    hold machine code, not PTX. Raises HloError, also where results depend on constants whose values
    are elided.
    """
    clock, gpu = clock or Clock(), platform.target
    module = optimized(module, clock, passes=passes, verify=verify)
    planned = plan_optimized(module, gpu, clock)
    with clock("emit"):
        program = write_launches(planned, gpu, is_located=source is not None)
        need_constants(module)
        add_metadata(
            program.module, [], source, module.entry.span, f"hlo-tools {__version__}",
            has_tables=False,
        )  # fmt: skip
    if program.plan.memory_bytes >> _ADDRESS_BITS:
        raise HloError.at(
            "too-large", f"{module.name}: arrays and workspace take {program.plan.memory_bytes} "
            f"bytes; a GPU has less than 2^{_ADDRESS_BITS}",
        )  # fmt: skip
    plan, calls = program.plan, host_calls(program.calls, module.device_counts)
    constants = constant_data(plan.constant_bytes, plan.constants)[: plan.constant_bytes]
    interface = Interface(
        symbol, module.name, parameters_of(module), planned.result,
        plan.arena_bytes + plan.scalar_bytes + plan.counter_bytes, aliases=tuple(plan.aliases),
        triple=gpu.triple, levels=(Level(gpu.cpu, ()),), cost=asdict(planned.cost),
        imports=calls.imports, uses_host=calls.uses_host,
        digest=digest(
            [program.module.to_text().encode(), str(plan.steps).encode(), constants.data]
        ),
    )  # fmt: skip
    return GpuCode(
        interface, platform, program.module, plan, calls.steps, calls.problem,
        source or module.name, has_cubin,
    )  # fmt: skip
