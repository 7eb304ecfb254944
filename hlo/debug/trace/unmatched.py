"""Why a trace shows nothing of an instruction that was asked for by its name."""

from __future__ import annotations

import fnmatch

from hlo.debug.trace.record import Trace
from hlo.debug.trace.selection import Selection
from hlo.errors import did_you_mean
from hlo.ir import Instruction, Module
from hlo.ir.calls import applied_computations


def unmatched(trace: Trace, select: Selection, given: Module, run: Module) -> list[str]:
    """Return a line for each pattern of names of which a trace has no value.

    given: the module; run: as it was optimized.
    """
    shown = {v.instruction for v in trace.values}
    return [
        f"{pattern}: {_reason(pattern, select, given, run)}"
        for pattern in select.names
        if not fnmatch.filter(shown, pattern)
    ]


def _reason(pattern: str, select: Selection, given: Module, run: Module) -> str:
    had, has = _named(given, pattern), _named(run, pattern)
    if not had and not has:
        hint = did_you_mean(pattern, [i.name for i in given.instructions()])
        return "no instruction has such a name" + (f"; {hint}" if hint else "")
    if not has:
        return "the passes leave no instruction of such a name; --passes '' shows it"
    if not any(map(select.takes, has)):
        return "no other pattern matches it"
    applied = applied_computations(run)
    if all(i.parent in applied for i in has):
        comp = has[0].parent
        name = comp.name if comp is not None else ""
        return f"{name} is applied to elements: such functions are not looked into"
    return "it did not run, or has no array"


def _named(module: Module, pattern: str) -> list[Instruction]:
    return [i for i in module.instructions() if fnmatch.fnmatchcase(i.name, pattern)]
