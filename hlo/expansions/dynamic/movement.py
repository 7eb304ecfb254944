"""Operations that move elements: slices, gathers, updates, concatenations.

Operands come at their bounds, with sizes. `hlo.eval.dynamic_rules` says what each operation means.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.expansions.dynamic.draft import SizedDraft, shared_size, sized, unsupported, zero
from hlo.expansions.dynamic.sized import Size, Sized, Value, static_array
from hlo.ir import Instruction
from hlo.ops.attrs import PadDim, SliceDim
from hlo.ops.movement.gather_scatter import index_dims
from hlo.values.types import S32, integer_range


@sized("transpose")
def _transpose(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    sizes = tuple(args[0].sizes[n] for n in inst.dimensions)
    return Sized(d.clone(inst, [args[0].data]), sizes)


@sized("broadcast")
def _broadcast(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    sizes: list[Size] = list(static_array(inst.shape).dims)
    for dim, n in zip(inst.dimensions, args[0].sizes, strict=True):
        sizes[dim] = n
    return Sized(d.clone(inst, [args[0].data]), tuple(sizes))


@sized("reverse")
def _reverse(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Reversed at the bounds, what is meant is at the end: move it to the front."""
    x = args[0]
    data = d.clone(inst, [x.data])
    for dim in inst.dimensions:
        if x.is_varying(dim):
            start = d.arithmetic("subtract", x.shape.dims[dim], x.sizes[dim])
            data = _from(d, data, dim, d.size(start))
    return Sized(data, x.sizes)


def _from(d: SizedDraft, x: Instruction, dim: int, start: Instruction) -> Instruction:
    """Return an array moved forward along a dimension; zeros follow."""
    shape = static_array(x.shape)
    padding = tuple(PadDim(0, n if at == dim else 0) for at, n in enumerate(shape.dims))
    wide = d.op("pad", x, zero(d, shape.element_type), padding=padding)
    starts = [start if at == dim else d.constant(S32, 0) for at in range(shape.rank)]
    return d.op("dynamic-slice", wide, *starts, dynamic_slice_sizes=shape.dims, shape=shape)


@sized("pad")
def _pad(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, fill = args
    sizes: list[Size] = []
    for n, p in zip(x.sizes, inst.padding, strict=True):
        holes = d.arithmetic("maximum", d.arithmetic("subtract", n, 1), 0)
        grown = d.arithmetic("add", n, d.arithmetic("multiply", holes, p.interior))
        grown = d.arithmetic("add", grown, p.low + p.high)
        sizes.append(d.arithmetic("maximum", grown, 0) if p.low + p.high < 0 else grown)
    data = d.covered(x.data, x.sizes, fill.data)
    return Sized(d.clone(inst, [data, fill.data]), tuple(sizes))


@sized("slice")
def _slice(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """What is whole stays whole; a slice of a part is of fixed size and may hold padding."""
    x, result = args[0], static_array(inst.shape)
    sizes = tuple(
        n if s == SliceDim(0, bound) else kept
        for s, n, bound, kept in zip(inst.slice, x.sizes, x.shape.dims, result.dims, strict=True)
    )
    return Sized(d.clone(inst, [x.data]), sizes)


def _whole_or_fixed(x: Sized, sizes: Sequence[int]) -> list[Size]:
    """Return window sizes: all of a dimension stays all of it."""
    return [
        n if size == bound else size
        for size, bound, n in zip(sizes, x.shape.dims, x.sizes, strict=True)
    ]


@sized("dynamic-slice")
def _dynamic_slice(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    sizes = _whole_or_fixed(args[0], inst.dynamic_slice_sizes)
    return Sized(d.clone(inst, [args[0].data, *_starts(d, args[1:])]), tuple(sizes))


def _starts(d: SizedDraft, args: Sequence[Sized]) -> list[Instruction]:
    """Return the starts of a slice: those that a vector of dynamic size does not have are 0."""
    return [d.covered(a.data, a.sizes, zero(d, a.shape.element_type)) for a in args]


@sized("gather")
def _gather(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, indices = args
    window = _whole_or_fixed(x, inst.slice_sizes)
    offsets = iter([window[dim] for dim in index_dims(inst).window_dims(len(window))])
    batch = iter([n for dim, n in enumerate(indices.sizes) if dim != inst.index_vector_dim])
    rank = static_array(inst.shape).rank
    sizes = tuple(next(offsets if n in inst.offset_dims else batch) for n in range(rank))
    # All of a dimension that has no elements is zeros where the result is without the dimension.
    without = {*inst.collapsed_slice_dims, *inst.operand_batching_dims}
    held = [
        n if dim in without and not isinstance(n, int) else x.shape.dims[dim]
        for dim, n in enumerate(window)
    ]
    data = d.covered(x.data, held, zero(d, x.shape.element_type))
    return Sized(d.clone(inst, [data, indices.data]), sizes)


@sized("concatenate")
def _concatenate(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Write one operand behind the other: each covers the padding of the one before."""
    (axis,) = inst.dimensions
    sizes = [
        shared_size(d, [a.sizes[dim] for a in args]) if dim != axis else 0
        for dim in range(len(args[0].sizes))
    ]
    end: Size = args[0].sizes[axis]
    data = d.clone(inst, [a.data for a in args])
    for a in args[1:]:
        if not isinstance(end, int):
            starts = [d.constant(S32, 0)] * len(sizes)
            starts[axis] = end
            data = d.op("dynamic-update-slice", data, a.data, *starts)
        end = d.arithmetic("add", end, a.sizes[axis])
    sizes[axis] = end
    return Sized(data, tuple(sizes))


@sized("dynamic-update-slice")
def _dynamic_update_slice(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Write what is meant of the update; the start is kept inside by the bounds."""
    x, update, *starts = args
    places = _starts(d, starts)
    new = update.data
    there = d.meant(update.shape, update.sizes)
    if there is not None:
        old = d.op("dynamic-slice", x.data, *places, dynamic_slice_sizes=update.shape.dims)
        new = d.op("select", there, new, old, shape=update.shape)
    # An update of a whole dimension sets its size.
    sizes = tuple(
        update.sizes[dim] if update.is_varying(dim) and update.shape.dims[dim] == bound else n
        for dim, (n, bound) in enumerate(zip(x.sizes, x.shape.dims, strict=True))
    )
    return Sized(d.clone(inst, [x.data, new, *places]), sizes)


@sized("scatter")
def _scatter(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Send updates that are not meant to a place outside, where they are dropped."""
    count = len(args) // 2
    operands, indices, updates = args[:count], args[count], args[count + 1 :]
    at = inst.index_vector_dim
    for u in updates:
        if any(u.is_varying(dim) for dim in inst.update_window_dims):
            raise unsupported(inst, "update windows")
    index_dims = [dim for dim in range(len(indices.sizes)) if dim != at]
    update_dims = [
        dim for dim in range(len(updates[0].sizes)) if dim not in inst.update_window_dims
    ]
    sizes: list[Size] = list(indices.shape.dims)
    for i, u in zip(index_dims, update_dims, strict=True):
        sizes[i] = shared_size(d, [indices.sizes[i], *(x.sizes[u] for x in updates)])
    et = indices.shape.element_type
    if not inst.scatter_dims_to_operand_dims and any(not isinstance(n, int) for n in sizes):
        raise unsupported(inst, "updates without an index")
    low, high = integer_range(et)
    outside = d.constant(et, -1 if low < 0 else high)
    where = d.covered(indices.data, sizes, outside)
    made = d.clone(inst, [*(x.data for x in operands), where, *(u.data for u in updates)])
    if count == 1:
        return Sized(made, operands[0].sizes)
    return tuple(
        Sized(d.op("get-tuple-element", made, index=n), x.sizes) for n, x in enumerate(operands)
    )
