"""Collective operations of groups of one device."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.collective.device_groups import CROSS_BOTH, group_mode
from hlo.passes.algsimp._rules import rule
from hlo.values.types import compatible


def _is_alone(inst: Instruction) -> bool:
    """True where each device is in a group with no other."""
    # A group of one replica may be of several partitions. A result for more devices than there are
    # is no error before it is run.
    return (
        inst.replica_groups.group_size == 1
        and group_mode(inst) != CROSS_BOTH
        and all(map(compatible, inst.operand_shapes, (s for _, s in inst.shape.leaves())))
    )


@rule("all-reduce reduce-scatter", "all-reduce(x) = x, in groups of one")
def reduced_alone(inst: Instruction, b: Builder) -> Instruction | None:
    return _operands(inst, b) if _is_alone(inst) else None


@rule("all-gather", "all-gather(x) = x, in groups of one")
def gathered_alone(inst: Instruction, b: Builder) -> Instruction | None:
    return _operands(inst, b) if _is_alone(inst) else None


@rule("all-to-all", "all-to-all(x) = x, in groups of one")
def exchanged_alone(inst: Instruction, b: Builder) -> Instruction | None:
    return _operands(inst, b) if _is_alone(inst) else None


def _operands(inst: Instruction, b: Builder) -> Instruction:
    return inst.operands[0] if inst.shape.is_array else b.tuple(*inst.operands)
