"""pad, slice, reverse, shuffle: elements that move along a cut dimension come from neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim, WindowDim
from hlo.ops.factors import FactorKind
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.halo.exchange import Reach, exchange
from hlo.spmd.halo.slots import by_device, cut_out, place_of
from hlo.spmd.handlers.owned import OWNED, no_value
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.windows import array_of, by_windows, elements_at, positions_of
from hlo.spmd.localize import localized
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import S32

_Parts = Sequence[Sharded | Unsharded]
_Specs = Sequence[PartitionSpec]


@handles("pad")
def _pad(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    shape = inst.array_shape

    def share(parts: _Parts, specs: _Specs, _: Axes) -> list[Instruction]:
        value, fill = array_of(parts[0]), array_of(parts[1]).local
        padding = list(inst.padding)
        for d, axes in enumerate(specs[0].dims):
            p = padding[d]
            if not axes or p == PadDim(0, 0):
                continue
            window = WindowDim(pad_low=p.low, lhs_dilate=p.interior + 1)
            found = elements_at(b, value, d, positions_of(b, window, shape.dims[d], axes), fill)
            value = replace(value, local=found.local)
            w = found.padding
            padding[d] = PadDim(w.pad_low, w.pad_high, w.lhs_dilate - 1)
        result = b.mesh.local_shape(shape, specs[0])
        if value.local.array_shape.dims == result.dims and all(p == PadDim(0, 0) for p in padding):
            return [value.local]
        return [b.op("pad", value.local, fill, shape=result, padding=tuple(padding))]

    return by_windows(b, inst, operands, wanted, share)


@handles("slice")
def _slice(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    shape = inst.array_shape
    operand = inst.operands[0].array_shape
    # One element that all devices want: its owner has it, and shares it.
    single = {
        d for d, (size, axes) in enumerate(zip(shape.dims, wanted[0].dims, strict=True))
        if size == 1 < operand.dims[d] and not axes
    }  # fmt: skip

    def share(parts: _Parts, specs: _Specs, _: Axes) -> list[Instruction]:
        value = array_of(parts[0])
        ranges = list(inst.slice)
        for d, axes in enumerate(specs[0].dims):
            r = ranges[d]
            if d in single and value.spec.dims[d]:
                value = replace(value, local=_of_owner(b, value, d, r.start))
                ranges[d] = SliceDim(0, 1)
            if not axes:
                continue
            if r != SliceDim(0, value.shape.dims[d]):
                window = WindowDim(stride=r.stride, pad_low=-r.start)
                found = elements_at(b, value, d, positions_of(b, window, shape.dims[d], axes), None)
                value = replace(value, local=found.local)
            ranges[d] = SliceDim(0, value.local.array_shape.dims[d], r.stride)
        result = b.mesh.local_shape(shape, specs[0])
        if value.local.array_shape.dims == result.dims:
            return [value.local]
        return [b.op("slice", value.local, shape=result, slice=tuple(ranges))]

    rule = inst.spec.factors(inst)
    moved = {f: operand.dims[d] for d in single for f in rule.operands[0][d]}
    factors = tuple(
        replace(f, kind=FactorKind.REDUCTION, size=moved[n]) if n in moved else f
        for n, f in enumerate(rule.factors)
    )
    results = tuple(() if moved.keys() & set(old) else old for old in rule.results[0])
    rule = replace(rule, factors=factors, results=(results,))
    return by_windows(b, inst, operands, wanted, share, OWNED, rule)


def _of_owner(b: SpmdBuilder, value: Sharded, dim: int, index: int) -> Instruction:
    """Append one element of a dimension on the device that has it, and no value on others."""
    axes = value.spec.dims[dim]
    part = value.local.array_shape.dims[dim]
    at = index - np.arange(b.mesh.count(axes)) * part
    local = cut_out(b, value.local, dim, by_device(b, axes, np.clip(at, 0, part - 1)), 1)
    owns = place_of(b, by_device(b, axes, (at >= 0) & (at < part)))
    shape = local.array_shape
    mine = b.broadcast(b.compare(owns, b.constant(S32, 0), "NE"), shape)
    others = b.broadcast(no_value(b, shape.element_type), shape)
    return b.op("select", mine, local, others, shape=shape)


@handles("reverse")
def _reverse(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    shape = inst.array_shape

    def share(parts: _Parts, specs: _Specs, _: Axes) -> list[Instruction]:
        value = array_of(parts[0])
        for d in inst.dimensions:
            axes = specs[0].dims[d]
            if axes:
                size = shape.dims[d]
                part = b.mesh.shard_size(size, axes)
                # What is before the first element becomes padding.
                starts = size - (np.arange(b.mesh.count(axes)) + 1) * part
                reach = Reach(axes, starts, np.full(len(starts), part), part)
                value = replace(value, local=exchange(b, value, d, reach))
        return [b.append(localized(inst, [value.local], b.mesh.local_shape(shape, specs[0])))]

    return by_windows(b, inst, operands, wanted, share)


@handles("shuffle")
def _shuffle(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    shape = inst.array_shape

    def share(parts: _Parts, specs: _Specs, _: Axes) -> list[Instruction]:
        value = array_of(parts[0])
        assert inst.shifts is not None
        inside: list[tuple[int, int]] = []
        for d, shift in zip(inst.dimensions, inst.shifts, strict=True):
            axes = specs[0].dims[d]
            if not axes:
                inside.append((d, shift))
                continue
            size = shape.dims[d]
            part = b.mesh.shard_size(size, axes)
            starts = np.arange(b.mesh.count(axes)) * part
            counts = np.clip(size - starts, 0, part)
            reach = Reach(axes, starts + shift, counts, part)
            value = replace(value, local=exchange(b, value, d, reach, periodic=True))
        if not inside:
            return [value.local]
        dimensions, shifts = zip(*inside, strict=True)
        return [
            b.op("shuffle", value.local, shape=value.local.shape, mode=inst.mode,
                 dimensions=dimensions, shifts=shifts)
        ]  # fmt: skip

    return by_windows(b, inst, operands, wanted, share)
