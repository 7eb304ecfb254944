"""Operations that each device runs as they are, on whole values."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.registry import Wanted
from hlo.spmd.mesh import PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value, map_leaves
from hlo.values.types import ArrayShape


def on_whole_values(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted, reason: str
) -> Value:
    """Run an operation on each device, on all of its operands. See `Handler`.

    reason: why none of them can be cut.
    """

    local = inst.clone([b.packed(v) for v in whole_values(b, operands, reason)])
    made = b.append(local)
    if inst.spec.continued_by:
        return Unsharded(made)  # for the operation that continues it, as it is
    specs = [
        PartitionSpec.replicated(s.rank if isinstance(s, ArrayShape) else 0, w.manual)
        for (_, s), w in zip(inst.shape.leaves(), wanted, strict=True)
    ]
    return b.unpacked(made, inst.shape, iter(specs))


def whole_values(b: SpmdBuilder, values: Sequence[Value], reason: str) -> list[Value]:
    """Return values of which each device has all. reason: why none of them can be cut."""

    def whole(value: Sharded | Unsharded) -> Value:
        return b.replicated(value, reason) if isinstance(value, Sharded) else value

    return [map_leaves(value, whole) for value in values]
