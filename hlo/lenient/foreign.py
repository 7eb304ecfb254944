"""Calls of unknown targets whose result nothing needs: XLA removes them."""

from __future__ import annotations

from hlo.errors import HloError
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.host.custom_targets import builtin_target
from hlo.passes import parse_pipeline, run_pipeline

# What shows whether a value is needed: through calls, tuples, loops and barriers.
_PIPELINE = (
    "control-dep-remover,fix(call-inliner,cse-barrier-expander,tuple-simplifier,"
    "simplify-while-loops,simplify-conditional,zero-sized-hlo-elimination,algsimp,dce)"
)
_MARK = "unneeded#"


def drop_unneeded_calls(module: Module) -> None:
    """Replace calls of unknown targets by zeros where nothing reads their result."""
    calls = [i for i in module.instructions() if _is_unknown(i)]
    if not calls:
        return
    needed = _needed(module, calls)
    for number, inst in enumerate(calls):
        if number in needed or inst.parent is None:
            continue
        for other in [*inst.control_successors]:
            for before in inst.control_predecessors:
                other.add_control_predecessor(before)
            other.remove_control_predecessor(inst)
        comp = inst.parent
        inst.replace_all_uses_with(Builder(comp, inst).zeros(inst.shape))
        comp.remove(inst)
        if module.is_scheduled:
            comp.sort()


def _is_unknown(inst: Instruction) -> bool:
    return (
        inst.opcode == "custom-call"
        and not inst.custom_call_has_side_effect
        and builtin_target(inst.custom_call_target) is None
    )


def _needed(module: Module, calls: list[Instruction]) -> set[int]:
    """Return the numbers of the calls that are left once a copy is simplified."""
    everything = set(range(len(calls)))
    targets = [inst.custom_call_target for inst in calls]
    for number, inst in enumerate(calls):
        inst.attrs["custom_call_target"] = f"{_MARK}{number}"
    copy = module.clone()
    for inst, target in zip(calls, targets, strict=True):
        inst.attrs["custom_call_target"] = target
    try:
        run_pipeline(copy, parse_pipeline(_PIPELINE))
    except HloError:
        return everything
    left = (i.custom_call_target for i in copy.instructions() if i.opcode == "custom-call")
    return {int(t.removeprefix(_MARK)) for t in left if t.startswith(_MARK)}
