"""Layout changes outside of host memory."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.layout._host_memory import TO_DEVICE, TO_HOST, is_mark
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused


@module_pass
def host_offload_legalize(module: Module, rewrites: Rewrites) -> None:
    """Move layout-changing copies out from between MoveToHost and MoveToDevice.

    After MoveToDevice, if that is the only user of the copy; else before MoveToHost.
    """
    for comp in unfused(module):
        for copy in comp.in_order():
            if copy.opcode != "copy" or copy.is_root or has_control_edges(copy):
                continue
            source, users = copy.operands[0], copy.users
            if not _is_moved(source):
                continue
            if users and all(is_mark(u, TO_DEVICE) and not has_control_edges(u) for u in users):
                if rewrites.allow("host_offload_legalize.down", copy):
                    for mark in users:
                        _behind(mark, source)
                    comp.remove(copy)
            elif is_mark(source, TO_HOST) and source.num_users == 1:
                if rewrites.allow("host_offload_legalize.up", copy):
                    _in_front(copy, source)


def _is_moved(value: Instruction) -> bool:
    """True for a value in host memory here, through operations that move nothing."""
    while value.opcode in ("bitcast", "copy"):
        value = value.operands[0]
    return is_mark(value, TO_HOST) and not has_control_edges(value)


def _behind(mark: Instruction, source: Instruction) -> None:
    assert mark.parent is not None
    b = Builder(mark.parent, mark)
    moved = b.op("custom-call", source, shape=source.shape, custom_call_target=TO_DEVICE)
    replace_instruction(mark, b.op("copy", moved, shape=mark.shape), b.built)
    mark.parent.remove(mark)


def _in_front(copy: Instruction, mark: Instruction) -> None:
    comp = copy.parent
    assert comp is not None
    b = Builder(comp, copy)
    first = b.op("copy", mark.operands[0], shape=copy.shape)
    moved = b.op("custom-call", first, shape=copy.shape, custom_call_target=TO_HOST)
    replace_instruction(copy, moved, b.built)
    comp.remove(copy)
    comp.remove(mark)
