"""scatter: each device writes what falls into its shard.

Where the updates are cut, devices scatter what they have, the first on the operand and the others
on what changes nothing, and the results are reduced.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from hlo.ops import OPS, Trait
from hlo.ops.attrs import PadDim, SliceDim
from hlo.ops.factors import FactorKind, FactorRule
from hlo.ops.movement.gather_scatter import index_dims
from hlo.ops.rules import tuple_or_single
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import Partial, by_factors
from hlo.spmd.handlers.index_vectors import index_vectors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.localize import localized
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import S32


def _neutral(inst: Instruction) -> object:
    """Return the value with which updates in any order combine to nothing new; None without."""
    op = single_binary_op(inst.to_apply)
    if len(inst.operands) != 3 or op is None:
        return None
    spec = OPS[op]
    if spec.identity is None or not spec.has(Trait.COMMUTATIVE):
        return None
    return spec.identity(inst.array_shape.element_type)


def _window_sizes(inst: Instruction) -> list[int]:
    """Return the size of a window in each dimension of the operand."""
    operand, updates = inst.operands[0].array_shape, inst.operands[-1].array_shape
    sizes = [1] * operand.rank
    window = index_dims(inst).window_dims(operand.rank)
    for d, at in zip(window, inst.update_window_dims, strict=True):
        sizes[d] = updates.dims[at]
    return sizes


def _rule(inst: Instruction) -> FactorRule:
    """Return the rule by which the operand is cut wherever an index tells what is written."""
    rule, mapped = inst.spec.factors(inst), index_dims(inst).index_map
    return rule.with_kinds({
        n: FactorKind.NEED_REPLICATION
        for d, factors in enumerate(rule.operands[0]) for n in factors
        if rule.factors[n].kind is FactorKind.PERMUTATION and d not in mapped
    })  # fmt: skip


@handles("scatter")
def _scatter(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    if any(s.is_dynamic for s in inst.operand_shapes):
        return by_factors(b, inst, operands, wanted)
    count = len(operands) // 2
    if 0 in inst.operands[-1].array_shape.dims:
        return tuple(operands[:count]) if inst.shape.is_tuple else operands[0]
    neutral = _neutral(inst)

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], reduced: Axes
    ) -> list[Instruction]:
        arrays = [p for p in parts if isinstance(p, Sharded)]
        tables = [a.local for a in arrays[:count]]
        if b.mesh.count(reduced) > 1:
            shape = tables[0].array_shape
            nothing = b.constant(shape.element_type, neutral)
            if not index_dims(inst).index_map:
                # No index tells padding of the updates from them.
                arrays[2] = b.masked(arrays[2], nothing)
            first = b.broadcast(b.compare(b.coordinate(reduced), b.constant(S32, 0), "EQ"), shape)
            rest = b.broadcast(nothing, shape)
            tables = [b.op("select", first, tables[0], rest, shape=shape)]
        return _write(b, inst, arrays, tables)

    partial = None if neutral is None else Partial.by(inst.to_apply, 0)
    return by_factors(b, inst, operands, wanted, partial, _rule(inst), share)


def _write(
    b: SpmdBuilder, inst: Instruction, arrays: Sequence[Sharded], tables: list[Instruction]
) -> list[Instruction]:
    """Scatter what falls into a device's shards.

    arrays: the operands, indices and updates. tables: what is written on, in place of the operands.
    """
    count = len(tables)
    x, indices = arrays[0], arrays[count]
    dims, sizes = index_dims(inst), _window_sizes(inst)
    whole = x.shape.dims
    cut = [d for d in dims.index_map if b.mesh.count(x.spec.dims[d]) > 1 and sizes[d] != whole[d]]
    batch = [d for d in b.padded_dims(indices) if d != dims.index_vector_dim]
    at = indices.local
    if cut or batch:
        vectors = index_vectors(b, inst, indices, -1, lambda d: whole[d])
        # A shard has a margin for windows that lie in it in part.
        margins = {d: sizes[d] - 1 for d in cut}
        begins = vectors.each(lambda d: _begin(b, x, d, margins[d]) if d in margins else 0)
        moved = b.op("subtract", vectors.at, begins)
        if any(margins.values()):
            ends = vectors.each(lambda d: whole[d] - sizes[d] + 1)
            fits = vectors.within(b.filled(S32, vectors.dims, 0), ends)
            outside = b.filled(S32, vectors.dims, -1)
            moved = b.op("select", fits, moved, outside, shape=moved.shape)
        at = b.masked(Sharded(moved, indices.spec, indices.shape), -1, batch).local
        padding = tuple(PadDim(margins.get(d, 0), margins.get(d, 0)) for d in range(len(whole)))
        tables = [_padded(b, t, padding) for t in tables]
    updates = [a.local for a in arrays[count + 1 :]]
    shape = tuple_or_single([t.array_shape for t in tables])
    local = localized(inst, [*tables, at, *updates], shape)
    if at is not indices.local:
        local.attrs["indices_are_sorted"] = False
    written = b.append(local)
    results = [b.element(written, n) for n in range(count)] if count > 1 else [written]
    if at is indices.local:
        return results
    return [_without_padding(b, r, padding) for r in results]


def _begin(b: SpmdBuilder, x: Sharded, dim: int, margin: int) -> Instruction:
    """Return where a device's shard begins, with a margin before it."""
    offset = b.offset(x.shape.dims[dim], x.spec.dims[dim])
    return b.op("subtract", offset, b.constant(S32, margin)) if margin else offset


def _padded(b: SpmdBuilder, x: Instruction, padding: Sequence[PadDim]) -> Instruction:
    if not any(p.low for p in padding):
        return x
    some = b.constant(x.array_shape.element_type, 1)
    return b.op("pad", x, some, padding=tuple(padding))


def _without_padding(b: SpmdBuilder, x: Instruction, padding: Sequence[PadDim]) -> Instruction:
    if not any(p.low for p in padding):
        return x
    inner = zip(x.array_shape.dims, padding, strict=True)
    return b.op("slice", x, slice=tuple(SliceDim(p.low, n - p.high) for n, p in inner))
