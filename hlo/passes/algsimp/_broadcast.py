"""broadcast and iota."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._match import (
    dims_of,
    filled,
    only_ones_differ,
    splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.values.literal import Literal
from hlo.values.types import array


@rule("constant", "constant({c, c, ...}) = broadcast(c)")
def splat_constant(inst: Instruction, b: Builder) -> Instruction | None:
    if not inst.shape.is_array or inst.array_shape.num_elements < 2:
        return None
    value = splat(inst)
    if value is None:
        return None
    return b.broadcast(b.literal(Literal.of(value)), array(type_of(inst), dims_of(inst)))


@rule("broadcast", "broadcast(x) = x, for all dimensions in place")
def broadcast_to_itself(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    in_place = inst.dimensions == tuple(range(x.array_shape.rank))
    return x if in_place and dims_of(x) == dims_of(inst) else None


@rule("broadcast", "broadcast(broadcast(x)) = broadcast(x)", on="broadcast")
def broadcast_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "broadcast":
        return None
    dims = tuple(inst.dimensions[d] for d in inner.dimensions)
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", inner.operands[0], shape=shape, dimensions=dims)


@rule("broadcast", "broadcast(x) = transpose(x), for x of as many dimensions and their sizes")
def broadcast_as_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    x, dims = inst.operands[0], inst.dimensions
    if x.array_shape.rank != inst.array_shape.rank or dims == tuple(range(len(dims))):
        return None
    return b.op("transpose", x, dimensions=tuple(dims.index(d) for d in range(len(dims))))


@rule("broadcast", "broadcast(x) = reshape(x), where only dimensions of size one are new")
def broadcast_as_reshape(inst: Instruction, b: Builder) -> Instruction | None:
    x, dims = inst.operands[0], inst.dimensions
    if x.array_shape.rank == inst.array_shape.rank or list(dims) != sorted(dims):
        return None
    if x.array_shape.num_elements != inst.array_shape.num_elements or not dims_of(inst):
        return None
    # An empty array may grow and stay empty.
    return b.reshape(x, dims_of(inst)) if only_ones_differ(dims_of(x), dims_of(inst)) else None


@rule(
    "broadcast",
    "broadcast(reshape(x)) = broadcast(x), where reshape adds sizes of one",
    on="reshape",
)
def broadcast_of_reshape(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "reshape":
        return None
    x = inner.operands[0]
    places = places_of(dims_of(x), dims_of(inner))
    if places is None:
        return None
    dims = tuple(inst.dimensions[d] for d in places)
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", x, shape=shape, dimensions=dims)


def places_of(small: tuple[int, ...], large: tuple[int, ...]) -> list[int] | None:
    """Return the positions of the sizes `small` in `large`, which inserts ones; None if it does
    not.

    Such a reshape is a broadcast that adds dimensions.
    """
    places: list[int] = []
    for at, size in enumerate(large):
        left = len(small) - len(places)
        if left and size == small[len(places)] and (size != 1 or len(large) - at >= left):
            places.append(at)
        elif size != 1:
            return None
    return places if len(places) == len(small) else None


@rule("broadcast", "broadcast(transpose(x)) = broadcast(x), with other dimensions", on="transpose")
def broadcast_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "transpose":
        return None
    dims = [0] * len(inst.dimensions)
    for place, source in zip(inst.dimensions, inner.dimensions, strict=True):
        dims[source] = place
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", inner.operands[0], shape=shape, dimensions=tuple(dims))


@rule("broadcast", "broadcast(iota) = iota", on="iota")
def broadcast_of_iota(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if x.opcode != "iota":
        return None
    along = inst.dimensions[x.iota_dimension]
    return b.op("iota", shape=array(type_of(inst), dims_of(inst)), iota_dimension=along)


@rule("iota", "iota = 0, along a dimension of size one")
def iota_of_one(inst: Instruction, b: Builder) -> Instruction | None:
    et = type_of(inst)
    if dims_of(inst)[inst.iota_dimension] > 1 or et.name == "f8e8m0fnu":
        return None
    return filled(b, inst, 0)
