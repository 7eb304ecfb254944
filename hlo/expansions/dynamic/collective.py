"""Collectives: arrays meet at their bounds, and results have the sizes of the operands.

The members of a group have operands of equal sizes. Where they have not, an error in the
interpreter, each takes its own. Along a dimension that is cut or put together, parts go at their
bounds with their sizes beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo.expansions.draft import expand
from hlo.expansions.dynamic.draft import SizedDraft, sized, unsupported, whole
from hlo.expansions.dynamic.sized import Size, Sized, Value
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.ops.attrs import SliceDim
from hlo.ops.collective.device_groups import device_groups
from hlo.values.types import S32, ArrayShape, TupleShape, array

# Their result is of what is sent and of what is received, with contexts behind.
_PAIRED = ("all-gather-start", "collective-permute-start")


@sized(
    "all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "all-to-all",
    "collective-broadcast", "collective-permute", "collective-permute-start",
    "collective-reduce", "reduce-scatter",
)  # fmt: skip
def _collective(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    alone = expand(inst)
    if alone is not None:
        return d.inlined(alone, args)
    if inst.slice_sizes_list:
        raise unsupported(inst, "buffers")
    data = args[:-1] if inst.has_dynamic_root else args
    # The dimension along which parts are put together, or apart.
    cut = inst.split_dimensions or ()
    if any(a.is_varying(dim) for a in data for dim in cut):
        return _in_varying_parts(d, inst, data, cut[0])
    made = whole(d, d.clone(inst, [d.at_bounds(a) for a in args]))
    if inst.opcode in _PAIRED:
        sent, received, *contexts = made
        return (_sized_like(sent, data, cut), _sized_like(received, data, cut), *contexts)
    return _sized_like(made, data, cut)


# --- parts of varying length ----------------------------------------------------------------------


def _in_varying_parts(d: SizedDraft, inst: Instruction, data: list[Sized], dim: int) -> Value:
    """Return the result of a collective along a dimension whose size varies.

    Parts are exchanged at their bounds, and their sizes beside them; those that arrive are put
    behind each other.
    """
    results = [_varying_part(d, inst, x, dim) for x in data]
    made = tuple(results) if len(results) > 1 or inst.split_dimensions is None else results[0]
    if inst.opcode != "all-gather-start":
        return made
    assert isinstance(inst.shape, TupleShape)
    sent = tuple(data) if len(data) > 1 else data[0]
    return sent, made, *map(d.zeros, inst.shape.elements[2:])


def _varying_part(d: SizedDraft, inst: Instruction, x: Sized, dim: int) -> Sized:
    opcode = inst.spec.starts or inst.opcode
    attrs = {key: value for key, value in inst.attrs.items() if key in OPS[opcode].attrs}
    module = inst.parent.module if inst.parent is not None else None
    counts = module.device_counts if module is not None else (1, 1)
    members = max((len(g) for g in device_groups(inst, counts)), default=1)
    bound, size = x.shape.dims[dim], d.size(x.sizes[dim])
    count = d.constant(S32, members)
    sizes = [*x.sizes]
    if opcode == "all-gather":
        part = bound
        whole = d.op(opcode, x.data, shape=_resized(x.shape, dim, bound * members), **attrs)
        told = d.op("reshape", size, shape=array(S32, (1,)))
    else:
        part = bound // members
        missing = d.op("remainder", size, count)
        message = f"dimension {dim} does not divide into {members} equal parts"
        d.need_at_most(missing, d.constant(S32, 0), message)
        size = d.op("divide", size, count)
        blocks = d.op(
            "concatenate", *(_block(d, x, dim, part, k, size) for k in range(members)),
            shape=_resized(x.shape, dim, part * members), dimensions=(dim,),
        )  # fmt: skip
        if opcode == "reduce-scatter":
            sizes[dim] = size
            own = d.op(opcode, blocks, shape=_resized(x.shape, dim, part), **attrs)
            return Sized(own, tuple(sizes))
        whole = d.op(opcode, blocks, shape=blocks.array_shape, **attrs)
        told = d.broadcast(size, array(S32, (members,)))
    theirs = d.op(opcode, told, shape=array(S32, (members,)), **{**attrs, "dimensions": (0,)})
    end: Size = 0
    made = whole
    for k in range(members):
        if k:
            piece = _cut_out(d, whole, dim, k * part, part)
            starts = [d.constant(S32, 0)] * x.shape.rank
            starts[dim] = d.size(end)
            made = d.op("dynamic-update-slice", made, piece, *starts, shape=made.shape)
        length = d.op("reshape", _cut_out(d, theirs, 0, k, 1), shape=array(S32, ()))
        end = length if not k else d.arithmetic("add", end, length)
    sizes[dim] = end
    return Sized(made, tuple(sizes))


def _resized(shape: ArrayShape, dim: int, size: int) -> ArrayShape:
    return replace(shape, dims=(*shape.dims[:dim], size, *shape.dims[dim + 1 :]))


def _block(
    d: SizedDraft, x: Sized, dim: int, part: int, number: int, size: Instruction
) -> Instruction:
    """Return part `number` of an array whose parts have a size, at its bound."""
    starts = [d.constant(S32, 0)] * x.shape.rank
    starts[dim] = d.op("multiply", size, d.constant(S32, number))
    shape = _resized(x.shape, dim, part)
    return d.op(
        "dynamic-slice", x.data, *starts, shape=shape, dynamic_slice_sizes=shape.dims
    )  # fmt: skip


def _cut_out(d: SizedDraft, x: Instruction, dim: int, start: int, size: int) -> Instruction:
    shape = _resized(x.array_shape, dim, size)
    limits = tuple(
        SliceDim(start, start + size) if n == dim else SliceDim(0, length)
        for n, length in enumerate(x.array_shape.dims)
    )
    return d.op("slice", x, shape=shape, slice=limits)


# --- in two steps ---------------------------------------------------------------------------------


@sized("all-reduce-done")
def _reduced(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    return args[0]


@sized("all-gather-done", "collective-permute-done")
def _received(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    assert isinstance(args[0], tuple)
    return args[0][1]


def _sized_like(made: Value, operands: Sequence[Sized], cut: Sequence[int]) -> Value:
    """Return results, each with the sizes of its operand but along the dimension that is cut."""
    if isinstance(made, tuple):
        return tuple(_sized_like(m, [x], cut) for m, x in zip(made, operands, strict=True))
    sizes = enumerate(operands[0].sizes)
    return Sized(made.data, tuple(made.shape.dims[n] if n in cut else size for n, size in sizes))
