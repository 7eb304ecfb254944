"""rng-bit-generator: each device generates its shard, from where in the whole it begins.

The generators count: a shard whose elements follow each other in the whole array, in row-major
order, is generated from a later counter. Others are generated whole, and cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hlo.ir import Instruction
from hlo.ops.attrs import SliceDim
from hlo.ops.random.bits import threefry_split
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.mesh import PartitionSpec
from hlo.spmd.value import Sharded, Value
from hlo.values.types import ELEMENT_TYPES, U32, U64, ArrayShape, TupleShape, array


@handles("rng-bit-generator")
def _rng_bit_generator(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    (state,) = operands
    assert isinstance(state, Sharded) and isinstance(inst.shape, TupleShape)
    shape = inst.shape.elements[1]
    assert isinstance(shape, ArrayShape)
    spec = replace(wanted[1], unreduced=())
    state = b.replicated(state)
    words = [_word(b, state.local, n) for n in range(state.shape.dims[0])]
    is_threefry = inst.algorithm == "rng_three_fry"
    found = None
    if any(b.mesh.count(axes) > 1 for axes in spec.dims) and shape.element_type.bits >= 8:
        make = _threefry if is_threefry else _philox
        found = make(b, words, shape, spec)
    if found is None:
        return by_factors(b, inst, [state], wanted)
    bits, count = found
    after = b.op("add", words[1], b.constant(U64, count))
    following = [words[0], after]
    if len(words) == 3:
        following.append(b.op("add", words[2], _carry(b, after, words[1])))
    parts = [b.reshape(w, (1,)) for w in following]
    advanced = b.op("concatenate", *parts, dimensions=(0,))
    return Sharded(advanced, state.spec, state.shape), Sharded(bits, spec, shape)


def _word(b: SpmdBuilder, state: Instruction, n: int) -> Instruction:
    return b.reshape(b.op("slice", state, slice=(SliceDim(n, n + 1),)), ())


def _carry(b: SpmdBuilder, total: Instruction, part: Instruction) -> Instruction:
    """Return 1 where a sum wrapped around, else 0: u64[]."""
    return b.convert(b.compare(total, part, "LT"), U64)


def _begin(
    b: SpmdBuilder, dims: Sequence[int], shard: Sequence[int], spec: PartitionSpec
) -> tuple[Instruction, int] | None:
    """Return where a shard begins in the row-major order of the whole array, u64[], and a number of
    which that is a multiple on all devices.

    None unless its elements follow each other there.
    """
    pivot = max(d for d, axes in enumerate(spec.dims) if b.mesh.count(axes) > 1)
    if any(n != 1 for n in shard[:pivot]):
        return None
    total, unit = b.constant(U64, 0), 0
    for d, axes in enumerate(spec.dims[: pivot + 1]):
        if b.mesh.count(axes) > 1:
            step = shard[d] * math.prod(dims[d + 1 :])
            place = b.convert(b.coordinate(axes), U64)
            total = b.op("add", total, b.op("multiply", place, b.constant(U64, step)))
            unit = math.gcd(unit, step)
    return total, unit


def _philox(
    b: SpmdBuilder, words: Sequence[Instruction], shape: ArrayShape, spec: PartitionSpec
) -> tuple[Instruction, int] | None:
    """Return the bits of a shard, and by what the counter of the whole array moves on.

    A counter gives four words, or two of 64 bits.
    """
    dims, et = shape.dims, shape.element_type
    shard = b.mesh.local_dims(dims, spec)
    found = _begin(b, dims, shard, spec)
    if found is None:
        return None
    begin, unit = found
    each = 2 if et.bits == 64 else 4
    steps = b.constant(U64, each)
    low = b.op("add", words[1], b.op("divide", begin, steps))
    high = words[2] if len(words) == 3 else words[0]
    high = b.op("add", high, _carry(b, low, words[1]))
    state = b.op(
        "concatenate", *(b.reshape(w, (1,)) for w in (words[0], low, high)), dimensions=(0,)
    )
    # A shard may begin with any of the words of a counter.
    margin = each - 1 if unit % each else 0
    count = math.prod(shard)
    flat = array(et, (count + margin,))
    made = b.op(
        "rng-bit-generator", state, shape=TupleShape((array(U64, (3,)), flat)),
        algorithm="rng_philox",
    )  # fmt: skip
    bits = b.element(made, 1)
    if margin:
        first = b.op("remainder", begin, steps)
        bits = b.op("dynamic-slice", bits, first, dynamic_slice_sizes=(count,))
    return b.reshape(bits, shard), -(-math.prod(dims) // each)


def _threefry(
    b: SpmdBuilder, words: Sequence[Instruction], shape: ArrayShape, spec: PartitionSpec
) -> tuple[Instruction, int] | None:
    """Return the bits of a shard, and by what the counter of the whole array moves on.

    A counter gives 64 bits, or two words that are neighbours along one dimension.
    """
    dims, et = shape.dims, shape.element_type
    shard = list(b.mesh.local_dims(dims, spec))
    pairs = et.bits < 64
    split = 0
    if pairs:
        dims, split = threefry_split(dims)
        if b.mesh.count(spec.dims[split]) > 1 and shard[split] % 2:
            return None
        shard[split] = -(-shard[split] // 2)
    found = _begin(b, dims, shard, spec)
    if found is None:
        return None
    counter = b.op("add", words[1], found[0])
    state = b.op("concatenate", *(b.reshape(w, (1,)) for w in (words[0], counter)), dimensions=(0,))
    flat = array(U64, (math.prod(shard),))
    made = b.op(
        "rng-bit-generator", state, shape=TupleShape((array(U64, (2,)), flat)),
        algorithm="rng_three_fry",
    )  # fmt: skip
    bits = b.reshape(b.element(made, 1), shard)
    if pairs:
        bits = _joined(b, bits, split)
        limits = b.mesh.local_dims(shape.dims, spec)
        if bits.array_shape.dims != limits:
            bits = b.op("slice", bits, slice=tuple(SliceDim(0, n) for n in limits))
        bits = b.convert(bits, ELEMENT_TYPES[f"u{et.bits}"])
    result = bits.array_shape.with_type(et)
    if bits.array_shape.element_type is not et:
        bits = b.op("bitcast-convert", bits, shape=result)
    return bits, math.prod(dims)


def _joined(b: SpmdBuilder, pairs: Instruction, dim: int) -> Instruction:
    """Return the halves of u64s, low first, as u32 neighbours along a dimension."""
    shape = pairs.array_shape
    dims = shape.dims
    shift = b.broadcast(b.constant(U64, 32), shape)
    halves = [pairs, b.op("shift-right-logical", pairs, shift, shape=shape)]
    columns = [
        b.reshape(b.convert(half, U32), (*dims[: dim + 1], 1, *dims[dim + 1 :])) for half in halves
    ]
    both = b.op("concatenate", *columns, dimensions=(dim + 1,))
    return b.reshape(both, (*dims[:dim], 2 * dims[dim], *dims[dim + 1 :]))
