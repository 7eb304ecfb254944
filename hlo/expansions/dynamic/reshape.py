"""Reshapes: elements keep their order among those that are meant.

Operands come at their bounds, with sizes. `hlo.eval.dynamic_rules` says what each operation means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.expansions.dynamic.draft import SizedDraft, sized, unsupported
from hlo.expansions.dynamic.sized import Size, Sized, Value, static_array
from hlo.ir import Instruction
from hlo.ops.movement.reshape_groups import dimension_groups, varying_dimension
from hlo.values.types import S32, ArrayShape, array


@sized("reshape")
def _reshape(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, result = args[0], static_array(inst.shape)
    sizes: list[Size] = list(result.dims)
    is_moved = False
    groups = dimension_groups(x.shape.dims, result.dims) if result.num_elements else ()
    for ins, outs in groups:
        varying = [i for i in ins if x.is_varying(i)]
        if not varying or not outs:
            continue
        dim = varying_dimension(inst, outs)
        if len(outs) == len(ins) == 1:
            sizes[dim] = x.sizes[ins[0]]
            continue
        there: Size = 1
        for i in ins:
            there = d.arithmetic("multiply", there, x.sizes[i])
        whole_ = math.prod(x.shape.dims[i] for i in ins)
        taken = d.arithmetic("multiply", result.dims[dim], there)
        sizes[dim] = d.arithmetic("divide", taken, whole_)
        # Elements keep their places if only the slowest dimensions vary.
        is_moved |= varying != [next(i for i in ins if x.shape.dims[i] != 1)]
        is_moved |= dim != next(o for o in outs if result.dims[o] != 1)
    if not is_moved:
        return Sized(d.clone(inst, [x.data]), tuple(sizes))
    return Sized(_repacked(d, x, result, sizes), tuple(sizes))


@sized("dynamic-reshape")
def _dynamic_reshape(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, *given = args
    result, declared = static_array(inst.shape), inst.array_shape
    sizes: list[Size] = [
        d.checked(n.data, bound, dim) if declared.is_dynamic_dim(dim) else bound
        for dim, (n, bound) in enumerate(zip(given, result.dims, strict=True))
    ]
    return Sized(_repacked(d, x, result, sizes), tuple(sizes))


def _repacked(d: SizedDraft, x: Sized, result: ArrayShape, sizes: Sequence[Size]) -> Instruction:
    """Return elements in row-major order of what is meant on both sides, by looking each up."""
    count = x.shape.num_elements
    if not count or not result.num_elements:
        return d.op("reshape", x.data, shape=result)
    line = array(S32, [result.num_elements])

    def each(n: Size) -> Instruction:
        return d.broadcast(d.size(n), line)

    def binary(opcode: str, a: Instruction, b: Instruction) -> Instruction:
        return d.op(opcode, a, b, shape=line)

    # Where each place of the result is in the result, without its padding.
    place = d.op("iota", shape=line, iota_dimension=0)
    left, at = place, each(0)
    step: Size = 1
    for dim in reversed(range(result.rank)):
        bound = each(result.dims[dim])
        at = binary("add", at, binary("multiply", binary("remainder", left, bound), each(step)))
        left = binary("divide", left, bound)
        step = d.arithmetic("multiply", step, sizes[dim])
    # And where that is in the operand, with padding.
    source, stride = each(0), 1
    for dim in reversed(range(x.shape.rank)):
        n = each(d.arithmetic("maximum", x.sizes[dim], 1))
        index = binary("remainder", at, n)
        source = binary("add", source, binary("multiply", index, each(stride)))
        at = binary("divide", at, n)
        stride *= x.shape.dims[dim]
    flat = d.op("reshape", x.data, shape=array(x.shape.element_type, [count]))
    found = d.op(
        "gather", flat, source, shape=array(x.shape.element_type, [result.num_elements]),
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1,
        slice_sizes=(1,),
    )  # fmt: skip
    return d.op("reshape", found, shape=result)


@sized("bitcast-convert")
def _bitcast_convert(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, result = args[0], static_array(inst.shape)
    sizes = (*x.sizes, *result.dims[len(x.sizes) :])[: result.rank]
    return Sized(d.clone(inst, [x.data]), sizes)


@sized("bitcast")
def _bitcast(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    if args[0].shape.dims != static_array(inst.shape).dims:
        raise unsupported(inst, "an operand whose dimensions change,")
    return Sized(d.clone(inst, [args[0].data]), args[0].sizes)
