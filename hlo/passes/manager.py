"""Runs pipelines, and tells observers what each pass did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hlo.analysis.strict_math import has_strict_math
from hlo.errors import HloError
from hlo.ir import Module
from hlo.passes.analyses import Analyses
from hlo.passes.pipeline import Fix, Step
from hlo.passes.registry import PLUGIN_PREFIX
from hlo.passes.rewrites import Rewrite, Rewrites
from hlo.passes.user_passes import Verification
from hlo.support.memory import collector_paused
from hlo.support.signature import checked
from hlo.support.user_code import is_raised_in, located


@dataclass(frozen=True)
class PassRun:
    """What one run of a pass did.

    number: from 0, in order of running. before, after: the numbers of instructions of the module.
    notes: what the user should know.
    """

    number: int
    step: Step
    rewrites: Sequence[Rewrite]
    seconds: float
    before: int
    after: int
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.step.spec.name

    @property
    def changed(self) -> bool:
        return bool(self.rewrites)


@runtime_checkable
class Observer(Protocol):
    """Looks at the module around each run of a pass. What it raises ends the pipeline."""

    def before(self, module: Module, step: Step) -> None: ...

    def after(self, module: Module, run: PassRun) -> None: ...


@checked
def run_pipeline(
    module: Module, pipeline: Sequence[Step | Fix], observers: Sequence[Observer] = ()
) -> list[PassRun]:
    """Run passes on a module in order, in place; returns what each run did.

    After a pass that is not part of this package the module is verified. Raises HloError of passes
    and of observers, code `pass-failed` for any other exception in a user's pass or rule, and
    `pass-broke-module` where such a pass leaves an invalid module; the module is then as the last
    pass left it.
    """
    runner = _Runner(module, observers)
    # Observers may copy the module again and again; copies that are not needed any more are cycles.
    with nullcontext() if observers else collector_paused():
        runner.run(pipeline)
    return runner.runs


class _Runner:
    """Runs steps, and knows for each after how many changes it last left nothing to do.

    In a group that is repeated, a step that found nothing to do, or an idempotent one, is left out
    until another one has changed the module.
    """

    def __init__(self, module: Module, observers: Sequence[Observer]) -> None:
        self.runs: list[PassRun] = []
        self._module = module
        self._observers = observers
        self._is_exact = has_strict_math(module)
        # Observers run with the cycle collector, see `run_pipeline`.
        self._pause = collector_paused if observers else nullcontext
        self._analyses = Analyses()
        self._count = count_instructions(module)
        self._changes = 0
        self._settled: dict[int, int] = {}

    def run(self, pipeline: Sequence[Step | Fix], *, repeated: bool = False) -> None:
        for item in pipeline:
            if isinstance(item, Fix):
                for _ in range(item.max_iters):
                    changes = self._changes
                    self.run(item.steps, repeated=True)
                    if self._changes == changes:
                        break
            elif not repeated or self._settled.get(id(item)) != self._changes:
                changed = self._run_step(item)
                self._changes += changed
                if not changed or item.spec.is_idempotent:
                    self._settled[id(item)] = self._changes

    def _run_step(self, step: Step) -> bool:
        module = self._module
        for observer in self._observers:
            observer.before(module, step)
        rewrites = Rewrites(analyses=self._analyses, is_exact=self._is_exact)
        before, start = self._count, time.perf_counter()
        verification = Verification(module, step.spec) if step.spec.is_of_user else None
        with self._pause():
            run_pass(step, module, rewrites)
            if rewrites.changed and verification is None:
                for comp in module.computations:
                    comp.sort()
        seconds = time.perf_counter() - start
        if verification is not None:
            verification.check()
        if rewrites.changed or verification is not None:  # who may have changed it without asking
            self._analyses = Analyses()
            self._count = count_instructions(module)
        after = self._count
        run = PassRun(len(self.runs), step, rewrites.log, seconds, before, after, rewrites.notes)
        self.runs.append(run)
        for observer in self._observers:
            observer.after(module, run)
        return run.changed


def run_pass(step: Step, module: Module, rewrites: Rewrites) -> None:
    """Run a pass. Raises HloError; what else a user's code raises becomes one."""
    try:
        step.spec.run(module, step.options, rewrites)
    except (HloError, MemoryError):
        raise
    except (Exception, SystemExit) as e:
        # A file of passes may also add rules to passes of this package.
        if not (step.spec.is_of_user or is_raised_in(e, PLUGIN_PREFIX)):
            raise
        raise HloError.at("pass-failed", f"pass {step} failed: {located(e)}") from e


def count_instructions(module: Module) -> int:
    """Return the number of instructions of all computations."""
    return sum(len(comp) for comp in module.computations)
