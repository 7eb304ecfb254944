"""Placement annotations of frontends in the compiler's internal form."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused

_TARGETS = {
    "device": "MoveToDevice",
    "device_sram": "PinToDeviceSram",
    "pinned_device": "PinToDevice",
    "pinned_host": "MoveToHost",
    "unpinned_host": "MoveToHost",
}


@module_pass
def convert_memory_placement_to_internal_annotations(module: Module, rewrites: Rewrites) -> None:
    """Turn placement annotations of frontends into MoveToHost, MoveToDevice and the like."""
    name = "convert_memory_placement_to_internal_annotations"
    for comp in unfused(module):
        for inst in comp:
            target = _target(inst)
            if target is not None and rewrites.allow(name, inst):
                b = Builder(comp, inst)
                new = b.op(
                    "custom-call", inst.operands[0], shape=inst.shape, custom_call_target=target
                )
                replace_instruction(inst, new, b.built)
                comp.remove(inst)


def _target(inst: Instruction) -> str | None:
    """Return the internal form of a frontend annotation, None for any other instruction."""
    if inst.opcode != "custom-call" or len(inst.operands) != 1 or has_control_edges(inst):
        return None
    if inst.custom_call_target != "annotate_device_placement":
        return None
    said = inst.annotations.get("frontend_attributes", {}).get("_xla_buffer_placement", "")
    return _TARGETS.get(str(said).strip('"'))
