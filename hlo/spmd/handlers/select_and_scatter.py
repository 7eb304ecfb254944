"""select-and-scatter: each device has the windows that meet its elements, with all that is under
them.

What they select elsewhere is another device's to add. Where windows reach over the ends, padding
must not be selected: a reduce-window finds the place that each selects among those that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.ops.attrs import WindowDim
from hlo.ops.factors import Factor, FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.halo.exchange import Reach, exchange
from hlo.spmd.halo.slots import by_device, cut_out, index_along, padded, within
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.windows import (
    Elements,
    Positions,
    array_of,
    by_windows,
    elements_at,
    presence,
    varies_in_size,
)
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import PRED, S32, ElementType, TupleShape, array


@handles("select-and-scatter")
def _select_and_scatter(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    types = {o.array_shape.element_type for o in inst.operands}
    if varies_in_size(inst) or len(types) > 1:
        return by_factors(b, inst, operands, wanted)

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], _: Axes
    ) -> list[Instruction]:
        x, source, init = map(array_of, parts)
        return [_share(b, inst, x, source, init.local, specs[0])]

    rule = _without_holes(inst, inst.spec.factors(inst))
    return by_windows(b, inst, operands, wanted, share, rule=rule)


def _without_holes(inst: Instruction, rule: FactorRule) -> FactorRule:
    """Return the rule with dimensions whole that have holes between elements."""
    holes = {f for d, w in enumerate(inst.window) if w.lhs_dilate > 1 for f in rule.operands[0][d]}
    factors = tuple(
        Factor(f.size, FactorKind.NEED_REPLICATION) if n in holes else f
        for n, f in enumerate(rule.factors)
    )
    reason = "elements of the operand have holes between them" if holes else rule.reason
    return replace(rule, factors=factors, reason=reason)


@dataclass(frozen=True)
class _Windows:
    """The windows along a dimension that each device needs, by the coordinate along axes.

    starts, counts: those that meet its elements: int64[devices].
    size: how many each device gets.
    """

    axes: Axes
    starts: np.ndarray
    counts: np.ndarray
    size: int

    @property
    def reach(self) -> Reach:
        return Reach(self.axes, self.starts, self.counts, self.size)

    def positions(self, w: WindowDim) -> Positions:
        """Return the positions under the windows."""
        extent = w.dilated_size()
        counts = np.where(self.counts > 0, (self.counts - 1) * w.stride + extent, 0)
        return Positions(
            self.axes, self.starts * w.stride - w.pad_low, counts,
            (self.size - 1) * w.stride + extent if self.size else 0,
        )  # fmt: skip


def _windows_over(
    b: SpmdBuilder, w: WindowDim, size: int, count: int, axes: Axes, *, inside: bool
) -> _Windows:
    """Return the windows that meet each device's shard of a dimension.

    size: of the dimension. count: of windows in all. inside: leave out those before the first and
    behind the last window, which are those of a regular arrangement.
    """
    part = b.mesh.shard_size(size, axes)
    first = np.arange(b.mesh.count(axes)) * part
    end = np.minimum(first + part, size) if inside else first + part
    starts = -(-(first + w.pad_low - w.dilated_size() + 1) // w.stride)
    ends = (end - 1 + w.pad_low) // w.stride + 1
    if inside:
        starts, ends = np.maximum(starts, 0), np.minimum(ends, count)
    counts = np.where(end > first, np.maximum(ends - starts, 0), 0)
    return _Windows(axes, starts, counts, int(counts.max()))


def _is_met_by_others(b: SpmdBuilder, windows: _Windows, w: WindowDim, size: int) -> bool:
    """True when windows that a device has besides those it needs meet its shard."""
    part = b.mesh.shard_size(size, windows.axes)
    end = np.minimum((np.arange(len(windows.starts)) + 1) * part, size)
    others = (windows.starts + windows.counts) * w.stride - w.pad_low
    more = (0 < windows.counts) & (windows.counts < windows.size)
    return bool(np.any(more & (others < end)))


def _share(
    b: SpmdBuilder, inst: Instruction, x: Sharded, source: Sharded, init: Instruction,
    spec: PartitionSpec,
) -> Instruction:  # fmt: skip
    """Append one device's part. spec: of the result."""
    dims, counts = x.shape.dims, source.shape.dims
    window = list(inst.window)
    cut = [
        d for d, (w, axes) in enumerate(zip(window, spec.dims, strict=True))
        if axes and w != WindowDim(rhs_dilate=w.rhs_dilate, reversal=w.reversal)
    ]  # fmt: skip

    def over(*, inside: bool) -> dict[int, _Windows]:
        return {
            d: _windows_over(b, window[d], dims[d], counts[d], spec.dims[d], inside=inside)
            for d in cut
        }

    chosen = over(inside=True)
    direct = all(
        chosen[d].positions(window[d]).is_inside(dims[d])
        and not _is_met_by_others(b, chosen[d], window[d], dims[d])
        for d in cut
    )
    if not direct:
        chosen = over(inside=False)
    under: dict[int, tuple[Positions, Elements]] = {}
    for d in cut:
        windows, positions = chosen[d], chosen[d].positions(window[d])
        found = elements_at(b, x, d, positions, None)
        x = replace(x, local=found.local)
        source = replace(source, local=exchange(b, source, d, windows.reach))
        p = found.padding
        window[d] = replace(window[d], pad_low=p.pad_low, pad_high=p.pad_high)
        under[d] = positions, found
    shape = x.local.array_shape
    if direct:
        local = b.op(
            "select-and-scatter", x.local, source.local, init, shape=shape, window=tuple(window),
            select=inst.select, scatter=inst.scatter,
        )  # fmt: skip
    else:
        local = _by_place(b, inst, x, source, init, tuple(window), chosen, under)
    for d in cut:
        axes = spec.dims[d]
        part, size = b.mesh.shard_size(dims[d], axes), local.array_shape.dims[d]
        # Where the shard begins in what has been computed; without windows, anywhere.
        begins = np.arange(b.mesh.count(axes)) * part - under[d][0].starts
        need = chosen[d].counts > 0
        begins = np.where(need, begins, begins[np.argmax(need)]) if need.any() else 0 * begins
        low, high = max(0, -int(begins.min())), max(0, int(begins.max()) + part - size)
        local = padded(b, local, d, low, high, init)
        local = cut_out(b, local, d, by_device(b, axes, begins + low), part)
        if not need.all():
            there = index_along(b, local, d)
            none = by_device(b, axes, np.where(need, part, 0))
            filler = b.broadcast(init, local.array_shape)
            inside = within(b, there, None, none)
            local = b.op("select", inside, local, filler, shape=local.shape)
    return local


def _by_place(
    b: SpmdBuilder, inst: Instruction, x: Sharded, source: Sharded, init: Instruction,
    window: tuple[WindowDim, ...], chosen: dict[int, _Windows],
    under: dict[int, tuple[Positions, Elements]],
) -> Instruction:  # fmt: skip
    """Append the selection of a place for each window, and the scatter to it."""
    shape, windows = x.local.array_shape, source.local.array_shape
    et, size = shape.element_type, prod(shape.dims)
    place = b.op("iota", shape=array(S32, (size,)), iota_dimension=0)
    place = b.reshape(place, shape.dims)
    there: Instruction | None = None
    valid: Instruction | None = None
    for d, (positions, found) in under.items():
        part = presence(b, x.local, d, positions, found, x.shape.dims[d])
        there = part if there is None else b.op("and", there, part, shape=part.shape)
        starts = by_device(b, chosen[d].axes, chosen[d].starts)
        part = within(b, index_along(b, source.local, d, starts), 0, source.shape.dims[d])
        valid = part if valid is None else b.op("and", valid, part, shape=part.shape)
    assert there is not None and valid is not None
    function = b.program.module.add(_selecting(inst.select, et))
    results = [windows.with_type(t) for t in (et, S32, PRED)]
    made = b.op(
        "reduce-window", x.local, place, there,
        b.constant(et, 0), b.constant(S32, -1), b.constant(PRED, False),
        shape=TupleShape(tuple(results)), window=window, to_apply=function,
    )  # fmt: skip
    # What selects nothing goes nowhere.
    nowhere = b.filled(S32, windows.dims, -1)
    valid = b.op("and", valid, b.element(made, 2), shape=valid.shape)
    targets = b.op("select", valid, b.element(made, 1), nowhere, shape=nowhere.shape)
    count = prod(windows.dims)
    start = b.broadcast(init, array(et, (size,)))
    total = b.op(
        "scatter", start, b.reshape(targets, (count, 1)), b.reshape(source.local, (count,)),
        shape=start.shape, update_window_dims=(), inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=inst.scatter,
    )  # fmt: skip
    return b.reshape(total, shape.dims)


def _selecting(select: Computation, et: ElementType) -> Computation:
    """Return the function of two (value, place, is it there) that keeps one, as `select` says."""
    kinds = [p.array_shape.element_type for p in select.parameters]
    scalars = [array(t, ()) for t in (et, S32, PRED)]

    def body(b: Builder, *given: Instruction) -> Instruction:
        kept, other = given[:3], given[3:]
        values = (b.convert(v, t) for v, t in zip((kept[0], other[0]), kinds, strict=True))
        stays = b.op("call", *values, shape=select.root.shape, to_apply=select)
        # Of two that are there the function decides, else the one that is there stays.
        stays = b.op("or", stays, b.op("not", other[2]))
        stays = b.op("and", stays, kept[2])
        picked = (b.op("select", stays, k, o) for k, o in zip(kept[:2], other[:2], strict=True))
        return b.tuple(*picked, b.op("or", kept[2], other[2]))

    return build_computation(f"{select.name}.place", [*scalars, *scalars], body)
