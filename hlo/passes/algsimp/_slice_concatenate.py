"""slice and concatenate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import PadDim, SliceDim
from hlo.passes.algsimp._match import (
    dims_of,
    is_empty,
    is_single_use,
    kept_dims,
    scalar_integers,
    scalar_source,
    splat,
    type_of,
)
from hlo.passes.algsimp._reshape_transpose import matched_groups
from hlo.passes.algsimp._rules import rule
from hlo.values.types import array

Slices = Sequence[SliceDim]


def _slice(b: Builder, x: Instruction, slices: Slices) -> Instruction:
    """Append a slice, if one is needed."""
    if all(s == SliceDim(0, n, 1) for s, n in zip(slices, dims_of(x), strict=True)):
        return x
    return b.op("slice", x, slice=tuple(slices))


def _span(s: SliceDim) -> tuple[int, int]:
    """Return the first and the last index that a slice of at least one element takes."""
    return s.start, s.start + (s.limit - 1 - s.start) // s.stride * s.stride


# --- slice --------------------------------------------------------------------------------------


@rule("slice", "slice(x) = x, for all of x")
def slice_of_all(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if dims_of(x) == dims_of(inst) else None


@rule("slice", "slice(x, i:i+1:s) = slice(x, i:i+1), which needs no stride")
def slice_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    slices = tuple(
        SliceDim(s.start, s.start + 1) if size == 1 else s
        for s, size in zip(inst.slice, dims_of(inst), strict=True)
    )
    if slices == inst.slice:
        return None
    return b.op("slice", inst.operands[0], slice=slices)


@rule("slice", "slice(slice(x)) = slice(x)", on="slice")
def slice_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "slice" or is_empty(inst):
        return None
    slices = []
    for outer, first in zip(inst.slice, inner.slice, strict=True):
        low, high = (first.start + i * first.stride for i in _span(outer))
        slices.append(SliceDim(low, high + 1, outer.stride * first.stride))
    return b.op("slice", inner.operands[0], slice=tuple(slices))


@rule("slice", "slice(broadcast(x)) = broadcast(slice(x))", on="broadcast")
def slice_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "broadcast":
        return None
    dims = inner.dimensions
    part = _slice(b, inner.operands[0], [inst.slice[d] for d in dims])
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", part, shape=shape, dimensions=dims)


@rule("slice", "slice(iota) = iota, from the first number on without gaps", on="iota")
def slice_of_iota(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if x.opcode != "iota":
        return None
    along = x.iota_dimension
    s = inst.slice[along]
    if s.start or s.stride != 1:
        return None
    return b.op("iota", shape=array(type_of(inst), dims_of(inst)), iota_dimension=along)


@rule(
    "slice",
    "slice(concatenate(x, y)) = slice(x), where it takes nothing of the others",
    on="concatenate",
)
def slice_of_concatenate(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "concatenate" or is_empty(inst):
        return None
    along = inner.dimensions[0]
    low, high = _span(inst.slice[along])
    at = 0
    for x in inner.operands:
        size = dims_of(x)[along]
        if at <= low < at + size:
            if high >= at + size:
                return None
            slices = list(inst.slice)
            slices[along] = SliceDim(low - at, high - at + 1, slices[along].stride)
            return _slice(b, x, slices)
        at += size
    return None


@rule("slice", "slice(concatenate(x, y)) = concatenate(slice(x), slice(y)), if slices are apart",
      on="concatenate")  # fmt: skip
def slice_of_several(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "concatenate" or is_empty(inst) or inner.is_root:
        return None
    along = inner.dimensions[0]
    wanted = inst.slice[along]
    # What is not needed any more must not be computed twice instead.
    if wanted.stride != 1 or any(u.opcode != "slice" for u in inner.users):
        return None
    spans = sorted(_span(u.slice[along]) for u in inner.users)
    if any(end >= start for (_, end), (start, _) in pairwise(spans)):
        return None
    parts, at = [], 0
    for x in inner.operands:
        size = dims_of(x)[along]
        low, high = max(wanted.start - at, 0), min(wanted.limit - at, size)
        at += size
        if low < high:
            slices = list(inst.slice)
            slices[along] = SliceDim(low, high, 1)
            parts.append(_slice(b, x, slices))
    return b.op("concatenate", *parts, **inner.attrs)


@rule("slice", "slice(pad(x, v)) = slice(x), where it takes no padding", on="pad")
def slice_of_pad(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "pad" or is_empty(inst):
        return None
    x, slices = inner.operands[0], []
    for s, p, n in zip(inst.slice, inner.padding, dims_of(x), strict=True):
        low, high = (i - p.low for i in _span(s))
        if p.interior or low < 0 or high >= n:
            return None
        slices.append(SliceDim(low, high + 1, s.stride))
    return _slice(b, x, slices)


@rule("slice", "slice(pad(x, v)) = broadcast(v), where it takes nothing of x", on="pad")
def slice_of_padding(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "pad" or is_empty(inst):
        return None
    x, v = inner.operands
    for s, p, n in zip(inst.slice, inner.padding, dims_of(x), strict=True):
        low, high = _span(s)
        end = p.low + max(n - 1, 0) * (p.interior + 1)
        if high < p.low or low > end or not n:
            return b.broadcast(v, inst.array_shape)
    return None


@rule("slice", "slice(reverse(x)) = reverse(slice(x))", on="reverse")
def slice_of_reverse(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "reverse" or is_empty(inst) or not is_single_use(inner):
        return None
    x, slices = inner.operands[0], list(inst.slice)
    for d in inner.dimensions:
        low, high = (dims_of(x)[d] - 1 - i for i in reversed(_span(slices[d])))
        slices[d] = SliceDim(low, high + 1, slices[d].stride)
    return b.op("reverse", _slice(b, x, slices), dimensions=inner.dimensions)


@rule("slice", "slice(transpose(x)) = transpose(slice(x))", on="transpose")
def slice_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "transpose" or not is_single_use(inner):
        return None
    dims = inner.dimensions
    slices = [inst.slice[dims.index(d)] for d in range(len(dims))]
    return b.op("transpose", _slice(b, inner.operands[0], slices), dimensions=dims)


@rule(
    "slice", "slice(reshape(x)) = reshape(slice(x)), in dimensions that reshape keeps", on="reshape"
)
def slice_of_reshape(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "reshape" or not is_single_use(inner):
        return None
    x = inner.operands[0]
    groups = matched_groups(dims_of(x), dims_of(inner))
    if groups is None or is_empty(inst):
        return None
    slices = [SliceDim(0, n) for n in dims_of(x)]
    for old, new in groups:
        large = [d for d in new if dims_of(inner)[d] != 1]
        cut = [d for d in large if dims_of(inst)[d] != dims_of(inner)[d]]
        source = [d for d in old if dims_of(x)[d] != 1]
        if cut and (len(large) != 1 or len(source) != 1):
            return None
        if cut:
            slices[source[0]] = inst.slice[cut[0]]
    return b.reshape(_slice(b, x, slices), dims_of(inst))


@rule(
    "slice",
    "slice(dynamic-update-slice(x, u, i)) = slice(x) or slice(u), for constant i",
    on="dynamic-update-slice",
)
def slice_of_update(inst: Instruction, b: Builder) -> Instruction | None:
    """It takes nothing of u, or nothing else."""
    inner = inst.operands[0]
    if inner.opcode != "dynamic-update-slice" or is_empty(inst):
        return None
    x, u = inner.operands[:2]
    starts = scalar_integers(inner.operands[2:])
    if starts is None or len(starts) != x.array_shape.rank or is_empty(u):
        return None
    inside: list[SliceDim] = []
    for s, at, n, size in zip(inst.slice, starts, dims_of(x), dims_of(u), strict=True):
        start = min(max(at, 0), n - size)
        low, high = (i - start for i in _span(s))
        if high < 0 or low >= size:
            return _slice(b, x, inst.slice)
        if low < 0 or high >= size:
            inside = []
            break
        inside.append(SliceDim(low, high + 1, s.stride))
    return _slice(b, u, inside) if len(inside) == len(starts) else None


# --- concatenate --------------------------------------------------------------------------------


@rule("concatenate", "concatenate(x) = x")
def concatenate_one(inst: Instruction, b: Builder) -> Instruction | None:
    return inst.operands[0] if len(inst.operands) == 1 else None


@rule("concatenate", "concatenate(x, empty) = concatenate(x)")
def concatenate_empty(inst: Instruction, b: Builder) -> Instruction | None:
    along = inst.dimensions[0]
    rest = [x for x in inst.operands if dims_of(x)[along]]
    if not rest or len(rest) == len(inst.operands):
        return None
    return b.op("concatenate", *rest, **inst.attrs)


# Merging is linear in the operands, for each enclosing concatenation again.
_MAX_JOINED = 64


@rule("concatenate", "concatenate(concatenate(x, y), z) = concatenate(x, y, z)", on="concatenate")
def concatenate_flat(inst: Instruction, b: Builder) -> Instruction | None:
    operands: list[Instruction] = []
    for x in inst.operands:
        joins = x.opcode == "concatenate" and x.attrs == inst.attrs and is_single_use(x)
        operands += x.operands if joins else [x]
    if len(operands) == len(inst.operands) or len(operands) > _MAX_JOINED:
        return None
    return b.op("concatenate", *operands, **inst.attrs)


@rule("concatenate", "concatenate(slice(x, i:j), slice(x, j:k)) = slice(x, i:k)", on="slice")
def concatenate_of_slices(inst: Instruction, b: Builder) -> Instruction | None:
    along = inst.dimensions[0]
    operands: list[Instruction] = []
    for x in inst.operands:
        joined = _joined(operands[-1], x, along, b) if operands else None
        if joined is None:
            operands.append(x)
        else:
            operands[-1] = joined
    if len(operands) == len(inst.operands):
        return None
    return operands[0] if len(operands) == 1 else b.op("concatenate", *operands, **inst.attrs)


def _joined(left: Instruction, right: Instruction, along: int, b: Builder) -> Instruction | None:
    if left.opcode != "slice" or right.opcode != "slice" or left.operands != right.operands:
        return None
    slices = list(left.slice)
    a, c = slices[along], right.slice[along]
    if a.start == a.limit or c.start == c.limit:
        return None
    others = (d for d in range(len(slices)) if d != along)
    if any(slices[d] != right.slice[d] for d in others):
        return None
    # A slice of one element has any stride.
    strides = [s.stride for s in (a, c) if s.limit - s.start > s.stride]
    stride = strides[0] if strides else c.start - _span(a)[1]
    if any(s != stride for s in strides) or stride < 1 or c.start - _span(a)[1] != stride:
        return None
    slices[along] = SliceDim(a.start, _span(c)[1] + 1, stride)
    return b.op("slice", left.operands[0], slice=tuple(slices))


@rule(
    "concatenate",
    "concatenate(broadcast(x), broadcast(x)) = broadcast(x), for a scalar x",
    on="broadcast",
)
def concatenate_of_broadcasts(inst: Instruction, b: Builder) -> Instruction | None:
    first = inst.operands[0]
    if first.opcode != "broadcast" or dims_of(first.operands[0]):
        return None
    scalar, value = first.operands[0], splat(first)
    for x in inst.operands[1:]:
        if x.opcode == "broadcast" and x.operands[0] is scalar:
            continue
        other = splat(x)
        if value is None or other is None or other.tobytes() != value.tobytes():
            return None
    return b.broadcast(scalar, inst.array_shape)


@rule("concatenate", "concatenate(x, x, ...) = broadcast(x), along a dimension of size one")
def concatenate_of_same(inst: Instruction, b: Builder) -> Instruction | None:
    x, along = inst.operands[0], inst.dimensions[0]
    if len(inst.operands) < 2 or dims_of(x)[along] != 1 or any(y is not x for y in inst.operands):
        return None
    rest = [d for d in range(x.array_shape.rank) if d != along]
    small = b.reshape(x, [dims_of(x)[d] for d in rest])
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", small, shape=shape, dimensions=tuple(rest))


@rule("concatenate", "concatenate(x, broadcast(v)) = pad(x, v), for a scalar v", on="broadcast")
def concatenate_as_pad(inst: Instruction, b: Builder) -> Instruction | None:
    if len(inst.operands) not in (2, 3):
        return None
    sides = [scalar_source(x) for x in inst.operands]
    middle = [n for n, v in enumerate(sides) if v is None]
    if len(middle) != 1:
        return None
    at, along = middle[0], inst.dimensions[0]
    before, after = sides[:at], sides[at + 1 :]
    values = [v for v in (*before, *after) if v is not None]
    if len(before) > 1 or len(after) > 1 or any(v is not values[0] for v in values):
        return None
    low, high = (
        sum(dims_of(x)[along] for x in part)
        for part in (inst.operands[:at], inst.operands[at + 1 :])
    )
    padding = [PadDim(0, 0)] * inst.array_shape.rank
    padding[along] = PadDim(low, high)
    return b.op("pad", inst.operands[at], values[0], padding=tuple(padding))


@rule(
    "concatenate",
    "concatenate(op(x), op(y)) = op(concatenate(x, y)), for reshape of ones",
    on="reshape",
)
def concatenate_of_reshapes(inst: Instruction, b: Builder) -> Instruction | None:
    """Where every operand loses or gains the same sizes of one elsewhere."""
    if len(inst.operands) < 2 or any(
        x.opcode != "reshape" or not is_single_use(x) for x in inst.operands
    ):
        return None
    along = inst.dimensions[0]
    sources = [x.operands[0] for x in inst.operands]
    places = set()
    for x, y in zip(sources, inst.operands, strict=True):
        if dims_of(y)[along] == 1 or 0 in dims_of(y):
            return None
        large = kept_dims(x), kept_dims(y)
        if [dims_of(x)[d] for d in large[0]] != [dims_of(y)[d] for d in large[1]]:
            return None
        at = large[0][large[1].index(along)]
        places.add((at, (*dims_of(x)[:at], -1, *dims_of(x)[at + 1 :])))
    if len(places) != 1:
        return None
    joined = b.op("concatenate", *sources, dimensions=(places.pop()[0],))
    return b.reshape(joined, dims_of(inst))
