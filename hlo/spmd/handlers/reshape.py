"""reshape where a cut does not line up with the factors: what changes its device is exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.halo.exchange import Reach, exchange
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.windows import array_of, varies_in_size
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Value
from hlo.values.types import array


@dataclass(frozen=True)
class _Group:
    """Consecutive dimensions of the operand that become consecutive ones of the result.

    axes: those that the first of them is cut along, before and after.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    axes: Axes


@handles("reshape")
def _reshape(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    value = operands[0]
    if isinstance(value, Sharded) and not varies_in_size(inst) and not value.spec.unreduced:
        groups = _groups(inst, value.spec, wanted[0])
        if groups is not None and not all(_lines_up(b, inst, g) for g in groups):
            return _exchanged(b, inst, array_of(value), wanted[0], groups)
    return by_factors(b, inst, operands, wanted)


def _groups(inst: Instruction, spec: PartitionSpec, wanted: PartitionSpec) -> list[_Group] | None:
    """Return the groups of dimensions; None where others than the first of one are cut, or the
    first otherwise than the result's.
    """
    before, after = inst.operands[0].array_shape.dims, inst.array_shape.dims
    if 0 in before or spec.unreduced or wanted.unreduced:
        return None
    left = [d for d, n in enumerate(before) if n != 1]
    right = [d for d, n in enumerate(after) if n != 1]
    if any(spec.dims[d] for d, n in enumerate(before) if n == 1) or any(
        wanted.dims[d] for d, n in enumerate(after) if n == 1
    ):
        return None
    groups = []
    while left:
        one, other = [left.pop(0)], [right.pop(0)]
        sizes = before[one[0]], after[other[0]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                one.append(left.pop(0))
            else:
                other.append(right.pop(0))
            sizes = prod(before[d] for d in one), prod(after[d] for d in other)
        axes = spec.dims[one[0]]
        rest = (*(spec.dims[d] for d in one[1:]), *(wanted.dims[d] for d in other[1:]))
        if axes != wanted.dims[other[0]] or any(rest):
            return None
        groups.append(_Group(tuple(one), tuple(other), axes))
    return groups


def _lines_up(b: SpmdBuilder, inst: Instruction, group: _Group) -> bool:
    """True when each device has of the operand what it has of the result."""
    if len(group.before) == len(group.after) == 1:
        return True
    first = (
        inst.operands[0].array_shape.dims[group.before[0]],
        inst.array_shape.dims[group.after[0]],
    )
    return all(n % b.mesh.count(group.axes) == 0 for n in first)


def _exchanged(
    b: SpmdBuilder, inst: Instruction, value: Sharded, wanted: PartitionSpec, groups: list[_Group]
) -> Sharded:
    """Append the exchange of elements, numbered within each group."""
    before, after = value.shape.dims, inst.array_shape.dims
    local = value.local.array_shape.dims
    flat = b.reshape(value.local, [prod(local[d] for d in g.before) for g in groups])
    shape = array(value.shape.element_type, [prod(before[d] for d in g.before) for g in groups])
    spec = PartitionSpec(tuple(g.axes for g in groups), value.spec.manual)
    for at, g in enumerate(groups):
        if _lines_up(b, inst, g):
            continue
        size, row = shape.dims[at], prod(after[d] for d in g.after[1:])
        part = b.mesh.shard_size(after[g.after[0]], g.axes) * row
        starts = np.arange(b.mesh.count(g.axes)) * part
        reach = Reach(g.axes, starts, np.clip(size - starts, 0, part), part)
        flat = exchange(b, Sharded(flat, spec, shape), at, reach)
    result = b.mesh.local_shape(inst.array_shape, wanted)
    if flat.array_shape.dims == result.dims:
        return b.sharded(flat, wanted)
    return b.sharded(b.op("reshape", flat, shape=result), wanted)
