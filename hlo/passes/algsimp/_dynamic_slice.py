"""dynamic-slice and dynamic-update-slice: starts are clamped so that the slice lies inside."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.attrs import PadDim, SliceDim
from hlo.passes.algsimp._match import (
    dims_of,
    integer_splat,
    is_empty,
    is_single_use,
    is_splat,
    kept_dims,
    only_ones_differ,
    scalar_integers,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.values.types import array


def _starts(inst: Instruction) -> list[Instruction] | None:
    """Return the starts, a scalar a dimension; None for the older form, a vector of them all."""
    first = 1 if inst.opcode == "dynamic-slice" else 2
    operand, starts = inst.operands[0], inst.operands[first:]
    scalars = len(starts) == operand.array_shape.rank and all(not dims_of(s) for s in starts)
    return starts if scalars else None


def _sizes(inst: Instruction) -> tuple[int, ...]:
    """Return the sizes of the slice."""
    return dims_of(inst if inst.opcode == "dynamic-slice" else inst.operands[1])


def _clamped(starts: Sequence[int], sizes: Sequence[int], dims: Sequence[int]) -> list[int]:
    return [min(max(s, 0), n - k) for s, k, n in zip(starts, sizes, dims, strict=True)]


# --- starts -------------------------------------------------------------------------------------


@rule("dynamic-slice dynamic-update-slice", "the start of a slice of a whole dimension is 0")
def start_of_whole_dimension(inst: Instruction, b: Builder) -> Instruction | None:
    starts, dims, sizes = _starts(inst), dims_of(inst.operands[0]), _sizes(inst)
    if starts is None:
        return None
    idle = [n == k and not is_splat(s, 0) for s, n, k in zip(starts, dims, sizes, strict=True)]
    if not any(idle):
        return None
    new = [b.constant(type_of(s), 0) if i else s for s, i in zip(starts, idle, strict=True)]
    return b.op(inst.opcode, *inst.operands[: -len(starts)], *new, **inst.attrs)


@rule("dynamic-slice dynamic-update-slice", "a start clamped to what is inside need not be")
def start_clamped_before(inst: Instruction, b: Builder) -> Instruction | None:
    """clamp(0, i, n - k) is what the operation does itself, and so are looser bounds."""
    starts, dims, sizes = _starts(inst), dims_of(inst.operands[0]), _sizes(inst)
    if starts is None:
        return None
    new = [
        s.operands[1] if _is_idle_clamp(s, n - k) else s
        for s, n, k in zip(starts, dims, sizes, strict=True)
    ]
    if new == starts:
        return None
    return b.op(inst.opcode, *inst.operands[: -len(starts)], *new, **inst.attrs)


def _is_idle_clamp(inst: Instruction, last: int) -> bool:
    if inst.opcode != "clamp":
        return False
    low, _, high = (integer_splat(o) for o in inst.operands)
    return low is not None and high is not None and low <= 0 and high >= last and low <= high


# --- dynamic-slice ------------------------------------------------------------------------------


@rule("dynamic-slice", "dynamic-slice(x, i) = x, for all of x")
def dynamic_slice_of_all(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if dims_of(x) == dims_of(inst) else None


@rule("dynamic-slice", "dynamic-slice(x, c) = slice(x), for constants c")
def dynamic_slice_at_constant(inst: Instruction, b: Builder) -> Instruction | None:
    starts = _starts(inst)
    found = scalar_integers(starts) if starts is not None else None
    if found is None:
        return None
    x = inst.operands[0]
    at = _clamped(found, dims_of(inst), dims_of(x))
    slices = tuple(SliceDim(s, s + k) for s, k in zip(at, dims_of(inst), strict=True))
    return b.op("slice", x, slice=slices)


@rule("dynamic-slice", "dynamic-slice(broadcast(x), i) = broadcast(dynamic-slice(x, i))")
def dynamic_slice_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    inner, starts = inst.operands[0], _starts(inst)
    if inner.opcode != "broadcast" or starts is None:
        return None
    x, dims = inner.operands[0], inner.dimensions
    sizes = tuple(dims_of(inst)[d] for d in dims)
    if sizes != dims_of(x):
        x = b.op("dynamic-slice", x, *(starts[d] for d in dims), dynamic_slice_sizes=sizes)
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", x, shape=shape, dimensions=dims)


@rule("dynamic-slice", "dynamic-slice(dynamic-slice(x, i), j) = dynamic-slice(x, k)")
def dynamic_slice_twice(inst: Instruction, b: Builder) -> Instruction | None:
    """In each dimension one of them is a full slice, so that k is i or j."""
    inner, outer_starts = inst.operands[0], _starts(inst)
    inner_starts = _starts(inner) if inner.opcode == "dynamic-slice" else None
    if inner_starts is None or outer_starts is None:
        return None
    if any(type_of(s) is not type_of(inner_starts[0]) for s in outer_starts):
        return None
    x, starts = inner.operands[0], []
    for d, (i, j) in enumerate(zip(inner_starts, outer_starts, strict=True)):
        if dims_of(inner)[d] == dims_of(x)[d]:
            starts.append(j)
        elif dims_of(inst)[d] == dims_of(inner)[d]:
            starts.append(i)
        else:
            return None
    return b.op("dynamic-slice", x, *starts, dynamic_slice_sizes=dims_of(inst))


@rule("dynamic-slice", "dynamic-slice(dynamic-update-slice(x, u, i), i) = u, for u's size")
def dynamic_slice_of_update(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "dynamic-update-slice" or inst.operands[1:] != inner.operands[2:]:
        return None
    u = inner.operands[1]
    return u if dims_of(u) == dims_of(inst) else None


@rule("dynamic-slice", "dynamic-slice(transpose(x), i) = transpose(dynamic-slice(x, i))")
def dynamic_slice_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    inner, starts = inst.operands[0], _starts(inst)
    if inner.opcode != "transpose" or starts is None or not is_single_use(inner):
        return None
    dims = inner.dimensions
    order = [dims.index(d) for d in range(len(dims))]
    sizes = tuple(dims_of(inst)[d] for d in order)
    part = b.op(
        "dynamic-slice", inner.operands[0], *(starts[d] for d in order), dynamic_slice_sizes=sizes
    )
    return b.op("transpose", part, dimensions=dims)


@rule("dynamic-slice", "dynamic-slice(reshape(x), i) = reshape(dynamic-slice(x, i)), for ones only")
def dynamic_slice_of_reshape(inst: Instruction, b: Builder) -> Instruction | None:
    """Where only sizes of one come and go, whose starts are always 0."""
    inner, starts = inst.operands[0], _starts(inst)
    if inner.opcode != "reshape" or starts is None or not is_single_use(inner):
        return None
    x = inner.operands[0]
    if not only_ones_differ(dims_of(x), dims_of(inner)):
        return None
    at = dict(zip(kept_dims(x), kept_dims(inner), strict=True))
    if not at:
        return None
    zero = b.constant(type_of(starts[0]), 0)
    new = [starts[at[d]] if d in at else zero for d in range(x.array_shape.rank)]
    sizes = tuple(dims_of(inst)[at[d]] if d in at else 1 for d in range(x.array_shape.rank))
    if inst.array_shape.num_elements != math.prod(sizes):
        return None  # a size of one that is sliced away
    part = b.op("dynamic-slice", x, *new, dynamic_slice_sizes=sizes)
    return b.reshape(part, dims_of(inst))


# --- dynamic-update-slice -----------------------------------------------------------------------


@rule("dynamic-update-slice", "dynamic-update-slice(x, u, i) = u, for u of x's size")
def update_of_all(inst: Instruction, b: Builder) -> Instruction | None:
    x, u = inst.operands[:2]
    return u if dims_of(x) == dims_of(u) else None


@rule("dynamic-update-slice", "dynamic-update-slice(x, u, i) = x, for an empty u")
def update_of_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    x, u = inst.operands[:2]
    return x if is_empty(u) else None


@rule("dynamic-update-slice", "dynamic-update-slice(x, dynamic-slice(x, i), i) = x")
def update_with_own_slice(inst: Instruction, b: Builder) -> Instruction | None:
    x, u = inst.operands[:2]
    if u.opcode != "dynamic-slice" or u.operands[0] is not x:
        return None
    return x if u.operands[1:] == inst.operands[2:] else None


@rule("dynamic-update-slice", "an update of x at i makes an earlier one of its size there idle")
def update_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner, u = inst.operands[:2]
    if inner.opcode != "dynamic-update-slice" or inner.operands[2:] != inst.operands[2:]:
        return None
    if dims_of(inner.operands[1]) != dims_of(u):
        return None
    return b.op("dynamic-update-slice", inner.operands[0], *inst.operands[1:])


@rule(
    "dynamic-update-slice", "dynamic-update-slice(broadcast(v), u, c) = pad(u, v), for constants c"
)
def update_of_scalar_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    x, u = inst.operands[:2]
    starts = _starts(inst)
    found = scalar_integers(starts) if starts is not None else None
    if found is None or x.opcode != "broadcast" or dims_of(x.operands[0]):
        return None
    at = _clamped(found, dims_of(u), dims_of(x))
    padding = tuple(
        PadDim(s, n - s - k) for s, k, n in zip(at, dims_of(u), dims_of(x), strict=True)
    )
    return b.op("pad", u, x.operands[0], padding=padding)
