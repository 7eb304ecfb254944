"""From a module to what a machine runs: verification, passes, the stages of planning, LLVM IR."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from hlo.io.arguments import Parameter
from hlo.support.imports import first_import
from hlo.support.memory import collector_paused

if TYPE_CHECKING:
    from hlo.codegen.entry.constants import Constants
    from hlo.codegen.entry.instrumentation import Instrumentation
    from hlo.codegen.pipeline import Observer, PlannedProgram, Program
    from hlo.codegen.targets.base import LlvmTarget, Target
    from hlo.ir import Module
    from hlo.passes.manager import Observer as PassObserver
    from hlo.runtime.collectives import Collective
    from hlo.runtime.kept import KeptFunctions
    from hlo.runtime.outside import Import
    from hlo.runtime.parts import Part


class Clock:
    """Seconds by stage, in order.

    Subclasses may look closer: observers are told of passes, `observe` of the stages of planning,
    `part` is around the compilation of each part, in any thread.
    """

    observers: Sequence[PassObserver] = ()

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def observe(self, stage: str, text: Callable[[], str]) -> None:
        """Note that a stage of planning has ended."""

    def part(self, part: Part) -> AbstractContextManager[None]:
        """Return what is around the compilation of a part."""
        return nullcontext()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def plan(
    module: Module, target: Target, clock: Clock, *, passes: str = "default",
    verify: str = "strict", observe: Observer | None = None,
) -> PlannedProgram:  # fmt: skip
    """Verify and optimize a module, which stays as it is; returns what a machine is to do for it.

    passes, verify: as for `hlo.compile`. observe: see `plan_program`. Raises HloError.
    """
    with collector_paused():
        module = optimized(module, clock, passes=passes, verify=verify)
        return plan_optimized(module, target, clock, observe=observe)


def optimized(module: Module, clock: Clock, *, passes: str, verify: str) -> Module:
    """Verify a module, and return it after the passes; it stays as it is. Raises HloError."""
    with first_import("hlo.passes.default"):
        from hlo.lenient import verified
        from hlo.passes import run_pipeline
        from hlo.passes.default import pipeline_of

    with clock("verify"):
        module = verified(module, verify)
    if passes:
        with clock("passes"):
            module = module.clone()
            run_pipeline(module, pipeline_of(passes, fuses=False), clock.observers)
    return module


def plan_optimized(
    module: Module, target: Target, clock: Clock, *, observe: Observer | None = None,
    constants: Constants | None = None,
) -> PlannedProgram:  # fmt: skip
    """Return what a machine is to do for a module, which stays as it is.

    observe, constants: see `plan_program`. Raises HloError.
    """
    with first_import("hlo.codegen.pipeline"):
        from hlo.codegen.lower.relayout import with_border
        from hlo.codegen.pipeline import plan_program

    with clock("emit"):
        shared = module.attrs.get("input_output_alias", ())
        aliases = {a.output: (a.parameter, a.index) for a in shared}
        entry = with_border(module.entry, *module.program_shapes)
        return plan_program(
            entry, target, aliases, observe=observe or clock.observe, constants=constants
        )


def parameters_of(module: Module) -> tuple[Parameter, ...]:
    """Return the parameters of a program, in the layouts that callers see."""
    shapes, _ = module.program_shapes
    return tuple(Parameter(n, module.entry.parameters[n].name, s) for n, s in enumerate(shapes))


def emit(
    module: Module, symbol: str, target: LlvmTarget, clock: Clock, *, is_located: bool = False,
    is_watched: bool = False, passes: str = "default", verify: str = "strict",
    observe: Observer | None = None, instrumentation: Instrumentation | None = None,
    known: KeptFunctions | None = None,
) -> Program:  # fmt: skip
    """Verify and optimize a module, and return it as LLVM IR. Raises HloError. It stays as it is.

    symbol: name of the entry function. is_located: with the lines of the HLO file. is_watched: see
    `write_program`. observe: see `plan_program`. passes, verify: as for `compile`.
    instrumentation, known: see `write_program`.
    """
    with first_import("hlo.codegen.pipeline"):
        from hlo.codegen.pipeline import write_program

    with collector_paused():
        planned = plan(module, target, clock, passes=passes, verify=verify, observe=observe)
        with clock("emit"):
            return write_program(
                planned, symbol, target, is_located=is_located, is_watched=is_watched,
                instrumentation=instrumentation, known=known,
            )  # fmt: skip


def imports_of(emitted: Program, module: Module) -> tuple[Import, ...]:
    """Return what a program has to keep of the instructions that run outside."""
    if not emitted.imports:
        return ()
    from hlo.compiler.binding import import_of

    return tuple(import_of(inst, module.device_counts) for inst in emitted.imports)


def collectives_of(emitted: Program) -> tuple[Collective, ...]:
    """Return what a program has to keep of its collectives."""
    if not emitted.collectives:
        return ()
    from hlo.compiler.binding import collective_of

    return tuple(map(collective_of, emitted.collectives))
