"""Inlining of calls."""

from __future__ import annotations

from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls, inline
from hlo.passes.control_flow._growth import grows_too_large
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused


@module_pass
def call_inliner(module: Module, rewrites: Rewrites, *, single_call_site: bool = False) -> None:
    """Inline called computations.

    single_call_site: only computations with a single caller. Not inlined are composite calls,
    which other tools treat as a unit, calls with the frontend attribute `inlineable="false"`,
    computations of other threads, and all calls if a computation would grow to a million
    instructions.
    """
    if grows_too_large(module):
        return
    calls = Calls(module)
    # Callers first: what is copied has not grown by copies of its own, and each is made once.
    for comp in reversed(unfused(module)):
        todo = list(comp) if comp.module is module else []
        while todo:
            inst = todo.pop()
            if not _is_inlined(inst, comp, calls, single_call_site):
                continue
            if rewrites.allow("call_inliner", inst):
                todo += inline_call(inst, calls)


def inline_call(inst: Instruction, calls: Calls) -> list[Instruction]:
    """Replace a call or fusion by copies of its computation's instructions; returns them."""
    root, built = inline(inst.called_computations[0], inst.operands, inst)
    calls.added(built)
    replace_instruction(inst, root, built)
    calls.remove(inst)
    return built


def _is_inlined(inst: Instruction, comp: Computation, calls: Calls, single: bool) -> bool:
    if inst.opcode != "call" or inst.is_composite:
        return False
    if inst.annotations.get("frontend_attributes", {}).get("inlineable") == "false":
        return False
    callee = inst.called_computations[0]
    if single and calls.counts[callee] > 1:
        return False
    return callee.execution_thread == comp.execution_thread
