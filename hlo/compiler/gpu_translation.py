"""From a module to files for GPUs: assembly, machine code, and C programs that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from hlo.codegen.launches.program import write_launches
from hlo.compiler.constants import need_constants
from hlo.compiler.lowering import Clock, optimized, parameters_of, plan_optimized
from hlo.errors import HloError
from hlo.ir import Instruction, Module
from hlo.objects.gpu.code import GpuCode
from hlo.objects.gpu.targets import GpuPlatform
from hlo.objects.interface import Interface, Level
from hlo.objects.metadata import add_metadata
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.runtime.cache import digest
from hlo.runtime.program import constant_data
from hlo.version import __version__


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
    plan = program.plan
    constants = constant_data(plan.constant_bytes, plan.constants)[: plan.constant_bytes]
    interface = Interface(
        symbol, module.name, parameters_of(module), planned.result,
        plan.arena_bytes + plan.scalar_bytes, aliases=tuple(plan.aliases), triple=gpu.triple,
        levels=(Level(gpu.cpu, ()),), cost=asdict(planned.cost),
        digest=digest(
            [program.module.to_text().encode(), str(plan.steps).encode(), constants.data]
        ),
    )  # fmt: skip
    problem, checks = _host_calls(program.calls)
    return GpuCode(
        interface, platform, program.module, plan, checks, problem, source or module.name, has_cubin
    )


def _host_calls(calls: Sequence[Instruction]) -> tuple[HloError | None, dict[int, str]]:
    """Return why C programs cannot make the calls of the host, or the messages of size checks."""
    checks: dict[int, str] = {}
    for number, inst in enumerate(calls):
        if inst.opcode == "custom-call" and inst.custom_call_target == CHECK_SIZE:
            checks[number] = str(inst.annotations["backend_config"])
            continue
        what = inst.opcode
        if what == "custom-call":
            what += f" of {inst.custom_call_target}"
        problem = HloError.at(
            "no-launcher", f"{inst.name}: {what} runs on the host, where C programs that run code "
            "of a GPU have no functions for it", inst.span,
        )  # fmt: skip
        return problem, {}
    return None, checks
