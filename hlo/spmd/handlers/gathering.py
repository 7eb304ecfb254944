"""gather: each device looks up what is in its shard, and the results are joined."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.ops.attrs import SliceDim
from hlo.ops.factors import FactorKind, FactorRule
from hlo.ops.movement.gather_scatter import index_dims
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.index_vectors import index_vectors
from hlo.spmd.handlers.owned import OWNED, no_value
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.localize import localized
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import S32, array


def _rule(inst: Instruction) -> FactorRule:
    """Return the rule by which parts of the dimensions that are looked up give partial results."""
    rule, mapped = inst.spec.factors(inst), index_dims(inst).index_map
    kinds = {}
    for d, factors in enumerate(rule.operands[0]):
        for n in factors:
            if rule.factors[n].kind is FactorKind.PERMUTATION:
                # Of long windows a device would need most of the others' shards.
                short = 0 < 2 * inst.slice_sizes[d] <= rule.factors[n].size
                kinds[n] = (
                    FactorKind.REDUCTION if short and d in mapped else FactorKind.NEED_REPLICATION
                )
    return rule.with_kinds(kinds)


@handles("gather")
def _gather(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    if any(s.is_dynamic for s in (*inst.operand_shapes, inst.shape)):
        return by_factors(b, inst, operands, wanted)

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], reduced: Axes
    ) -> list[Instruction]:
        x, indices = parts
        assert isinstance(x, Sharded) and isinstance(indices, Sharded)
        shape = b.mesh.local_shape(inst.array_shape, specs[0])
        if not reduced or 0 in shape.dims:
            return [b.append(localized(inst, [x.local, indices.local], shape))]
        return [_lookup(b, inst, x, indices, specs[0])]

    return by_factors(b, inst, operands, wanted, OWNED, _rule(inst), share)


def _lookup(
    b: SpmdBuilder, inst: Instruction, x: Sharded, indices: Sharded, spec: PartitionSpec
) -> Instruction:
    """Return the windows that begin in a device's shard, and `no_value` in place of others."""
    dims, sizes = index_dims(inst), inst.slice_sizes
    cut = [d for d in dims.index_map if b.mesh.count(x.spec.dims[d]) > 1
           and sizes[d] != x.shape.dims[d]]  # fmt: skip
    vectors = index_vectors(b, inst, indices, 0, lambda d: x.shape.dims[d] - sizes[d])
    shard = x.local.array_shape.dims
    starts = vectors.each(lambda d: b.offset(x.shape.dims[d], x.spec.dims[d]) if d in cut else 0)
    vectors.at = b.op("subtract", vectors.at, starts)
    counts = vectors.each(lambda d: shard[d] if d in cut else x.shape.dims[d])
    inside = vectors.within(b.filled(S32, vectors.dims, 0), counts)
    mine = vectors.all_of(inside)
    table = x.local
    for d in cut:
        table = _with_next(b, table, d, x.spec.dims[d], sizes[d] - 1)
    shape = b.mesh.local_shape(inst.array_shape, spec)
    local = localized(inst, [table, vectors.at], shape)
    local.attrs["indices_are_sorted"] = False
    found = b.append(local)
    batch = tuple(d for d in range(shape.rank) if d not in inst.offset_dims)
    flags = b.op("broadcast", mine, shape=array(mine.array_shape.element_type, shape.dims),
                 dimensions=batch)  # fmt: skip
    none = b.broadcast(no_value(b, shape.element_type), shape)
    return b.op("select", flags, found, none, shape=shape)


def _with_next(b: SpmdBuilder, x: Instruction, dim: int, axes: Axes, count: int) -> Instruction:
    """Return a shard with elements after it along a dimension, from the devices that have them."""
    shape = x.array_shape
    size = shape.dims[dim]
    parts, by = [x], 1
    while count > 0:
        taken = min(count, size)
        part = b.op(
            "slice", x, shape=resized(shape, dim, taken),
            slice=tuple(SliceDim(0, taken if d == dim else n) for d, n in enumerate(shape.dims)),
        )  # fmt: skip
        parts.append(b.shift(part, axes, by))
        count, by = count - taken, by + 1
    return b.op("concatenate", *parts, dimensions=(dim,)) if len(parts) > 1 else x
