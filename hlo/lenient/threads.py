"""Calls across execution threads: what is called where it stands runs on the caller's thread.

Only asynchronous operations enter other threads; XLA runs all others in place, whatever thread
their computations name.
"""

from __future__ import annotations

from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import clone_computation
from hlo.lenient.record import Note
from hlo.ops import Trait

_XLA = "runs it on the thread of its caller"


def repair_threads(module: Module, note: Note) -> None:
    """Move computations to the threads of their callers; one with callers on several is copied."""
    callers = module.callers()
    copies: dict[tuple[Computation, str], Computation] = {}
    todo = module.callees_first()
    while todo:  # callers before callees, whose threads they decide
        comp = todo.pop()
        here = comp.execution_thread
        for inst in comp.call_sites:
            if inst.spec.has(Trait.ASYNC_CHAIN):
                continue
            new = {}
            for callee in inst.called_computations:
                if callee.execution_thread == here:
                    continue
                note(inst.name, _XLA)
                if not _is_entered_elsewhere(callee, here, callers.get(callee, [])):
                    callee.execution_thread = here
                elif (callee, here) in copies:
                    new[callee] = copies[callee, here]
                else:
                    copy = copies[callee, here] = module.add(clone_computation(callee))
                    copy.execution_thread = here
                    module.adopt(copy.call_sites)
                    new[callee] = copy
                    todo.append(copy)
            inst.replace_called(new)


def _is_entered_elsewhere(comp: Computation, thread: str, callers: list[Instruction]) -> bool:
    """True if a computation also runs on another thread than this one."""
    return any(
        c.spec.has(Trait.ASYNC_CHAIN) or (c.parent and c.parent.execution_thread != thread)
        for c in callers
    )
