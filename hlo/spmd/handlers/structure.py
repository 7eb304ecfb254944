"""Operations that hand on values, of which some are tuples or no arrays at all."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.one_device import device_of, on_one_device
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.whole import on_whole_values
from hlo.spmd.mesh import PartitionSpec
from hlo.spmd.value import Sharded, Value, leaves


@handles("copy", "opt-barrier", "add-dependency", "domain")
def forwarded(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    """Hand on operand 0; the leaves of a tuple are distributed as they are."""
    value, *others = operands
    if not isinstance(value, tuple):
        return by_factors(b, inst, operands, wanted)
    specs = [v.spec if isinstance(v, Sharded) else PartitionSpec(()) for v in leaves(value)]
    local = inst.clone(
        [b.packed(value), *(b.packed(v) for v in others)],
        shape=b.local_shape(inst.shape, iter(specs)),
    )
    return b.unpacked(b.append(local), inst.shape, iter(specs))


@handles("after-all")
def after_all(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    """Wait for the shards of a device."""
    local = b.append(inst.clone([b.packed(v) for v in operands]))
    return b.unpacked(local, inst.shape, iter(wanted))


@handles("infeed", "outfeed")
def queued(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    """Run on the queue of each device, of whole values; or of one, if the sharding names it."""
    device = device_of(inst)
    if device is None or any(w.manual for w in wanted):
        return as_written(b, inst, operands, wanted)
    return on_one_device(b, inst, operands, device)


@handles(
    "async-start", "async-update", "async-done", "copy-start", "copy-done", "send", "send-done",
    "recv", "recv-done", "all-gather-start", "all-gather-done", "all-reduce-start",
    "all-reduce-done", "collective-permute-start", "collective-permute-done",
)  # fmt: skip
def as_written(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    """Run on whole values: what the operation exchanges with others is one of these."""
    return on_whole_values(b, inst, operands, wanted, inst.spec.factors(inst).reason)


@handles("partition-id")
def partition_id(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    """Return the number of the device, where the program is one of each device."""
    if not wanted[0].manual and b.mesh.size > 1:
        raise InferError(
            f"{inst.name}: partition-id outside of a manual computation: it is another one on each "
            "device, and the program is one for all of them",
            code="bad-sharding", hint="a program that is written for each device has no shardings",
        )  # fmt: skip
    return by_factors(b, inst, operands, wanted)
