"""Offloading of annotated values to host memory."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.layout._host_memory import (
    TO_DEVICE,
    TO_HOST,
    Family,
    HostMemory,
    in_space,
    is_mark,
)
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.types import HOST_MEMORY_SPACE

# They read slices of host memory.
_READS = frozenset({"dynamic-slice"})


@module_pass
def host_offloader(module: Module, rewrites: Rewrites) -> None:
    """Keep values between MoveToHost and MoveToDevice in memory space 5.

    So do tuples, loops, calls and in-place updates on the way. Other users of such a value get a
    copy on the device. Annotations stay if a buffer cannot be followed.
    """
    _, result = module.program_shapes
    failed: set[Instruction] = set()
    while mark := next((i for i in _marks(module, TO_HOST) if i not in failed), None):
        family = HostMemory(module.callers(), module.entry, result).family(mark)
        if family is None or not rewrites.allow("host_offloader.offload", mark):
            failed.add(mark)
        else:
            _offload(family)
    for mark in _marks(module, TO_DEVICE):
        if _was_offloaded(mark) and rewrites.allow("host_offloader.device", mark):
            assert mark.parent is not None
            mark.replace_all_uses_with(mark.operands[0])
            mark.parent.remove(mark)


def _marks(module: Module, target: str) -> list[Instruction]:
    return [i for comp in unfused(module) for i in comp if is_mark(i, target)]


def _was_offloaded(mark: Instruction) -> bool:
    """True for an annotation after a copy out of host memory, or a slice of it."""
    value = mark.operands[0]
    if value.opcode not in (*_READS, "copy") or value.shape != mark.shape:
        return False
    source = value.operands[0].array_shape
    return source.layout is not None and source.layout.memory_space == HOST_MEMORY_SPACE


def _offload(family: Family) -> None:
    for inst, index in family.buffers:
        inst.shape = in_space(inst.shape, index, HOST_MEMORY_SPACE)
    for user, number in family.sources:
        user.replace_operand(number, _copied(user.operands[number], HOST_MEMORY_SPACE))
    for user, number in family.uses:
        if user.opcode not in _READS or number:
            user.replace_operand(number, _copied(user.operands[number], 0))
    for mark in family.marks:
        assert mark.parent is not None
        value = mark.operands[0]
        for user in mark.users:
            if user.opcode == "dynamic-update-slice" and user.operands[1] is mark:
                user.replace_operand(1, value)  # it is moved to the host there
        if mark.num_users or mark.is_root:
            mark.replace_all_uses_with(_copied(value, HOST_MEMORY_SPACE))
        mark.parent.remove(mark)


def _copied(value: Instruction, space: int) -> Instruction:
    assert value.parent is not None
    return Builder(value.parent, value).op("copy", value, shape=in_space(value.shape, (), space))
