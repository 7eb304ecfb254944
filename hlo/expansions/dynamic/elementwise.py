"""Elementwise operations, and those that make, read and check sizes.

Operands come at their bounds, with sizes. `hlo.eval.dynamic_rules` says what each operation means.
"""

from __future__ import annotations

from hlo.expansions.dynamic.draft import SizedDraft, sized
from hlo.expansions.dynamic.sized import Size, Sized, Value, declared_flags, static_array
from hlo.ir import Instruction
from hlo.ops import OPS, Trait
from hlo.ops.attrs import PadDim, SliceDim
from hlo.values.types import array


@sized("map", *(name for name, spec in OPS.items() if spec.has(Trait.ELEMENTWISE)))
def _elementwise(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Operands meet in the smallest size; a dynamic dimension of size one goes with any other."""
    rank = len(static_array(inst.shape).dims)
    full = [n for n, a in enumerate(args) if len(a.sizes) == rank]
    operands = [a.data for a in args]
    sizes: list[Size] = []
    for dim in range(rank):
        varying = dict.fromkeys(args[n].sizes[dim] for n in full if args[n].is_varying(dim))
        if not varying:
            sizes.append(args[full[0]].sizes[dim])
            continue
        size, *others = varying
        for other in others:
            least = d.arithmetic("minimum", size, other)
            most = d.arithmetic("maximum", size, other)
            size = d.op("select", d.is_equal(least, 1), d.size(most), d.size(least))
        sizes.append(size)
        if others:
            for n in full:
                if args[n].is_varying(dim):
                    operands[n] = _spread(d, operands[n], dim, args[n].sizes[dim])
    return Sized(d.clone(inst, operands), tuple(sizes))


def _spread(d: SizedDraft, x: Instruction, dim: int, size: Size) -> Instruction:
    """Return an array with its first element along a dimension everywhere if there is only one."""
    shape = static_array(x.shape)
    if not shape.dims[dim]:
        return x
    parts = tuple(SliceDim(0, 1 if n == dim else bound) for n, bound in enumerate(shape.dims))
    dims = tuple(n for n in range(shape.rank) if n != dim)
    kept = array(shape.element_type, [shape.dims[n] for n in dims])
    one = array(shape.element_type, [1 if n == dim else shape.dims[n] for n in range(shape.rank)])
    first = d.op("reshape", d.op("slice", x, shape=one, slice=parts), shape=kept)
    everywhere = d.op("broadcast", first, shape=shape, dimensions=dims)
    alone = d.broadcast(d.is_equal(size, 1), shape)
    return d.op("select", alone, everywhere, x, shape=shape)


# --- sizes --------------------------------------------------------------------------------------


@sized("get-dimension-size")
def _get_size(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    return Sized(d.size(args[0].sizes[inst.dimensions[0]]), ())


@sized("set-dimension-size")
def _set_size(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, n = args
    (dim,) = inst.dimensions
    sizes, before, bound = list(x.sizes), x.sizes[dim], x.shape.dims[dim]
    sizes[dim] = d.checked(n.data, bound, dim)
    data = x.data
    if before not in (bound, sizes[dim]):
        # What comes back is zero, whatever had been there.
        kept = [before if k == dim else m for k, m in enumerate(x.shape.dims)]
        data = d.covered(data, kept, d.zero(x.shape.element_type))
    return Sized(data, tuple(sizes))


@sized("PadToStatic")
def _pad_to_static(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    (x,) = args
    data = d.covered(x.data, x.sizes, d.zero(x.shape.element_type))
    return (Sized(data, x.shape.dims), *(Sized(d.size(n), ()) for n in x.sizes))


@sized("SliceToDynamic")
def _slice_to_dynamic(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, *sizes = args
    bounds, et = static_array(inst.shape).dims, x.shape.element_type
    least = map(min, x.shape.dims, bounds)
    kept = tuple(
        d.checked(n.data, bound, dim) if varies else d.known(n.data, bound, dim)
        for dim, (n, bound, varies) in enumerate(
            zip(sizes, least, declared_flags(inst.shape), strict=True)
        )
    )
    if x.shape.dims == bounds:
        return Sized(x.data, kept)
    padding = tuple(PadDim(0, b - n) for n, b in zip(x.shape.dims, bounds, strict=True))
    data = d.op("pad", x.data, d.constant(et, 0), padding=padding)
    return Sized(data, kept)
