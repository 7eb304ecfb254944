"""Devices: shardings against shapes, replica groups and permutations against the device counts.

Source: XLA's `collective_ops_utils.h` for how a collective's attributes choose its participants.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hlo.errors import InferError
from hlo.ir import Instruction, Module
from hlo.ops.collective.device_groups import (
    CROSS_BOTH,
    CROSS_PARTITION,
    CROSS_REPLICA,
    FLATTENED,
    group_mode,
)
from hlo.ops.collective.rules import PARTIAL, UNEVEN, parts_problem
from hlo.values.types import ArrayShape, TupleShape
from hlo.verifier.report import Report


def check_partitioning(module: Module, instructions: Iterable[Instruction], report: Report) -> None:
    """Check shardings, replica groups and permutations."""
    replicas, partitions = module.device_counts
    all_reduces: list[Instruction] = []
    for inst in instructions:
        if report.breaks_own_rule(inst):
            continue
        if "sharding" in inst.annotations:
            _check_sharding(inst, partitions, report)
        if inst.opcode in ("conditional", "while"):
            _check_alike(inst, report)
        if "parameter_replication" in inst.annotations:
            _check_replication(inst, report)
        attrs = inst.attrs
        if "replica_groups" in attrs:
            _check_groups(inst, replicas, partitions, report)
        elif "source_target_pairs" in attrs:
            _check_permutation(inst, replicas, partitions, report)
        if inst.opcode in UNEVEN:
            all_reduces.append(inst)
    _check_same_constraint(all_reduces, report)


# --- shardings ----------------------------------------------------------------------------------


def _check_sharding(inst: Instruction, partitions: int, report: Report) -> None:
    sharding = inst.annotations["sharding"]
    try:
        sharding.check(inst.shape, partitions if partitions > 1 else None)
    except InferError as e:
        report.add(e.code, e.message, inst, attr="sharding", hint=e.hint)


def _check_replication(inst: Instruction, report: Report) -> None:
    flags = inst.annotations["parameter_replication"]
    leaves = sum(1 for _ in inst.shape.leaves())
    if len(flags) != leaves:
        report.add(
            "bad-value", f"parameter_replication has {len(flags)} flags for {leaves} leaves", inst,
            attr="parameter_replication",
        )  # fmt: skip


def _check_alike(inst: Instruction, report: Report) -> None:
    """Check that shardings of body parameters and results match those of the caller."""
    if inst.opcode == "while":
        body, condition = inst.body, inst.condition
        others = [body.root, *body.parameters[:1], *condition.parameters[:1]]
    else:
        others = [c.root for c in inst.called_computations]
    sharded = [i for i in (inst, *others) if "sharding" in i.annotations]
    for other in sharded[1:]:
        first = sharded[0]
        here, there = first.annotations["sharding"], other.annotations["sharding"]
        if there != here:
            report.add(
                "bad-sharding",
                f"the sharding of {first.name} is {here}, that of {other.name} is {there}",
                inst, attr="sharding", notes=[(f"{other.name} is here", other)],
            )  # fmt: skip


# --- replica groups -----------------------------------------------------------------------------


def _check_groups(inst: Instruction, replicas: int, partitions: int, report: Report) -> None:
    """Check well-formed groups against the number of devices."""
    mode = group_mode(inst)
    ids, what = {
        CROSS_REPLICA: (replicas, "replicas"),
        CROSS_BOTH: (replicas, "replicas"),
        CROSS_PARTITION: (partitions, "partitions"),
        FLATTENED: (replicas * partitions, "devices"),
    }[mode or CROSS_REPLICA]
    lists = inst.replica_groups.lists()
    named = sum(map(len, lists))
    most = max(chain.from_iterable(lists), default=0)
    fits = most < ids if inst.opcode in PARTIAL else named == ids
    # A count of one is the default of modules that do not specify devices.
    if lists and ids != 1 and not fits:
        said = f"id {most}" if inst.opcode in PARTIAL else f"{named} ids"
        problem: str | None = f"the replica groups have {said}, the module has {ids} {what}"
    else:
        size = len(lists[0]) if lists else ids
        problem = parts_problem(inst, size * partitions if mode == CROSS_BOTH else size)
    if problem is not None:
        report.add("bad-replica-groups", problem, inst, attr="replica_groups")


# --- permutations -------------------------------------------------------------------------------


def _check_permutation(inst: Instruction, replicas: int, partitions: int, report: Report) -> None:
    across_replicas = inst.channel_id is None
    limit = replicas if across_replicas else partitions
    pairs = inst.source_target_pairs
    most = _slices(inst)
    for place, what in enumerate(("source", "target")):
        seen: dict[int, int] = {}
        for pair in pairs:
            if len(pair) != 2:
                report.add(
                    "bad-replica-groups", f"{{{','.join(map(str, pair))}}} is not a pair of ids",
                    inst, attr="source_target_pairs",
                )  # fmt: skip
                return
            i = pair[place]
            seen[i] = seen.get(i, 0) + 1
            if seen[i] == most + 1:
                times = "twice" if most == 1 else f"more than {most} times"
                report.add(
                    "bad-replica-groups", f"{i} is a {what} {times}", inst,
                    attr="source_target_pairs",
                )  # fmt: skip
            elif i < 0 or (limit != 1 and i >= limit):
                report.add(
                    "bad-replica-groups", f"{what} {i} is not in [0, {limit})", inst,
                    attr="source_target_pairs",
                )  # fmt: skip


def _slices(inst: Instruction) -> int:
    """Return how often an id may send or receive: once for each slice of a buffer."""
    if not inst.slice_sizes_list:
        return 1
    offsets = inst.operand_shapes[2]
    assert isinstance(offsets, TupleShape)
    first = offsets if isinstance(inst.operand_shapes[0], ArrayShape) else offsets.elements[0]
    assert isinstance(first, TupleShape)
    return len(first.elements)


def _check_same_constraint(all_reduces: list[Instruction], report: Report) -> None:
    for inst in all_reduces[1:]:
        first = all_reduces[0]
        if inst.constrain_layout != first.constrain_layout:
            report.add(
                "mixed-constraints",
                f"all all-reduces constrain their layout or none: {first.name} differs", inst,
                attr="constrain_layout", notes=[(f"{first.name} is here", first)],
            )  # fmt: skip
