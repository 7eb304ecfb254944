"""What a collective moves between which devices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hlo.analysis.memory import shape_bytes
from hlo.ir import Instruction
from hlo.ops import OPS, Trait
from hlo.ops.collective.device_groups import CROSS_BOTH, group_mode, id_groups
from hlo.values.types import ArrayShape, Shape, TupleShape

PERMUTE = "collective-permute"


@dataclass(frozen=True)
class Transfer:
    """What one execution of a collective moves.

    opcode: of its synchronous form. members: how many devices a group has, the largest of them; of
    a permutation 2, or 1 if no device sends to another. bytes: of the arrays that the group works
    on: what each device reduces, holds after an all-gather or before a reduce-scatter, exchanges
    with all others, or sends to one. result_bytes: of the result on one device.
    """

    opcode: str
    members: int
    bytes: int
    result_bytes: int


def synchronous(inst: Instruction) -> Instruction | None:
    """Return the collective that an instruction does or begins; of an `async-start`, the one that
    it wraps. None for what is none: ends of collectives, ids of devices, all else."""
    if inst.opcode == "async-start":
        wrapped = inst.calls.root
        return synchronous(wrapped) if wrapped.opcode != "async-start" else None
    if not inst.spec.has(Trait.COLLECTIVE) or inst.opcode.endswith("-done"):
        return None
    return inst if {"replica_groups", "source_target_pairs"} & inst.attrs.keys() else None


def transfer_of(inst: Instruction, device_counts: tuple[int, int]) -> Transfer | None:
    """Return what an instruction moves; None unless it is a collective or starts one.

    device_counts: the numbers of replicas and of partitions.
    """
    collective = synchronous(inst)
    if collective is None:
        return None
    spec = OPS[collective.opcode]
    opcode = spec.starts or spec.name
    members = _members(collective, device_counts)
    # A start returns what it sends as well.
    result = collective.shape
    if spec.starts and opcode != "all-reduce" and isinstance(result, TupleShape):
        result = result.elements[1]
    return Transfer(
        opcode, members, _moved(collective, opcode, members, result), shape_bytes(result)
    )


def _members(inst: Instruction, device_counts: tuple[int, int]) -> int:
    if "source_target_pairs" in inst.attrs:
        return 1 + any(source != target for source, target in inst.source_target_pairs)
    across = device_counts[1] if group_mode(inst) == CROSS_BOTH else 1
    return across * max(map(len, id_groups(inst, device_counts)))


def _moved(inst: Instruction, opcode: str, members: int, result: Shape) -> int:
    sizes = [shape_bytes(s) for s in inst.operand_shapes]
    if opcode == "all-gather":
        return members * sum(sizes)
    if opcode == "ragged-all-to-all":
        return sizes[0]  # at most; the sizes are operands
    if inst.has_dynamic_root:
        return sum(sizes[:-1])
    if opcode == PERMUTE and inst.slice_sizes_list:
        elements = sum(prod(s) for s in inst.slice_sizes_list)
        return elements * _element_bytes(result)
    return sum(sizes)


def _element_bytes(shape: Shape) -> int:
    arrays = [s for _, s in shape.leaves() if isinstance(s, ArrayShape)]
    return max((-(-s.element_type.bits // 8) for s in arrays), default=0)
