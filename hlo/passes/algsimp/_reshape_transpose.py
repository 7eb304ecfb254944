"""reshape, transpose and reverse."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.passes.algsimp._match import (
    dims_of,
    is_single_use,
    kept_dims,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.values.literal import Literal
from hlo.values.types import array

# --- reshape ------------------------------------------------------------------------------------


@rule("reshape", "reshape(x) = x, to the same dimensions")
def reshape_to_itself(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if dims_of(x) == dims_of(inst) else None


@rule("reshape", "reshape(reshape(x)) = reshape(x)", on="reshape")
def reshape_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    return b.reshape(inner.operands[0], dims_of(inst)) if inner.opcode == "reshape" else None


@rule("reshape", "reshape(constant) = constant", on="constant")
def reshape_of_constant(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if x.opcode != "constant" or x.literal.elided:
        return None
    # A copy of a large constant that stays for others is no gain.
    if x.array_shape.num_elements > 1 and not is_single_use(x):
        return None
    return b.literal(Literal.of(x.literal.array.reshape(dims_of(inst))))


@rule("reshape", "reshape(broadcast(x)) = broadcast(x), for a scalar x", on="broadcast")
def reshape_of_scalar_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "broadcast" or dims_of(inner.operands[0]) or not dims_of(inst):
        return None
    return b.broadcast(inner.operands[0], array(type_of(inst), dims_of(inst)))


@rule(
    "reshape",
    "reshape(broadcast(x)) = broadcast(reshape(x)), where what x has is kept whole",
    on="broadcast",
)
def reshape_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    """Dimensions are regrouped; each group of the result is all of x's or all new."""
    inner = inst.operands[0]
    if inner.opcode != "broadcast" or not dims_of(inner.operands[0]):
        return None
    x, places = inner.operands[0], inner.dimensions
    groups = matched_groups(dims_of(inner), dims_of(inst))
    if groups is None or list(places) != sorted(places):
        return None
    small: list[int] = []
    new_places: list[int] = []
    for old, new in groups:
        of_x = [d in places for d in old if dims_of(inner)[d] != 1]
        if any(of_x):
            if not all(of_x):
                return None
            small += [dims_of(inst)[d] for d in new]
            new_places += new
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", b.reshape(x, small), shape=shape, dimensions=tuple(new_places))


def matched_groups(
    old: tuple[int, ...], new: tuple[int, ...]
) -> list[tuple[list[int], list[int]]] | None:
    """Return the least groups of neighbouring dimensions of equal size that a reshape maps.

    A size of one between groups is a group with nothing on the other side. None for empty arrays.
    """
    if 0 in old:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == 1:
            groups.append(([i], []))
            i += 1
        elif j < len(new) and new[j] == 1:
            groups.append(([], [j]))
            j += 1
        else:
            left, right, m, n = [i], [j], old[i], new[j]
            while m != n:
                if m < n:
                    left.append(i + len(left))
                    m *= old[left[-1]]
                else:
                    right.append(j + len(right))
                    n *= new[right[-1]]
            groups.append((left, right))
            i, j = i + len(left), j + len(right)
    return groups


@rule("reshape", "reshape(iota) = iota, where only sizes of one come and go", on="iota")
def reshape_of_iota(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if x.opcode != "iota":
        return None
    large = kept_dims(x), kept_dims(inst)
    if [dims_of(x)[d] for d in large[0]] != [dims_of(inst)[d] for d in large[1]]:
        return None
    if x.iota_dimension not in large[0]:
        return None
    along = large[1][large[0].index(x.iota_dimension)]
    return b.op("iota", shape=array(type_of(inst), dims_of(inst)), iota_dimension=along)


# --- transpose ----------------------------------------------------------------------------------


@rule("transpose", "transpose(x) = x, for dimensions in order")
def transpose_in_order(inst: Instruction, b: Builder) -> Instruction | None:
    dims = inst.dimensions
    return inst.operands[0] if dims == tuple(range(len(dims))) else None


@rule("transpose", "transpose(transpose(x)) = transpose(x)", on="transpose")
def transpose_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "transpose":
        return None
    dims = tuple(inner.dimensions[d] for d in inst.dimensions)
    return b.op("transpose", inner.operands[0], dimensions=dims)


@rule("transpose", "transpose(x) = reshape(x), where only sizes of one move")
def transpose_of_ones(inst: Instruction, b: Builder) -> Instruction | None:
    x, dims = inst.operands[0], inst.dimensions
    large = [d for d in dims if dims_of(x)[d] != 1]
    if large != sorted(large) or list(dims) == sorted(dims):
        return None
    return b.reshape(x, dims_of(inst))


@rule("transpose", "transpose(broadcast(x)) = broadcast(x), with other dimensions", on="broadcast")
def transpose_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    inner, dims = inst.operands[0], inst.dimensions
    if inner.opcode != "broadcast":
        return None
    places = tuple(dims.index(d) for d in inner.dimensions)
    shape = array(type_of(inst), dims_of(inst))
    return b.op("broadcast", inner.operands[0], shape=shape, dimensions=places)


@rule("transpose", "transpose(iota) = iota, along another dimension", on="iota")
def transpose_of_iota(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if x.opcode != "iota":
        return None
    along = inst.dimensions.index(x.iota_dimension)
    return b.op("iota", shape=array(type_of(inst), dims_of(inst)), iota_dimension=along)


# --- reverse ------------------------------------------------------------------------------------


@rule("reverse", "reverse(x) = reverse(x) without dimensions of size one, x without any")
def reverse_of_ones(inst: Instruction, b: Builder) -> Instruction | None:
    x, dims = inst.operands[0], inst.dimensions
    rest = tuple(d for d in dims if dims_of(x)[d] > 1)
    if rest == dims and rest:
        return None
    return b.op("reverse", x, dimensions=rest) if rest else x


@rule("reverse", "reverse(reverse(x)) = x, in dimensions that both turn", on="reverse")
def reverse_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "reverse":
        return None
    dims = {*inst.dimensions} ^ {*inner.dimensions}
    x = inner.operands[0]
    return b.op("reverse", x, dimensions=tuple(sorted(dims))) if dims else x


@rule(
    "reverse", "reverse(broadcast(x)) = broadcast(x), in dimensions that x has not", on="broadcast"
)
def reverse_of_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "broadcast":
        return None
    rest = tuple(d for d in inst.dimensions if d in inner.dimensions)
    if rest == inst.dimensions:
        return None
    return b.op("reverse", inner, dimensions=rest) if rest else inner


# --- there and back -----------------------------------------------------------------------------


@rule("reshape", "reshape(op(reshape(x))) = op(x), for elementwise op of one and x's dimensions")
def reshape_around_elementwise(inst: Instruction, b: Builder) -> Instruction | None:
    moved = _moved_before(inst)
    if moved is None or dims_of(moved.operands[0]) != dims_of(inst):
        return None
    return _without_moves(inst, moved, b)


@rule("transpose", "transpose(op(transpose(x), broadcast(y))) = op(x, transpose(broadcast(y))), "
      "where the transposes undo each other")  # fmt: skip
def transpose_around_elementwise(inst: Instruction, b: Builder) -> Instruction | None:
    """Of any number of both, but at least one transpose: that of a broadcast is a broadcast."""
    op, back = inst.operands[0], inst.dimensions
    if not op.spec.has(Trait.ELEMENTWISE) or not is_single_use(op):
        return None

    def is_undone(x: Instruction) -> bool:
        if x.opcode != "transpose":
            return False
        return [x.dimensions[d] for d in back] == list(range(len(back)))

    if not any(map(is_undone, op.operands)):
        return None
    if not all(is_undone(x) or x.opcode == "broadcast" for x in op.operands):
        return None

    def moved(x: Instruction) -> Instruction:
        if is_undone(x):
            return x.operands[0]
        shape = array(type_of(x), dims_of(inst))
        return b.op("transpose", x, shape=shape, dimensions=back)

    parts = map(moved, op.operands)
    return b.op(op.opcode, *parts, shape=array(type_of(inst), dims_of(inst)), **op.attrs)


@rule("reverse", "reverse(op(reverse(x))) = op(x), for elementwise op of one")
def reverse_around_elementwise(inst: Instruction, b: Builder) -> Instruction | None:
    moved = _moved_before(inst)
    if moved is None or moved.dimensions != inst.dimensions:
        return None
    return _without_moves(inst, moved, b)


def _moved_before(inst: Instruction) -> Instruction | None:
    """Return m of `move(op(m))`, where m moves elements as `inst` does, and op is elementwise."""
    inner = inst.operands[0]
    if len(inner.operands) != 1 or not inner.spec.has(Trait.ELEMENTWISE):
        return None
    moved = inner.operands[0]
    return moved if moved.opcode == inst.opcode and is_single_use(inner) else None


def _without_moves(inst: Instruction, moved: Instruction, b: Builder) -> Instruction:
    op, x = inst.operands[0], moved.operands[0]
    return b.op(op.opcode, x, shape=array(type_of(inst), dims_of(inst)), **op.attrs)
