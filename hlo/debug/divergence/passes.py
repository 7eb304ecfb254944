"""Which pass makes results differ: a bisection of the modules between the passes.

The module before that pass and the one after it differ by its rewrites alone, so that their
instructions are matched with more certainty than those of the first module and the last. What
differs is then looked up in the given module, by its span.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.debug.trace.record import Frame
from hlo.errors import HloError, InstructionSpan
from hlo.ir import Instruction, Module
from hlo.passes import run_pipeline
from hlo.passes.manager import PassRun
from hlo.passes.pipeline import Fix, Step
from hlo.passes.validate import Validate


@dataclass(frozen=True)
class Culprit:
    """A run of a pass that changes results, and the modules before it and after it."""

    before: Module
    after: Module
    run: PassRun


def culprit(
    given: Module, pipeline: Sequence[Step | Fix], agrees: Callable[[Module], bool]
) -> Culprit | None:
    """Return the run of a pass after which results differ, None if they agree after the last one.

    agrees: whether a module's results are those of the given one. Results may come to agree and to
    differ several times; then it is any run that makes them differ.
    """
    right, (wrong, run) = given, _after(given, pipeline, None)
    if run is None or agrees(wrong):
        return None
    low, high = 0, run.number + 1
    while high - low > 1:
        middle = (low + high) // 2
        module, last = _after(given, pipeline, middle)
        if last is None or agrees(module):
            low, right = middle, module
        else:
            high, wrong, run = middle, module, last
    return Culprit(right, wrong, run)


class _Stop(Exception):
    """Enough passes have run."""


class _Last:
    """Keeps the last run that changed something, and ends a pipeline after a number of runs."""

    def __init__(self, count: int | None) -> None:
        self.run: PassRun | None = None
        self._count = count

    def before(self, module: Module, step: Step) -> None: ...

    def after(self, module: Module, run: PassRun) -> None:
        # A user's pass may change a module without saying so.
        if run.changed or run.step.spec.is_of_user:
            self.run = run
        if run.number + 1 == self._count:
            raise _Stop


def _after(
    given: Module, pipeline: Sequence[Step | Fix], count: int | None
) -> tuple[Module, PassRun | None]:
    """Return a module after so many runs of passes, or all, and the last one that changed it."""
    module, last = given.clone(), _Last(count)
    try:
        run_pipeline(module, pipeline, [last])
    except _Stop:
        pass
    return module, last.run


def frames_in(
    given: Module, frames: Sequence[tuple[Instruction, int | None]], inst: Instruction
) -> tuple[Frame, ...]:
    """Return the callers of an instruction in the given module, inlined calls among them.

    frames: its callers in a module that passes made, with iterations. inst: there, too.
    """
    by_span = {id(i.span): i.name for i in given.instructions()}

    def name(span: InstructionSpan | None) -> str | None:
        return None if span is None else by_span.get(id(span.original))

    path: list[Frame] = []
    for caller, iteration in [*frames, (inst, None)]:
        sites = () if caller.span is None else caller.span.call_sites
        path += [Frame(site, None) for s in reversed(sites) if (site := name(s)) is not None]
        if caller is not inst:
            path.append(Frame(name(caller.span) or caller.name, iteration))
    return tuple(path)


def rules_at(
    module: Module | None, pipeline: Sequence[Step | Fix], run: PassRun, names: Sequence[str]
) -> tuple[str, ...]:
    """Return what the passes did at instructions of some names.

    It is the rewrite that is wrong, if the module of the instruction alone shows it. Else it is the
    rewrites of a run there, or that run.
    """
    if module is not None:
        small = module.clone()
        try:
            run_pipeline(small, pipeline, [Validate(small)])
        except HloError as e:
            if e.code == "pass-changed-result":
                return (e.diagnostics[0].message,)
    there = [r for r in run.rewrites if r.instruction in names]
    rules = [f"{run.name}: {r.rule} at {r.instruction}" for r in there]
    return tuple(dict.fromkeys(rules)) or (run.name,)
