"""Sums over partitions and then over replicas, as sums over all of them."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.collective.device_groups import (
    CROSS_BOTH,
    CROSS_PARTITION,
    CROSS_REPLICA,
    FLATTENED,
    group_mode,
)
from hlo.passes.collectives._collective import groups_in, is_movable, next_channel, rounds
from hlo.passes.collectives._replicated import is_constant
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused

_MOVES = frozenset({"reshape", "transpose"})


@module_pass
def ar_crs_combiner(module: Module, rewrites: Rewrites) -> None:
    """Combine a reduction over partitions and one over replicas into one over both.

    In between it may be moved, converted to other floats, and multiplied by constants.
    """
    if module.device_counts[1] < 2:
        return
    channel = next_channel(module)
    for comp in unfused(module):
        for inst in comp.in_order():
            chain = _chain(inst)
            if chain is None:
                continue
            if not rewrites.allow("ar_crs_combiner.combine", inst, approximate=rounds(chain)):
                continue
            b, value = Builder(comp, inst), chain[-1].operands[0]
            for step in reversed(chain[1:-1]):
                value = b.copy(step, [value, *step.operands[1:]])
            attrs = inst.attrs | {"channel_id": channel, "mode": None}
            channel += 1
            new = b.op("all-reduce", value, shape=inst.shape, **attrs)
            replace_instruction(inst, new, b.built)
            for dead in chain:
                comp.remove(dead)


def _chain(inst: Instruction) -> list[Instruction] | None:
    """Return a sum over replicas, the steps before it, and a sum over partitions, in this order."""
    if not _is_sum(inst) or group_mode(inst) != CROSS_REPLICA:
        return None
    chain = [inst, inst.operands[0]]
    while _is_linear(chain[-1]) and not _is_kept(chain[-1]):
        chain.append(chain[-1].operands[0])
    last = chain[-1]
    if not _is_sum(last) or _is_kept(last) or not _is_over_partitions(last):
        return None
    return chain


def _is_sum(inst: Instruction) -> bool:
    if inst.opcode != "all-reduce" or not is_movable(inst):
        return False
    return single_binary_op(inst.to_apply) == "add"


def _is_kept(inst: Instruction) -> bool:
    return inst.num_users > 1 or inst.is_root or has_control_edges(inst)


def _is_linear(inst: Instruction) -> bool:
    """True for a step that may as well be done before devices add."""
    if inst.opcode in _MOVES:
        return True
    if inst.opcode == "convert":
        return all(i.array_shape.element_type.is_float for i in (inst, inst.operands[0]))
    if inst.opcode != "multiply":
        return False
    factor = inst.operands[1]
    return is_constant(factor.operands[0] if factor.opcode == "broadcast" else factor)


def _is_over_partitions(inst: Instruction) -> bool:
    """True where each group is of all partitions of one replica."""
    assert inst.parent is not None and inst.parent.module is not None
    replicas, partitions = inst.parent.module.device_counts
    mode, groups = group_mode(inst), groups_in(inst)
    if mode == CROSS_PARTITION:
        return any(len(group) == partitions for group in groups)
    if mode == CROSS_BOTH:
        return len(groups) == replicas
    if mode != FLATTENED:
        return False
    rows = {tuple(range(r * partitions, (r + 1) * partitions)) for r in range(replicas)}
    return {tuple(sorted(group)) for group in groups} == rows
