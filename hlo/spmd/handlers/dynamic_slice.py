"""dynamic-slice and dynamic-update-slice along dimensions that are cut.

A slice that may begin anywhere has elements on several devices: each puts what it has into its
place in the slice, and the parts are joined. Of an update each device writes what falls into its
shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.ops.factors import FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.owned import OWNED, clamped_start, no_value
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import S32, array

# --- where a slice is in a shard ------------------------------------------------------------------


@dataclass(frozen=True)
class _Window:
    """What a slice and the shard of a device have in common along one dimension.

    Attributes:
        start: of the slice in the shard, such that the next `size` elements hold all they have in
            common.
        size: the number of elements, at most the slice's.
        ahead: the position in the slice of the first of them, s32[]; may lie outside of it. None
            for a dimension that is whole, where they are the slice.
    """

    start: Instruction
    size: int
    ahead: Instruction | None = None


def _windows(
    b: SpmdBuilder, x: Sharded, starts: Sequence[Instruction], sizes: Sequence[int]
) -> list[_Window]:
    """Return, for each dimension, where a slice of given sizes is in the shard of an array."""
    windows = []
    zero = b.constant(S32, 0)
    local = x.local.array_shape.dims
    for d, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        whole = x.shape.dims[d]
        axes = x.spec.dims[d]
        if size == whole:
            windows.append(_Window(zero, local[d]))
            continue
        begin = clamped_start(b, start, whole - size)
        if b.mesh.count(axes) == 1:
            windows.append(_Window(begin, size))
            continue
        common = min(size, local[d])
        offset = b.offset(whole, axes)
        inside = b.op("subtract", begin, offset)
        at = b.op("clamp", zero, inside, b.constant(S32, local[d] - common))
        windows.append(_Window(at, common, b.op("subtract", at, inside)))
    return windows


def _scalars(b: SpmdBuilder, starts: Sequence[Value]) -> list[Instruction]:
    """Return the starts, of which there may be one vector, as scalars that each device has."""
    found = []
    for start in starts:
        assert isinstance(start, Sharded)
        local = b.replicated(start).local
        if not start.shape.rank:
            found.append(local)
            continue
        for d in range(start.shape.dims[0]):
            found.append(b.reshape(b.op("slice", local, slice=(SliceDim(d, d + 1),)), ()))
    return found


def _part(b: SpmdBuilder, x: Instruction, windows: Sequence[_Window]) -> Instruction:
    sizes = tuple(w.size for w in windows)
    if sizes == x.array_shape.dims:
        return x
    return b.op("dynamic-slice", x, *(w.start for w in windows), dynamic_slice_sizes=sizes)


def _both(b: SpmdBuilder, x: Instruction | None, y: Instruction) -> Instruction:
    return y if x is None else b.op("and", x, y)


# --- dynamic-slice --------------------------------------------------------------------------------


def _slice_rule(inst: Instruction) -> FactorRule:
    """Return the rule by which dimensions that are not taken whole give partial results."""
    rule = inst.spec.factors(inst)
    return rule.with_kinds({
        n: FactorKind.REDUCTION for n, factor in enumerate(rule.factors)
        if factor.kind is FactorKind.PERMUTATION
    })  # fmt: skip


@handles("dynamic-slice")
def _dynamic_slice(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    if inst.operands[0].shape.is_dynamic:
        return by_factors(b, inst, operands, wanted)
    starts = _scalars(b, operands[1:])

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], reduced: Axes
    ) -> list[Instruction]:
        x = parts[0]
        assert isinstance(x, Sharded)
        return [_slice_share(b, x, starts, inst.array_shape.dims)]

    return by_factors(b, inst, operands, wanted, OWNED, _slice_rule(inst), share)


def _slice_share(
    b: SpmdBuilder, x: Sharded, starts: Sequence[Instruction], sizes: Sequence[int]
) -> Instruction:
    """Return the slice with what a device has of it, and `no_value` elsewhere."""
    windows = _windows(b, x, starts, sizes)
    part = _part(b, x.local, windows)
    et = x.shape.element_type
    # What is no element of the slice lands in a margin on either side, which is cut off.
    margins = [w.size if w.ahead and n > 1 else 0 for w, n in zip(windows, sizes, strict=True)]
    if any(margins):
        dims = [n + 2 * m if m else w.size for w, n, m in zip(windows, sizes, margins, strict=True)]
        room = b.broadcast(no_value(b, et), array(et, dims))
        zero = b.constant(S32, 0)
        places = [
            b.op("add", w.ahead, b.constant(S32, m)) if w.ahead and m else zero
            for w, m in zip(windows, margins, strict=True)
        ]
        placed = b.op("dynamic-update-slice", room, part, *places)
        kept = tuple(SliceDim(m, d - m) for m, d in zip(margins, dims, strict=True))
        part = b.op("slice", placed, slice=kept)
    mine: Instruction | None = None
    for w, n in zip(windows, sizes, strict=True):
        if w.ahead and n == 1:
            mine = _both(b, mine, b.compare(w.ahead, b.constant(S32, 0), "EQ"))
    if mine is None:
        return part
    shape = part.array_shape
    none = b.broadcast(no_value(b, et), shape)
    return b.op("select", b.broadcast(mine, shape), part, none, shape=shape)


# --- dynamic-update-slice -------------------------------------------------------------------------


@handles("dynamic-update-slice")
def _dynamic_update_slice(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    if inst.shape.is_dynamic or inst.operands[1].shape.is_dynamic:
        return by_factors(b, inst, operands, wanted)
    starts = _scalars(b, operands[2:])

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], reduced: Axes
    ) -> list[Instruction]:
        x, update = parts[:2]
        assert isinstance(x, Sharded) and isinstance(update, Sharded)
        return [_update_share(b, x, update, starts)]

    return by_factors(b, inst, operands, wanted, share=share)


def _update_share(
    b: SpmdBuilder, x: Sharded, update: Sharded, starts: Sequence[Instruction]
) -> Instruction:
    """Return a device's shard with what falls into it of an update written."""
    sizes = update.shape.dims
    if 0 in sizes:
        return x.local
    windows = _windows(b, x, starts, sizes)
    taken = update.local
    margins = [w.size if w.ahead and n > 1 else 0 for w, n in zip(windows, sizes, strict=True)]
    if any(margins):
        zero = b.constant(S32, 0)
        padding = tuple(PadDim(m, m) for m in margins)
        padded = b.op("pad", taken, no_value(b, x.shape.element_type), padding=padding)
        places = [
            b.op("add", w.ahead, b.constant(S32, m)) if w.ahead and m else zero
            for w, m in zip(windows, margins, strict=True)
        ]
        dims = tuple(w.size for w in windows)
        taken = b.op("dynamic-slice", padded, *places, dynamic_slice_sizes=dims)
    shape = taken.array_shape
    mine: Instruction | None = None
    for d, (w, n) in enumerate(zip(windows, sizes, strict=True)):
        if w.ahead is None:
            continue
        if n == 1:
            here = b.broadcast(b.compare(w.ahead, b.constant(S32, 0), "EQ"), shape)
        else:
            numbers = array(S32, shape.dims)
            along = b.op("iota", shape=numbers, iota_dimension=d)
            at = b.op("add", along, b.broadcast(w.ahead, numbers))
            here = b.op(
                "and", b.compare(at, b.filled(S32, shape.dims, 0), "GE"),
                b.compare(at, b.filled(S32, shape.dims, n), "LT"),
            )  # fmt: skip
        mine = _both(b, mine, here)
    if mine is not None:
        # What is no element of the update keeps its value.
        taken = b.op("select", mine, taken, _part(b, x.local, windows), shape=shape)
    return b.op("dynamic-update-slice", x.local, taken, *(w.start for w in windows))
