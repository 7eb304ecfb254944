"""pad."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import PadDim, SliceDim
from hlo.passes.algsimp._match import (
    dims_of,
    is_empty,
    is_single_use,
    kept_dims,
    scalar_source,
    splat,
)
from hlo.passes.algsimp._rules import rule


@rule("pad", "pad(x, v) = x, for no padding")
def pad_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if dims_of(x) != dims_of(inst):
        return None
    # Padding that only moves elements has the same size, too.
    pads = zip(inst.padding, dims_of(x), strict=True)
    return (
        x if all(not p.low and not p.high and (not p.interior or n < 2) for p, n in pads) else None
    )


@rule("pad", "pad(x, v) = broadcast(v), for an empty x")
def pad_of_empty(inst: Instruction, b: Builder) -> Instruction | None:
    x, v = inst.operands
    return b.broadcast(v, inst.array_shape) if is_empty(x) and dims_of(inst) else None


@rule("pad", "pad(broadcast(v), v) = broadcast(v)", on="constant broadcast")
def pad_of_same_value(inst: Instruction, b: Builder) -> Instruction | None:
    x, v = inst.operands
    left, right = splat(x), splat(v)
    same = left is not None and right is not None and left.tobytes() == right.tobytes()
    if not same and scalar_source(x) is not v:
        return None
    return b.broadcast(v, inst.array_shape)


@rule("pad", "pad(x, v) = slice(x), for padding below zero only")
def pad_as_slice(inst: Instruction, b: Builder) -> Instruction | None:
    x, pads = inst.operands[0], inst.padding
    if any(p.low > 0 or p.high > 0 or p.interior for p in pads) or is_empty(x):
        return None
    if all(not p.low and not p.high for p in pads):
        return None
    slices = [SliceDim(-p.low, n + p.high) for p, n in zip(pads, dims_of(x), strict=True)]
    return b.op("slice", x, slice=tuple(slices))


@rule("pad", "pad(pad(x, v), v) = pad(x, v), for padding that is not negative", on="pad")
def pad_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner, v = inst.operands
    if inner.opcode != "pad":
        return None
    left, right = splat(inner.operands[1]), splat(v)
    same = left is not None and right is not None and left.tobytes() == right.tobytes()
    if not same and inner.operands[1] is not v:
        return None
    both = list(zip(inner.padding, inst.padding, strict=True))
    for first, second in both:
        if min(first.low, first.high, second.low, second.high) < 0 or second.interior:
            return None
    padding = tuple(PadDim(p.low + q.low, p.high + q.high, p.interior) for p, q in both)
    return b.op("pad", inner.operands[0], v, padding=padding)


@rule("pad", "pad(x, v) needs no interior in dimensions of size one")
def pad_between_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    x, v = inst.operands
    pads = inst.padding
    plain = tuple(
        PadDim(p.low, p.high) if n < 2 else p for p, n in zip(pads, dims_of(x), strict=True)
    )
    return None if plain == pads else b.op("pad", x, v, padding=plain)


@rule(
    "pad", "pad(reshape(x), v) = reshape(pad(x, v)), in dimensions that reshape keeps", on="reshape"
)
def pad_of_reshape(inst: Instruction, b: Builder) -> Instruction | None:
    """Only where reshape adds sizes of one that get no padding."""
    inner, v = inst.operands
    if inner.opcode != "reshape" or not is_single_use(inner):
        return None
    x, pads = inner.operands[0], inst.padding
    large = kept_dims(x), kept_dims(inner)
    if [dims_of(x)[d] for d in large[0]] != [dims_of(inner)[d] for d in large[1]]:
        return None
    if any(p != PadDim(0, 0) for d, p in enumerate(pads) if d not in large[1]):
        return None
    if inner.array_shape.rank <= x.array_shape.rank or is_empty(inst):
        return None
    padding = [PadDim(0, 0)] * x.array_shape.rank
    for old, new in zip(*large, strict=True):
        padding[old] = pads[new]
    return b.reshape(b.op("pad", x, v, padding=tuple(padding)), dims_of(inst))
