"""Which neighbouring loops of a fused kernel can run as one.

Two dimensions that lie next to each other in the result may share a loop when every array that the
kernel reads either has them next to each other too, or does not depend on either. The fewer and
longer the loops, the better the innermost one vectorizes.

Where an array lies across the innermost loop, as in a transpose, it is read in blocks (see
`crossing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hlo.codegen.address import is_plain
from hlo.codegen.fusion import Role
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.ops.attrs import PadDim
from hlo.types import ArrayShape

# For each loop, the dimension of an array that it runs over: a number, None when the array does not
# depend on it, or `_OTHER` when it depends on it in another way than by plain index.
_OTHER = -1
# Arrays of fewer elements stay in the cache however they are read.
_LARGE = 1 << 14
Places = tuple[int | None, ...]
# The index of one element of an array, None when that depends on more than the loops.
Origin = tuple[int, ...] | None


def mergeable(
    inst: Instruction, roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[bool]:
    """Return, for each neighbouring pair of loops (dims `order` of `inst`), if they may merge."""
    return _walk(inst, [(inst, tuple(order))], roles, len(order))


def mergeable_reads(
    operands: Sequence[Instruction], roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[bool]:
    """Return, for each neighbouring pair of loops over dims `order` of operands, if they may merge.

    The operands have equal dimensions; each is fused or in memory.
    """
    return _walk(None, [(o, tuple(order)) for o in operands], roles, len(order))


@dataclass(frozen=True)
class Crossing:
    """An array that is contiguous along a loop outside the last one, through which it jumps.

    places: the dimension of the array that each loop runs over, None for none. origin: the index in
    the array of what the loops read first.
    """

    node: Instruction
    places: Places
    along: int
    origin: tuple[int, ...]

    @property
    def shape(self) -> ArrayShape:
        return self.node.array_shape


def crossings(
    inst: Instruction, roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[Crossing]:
    """Return the large arrays that lie across the last loop, the loops running over dims `order`.

    Each is read at one place for each turn of the loops. All are contiguous along the same loop.
    """
    if not order:
        return []
    found: dict[Instruction, Crossing | None] = {}
    stack: list[tuple[Instruction, Places, Origin]]
    stack = [(inst, tuple(order), (0,) * inst.array_shape.rank)]
    seen: set[tuple[Instruction, Places, Origin]] = set()
    while stack:
        node, places, origin = entry = stack.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if node is inst or roles[node] is Role.FUSED:
            stack += [
                (o, operand_places(node, o, places), operand_origin(node, o, origin))
                for o in _arrays(node.operands)
            ]
        elif node in found:
            found[node] = None  # read in two ways
        else:
            found[node] = _crossing(node, places, origin)
    across = [c for c in found.values() if c is not None]
    return [c for c in across if c.along == across[0].along]


def _crossing(node: Instruction, places: Places, origin: Origin) -> Crossing | None:
    shape = node.array_shape
    if origin is None or _OTHER in places or not is_plain(shape) or shape.num_elements < _LARGE:
        return None
    strides = _strides(node)
    steps = [0 if place is None else strides[place] for place in places]
    if steps[-1] <= 1 or 1 not in steps:
        return None
    return Crossing(node, places, steps.index(1), origin)


def _walk(
    computed: Instruction | None,
    stack: list[tuple[Instruction, Places]],
    roles: Mapping[Instruction, Role],
    loops: int,
) -> list[bool]:
    """Return which loops may merge for all that is read."""
    result = [True] * max(0, loops - 1)
    for node, places in _reads(computed, stack, roles):
        if node is computed or roles[node] is Role.FUSED:
            for i, place in enumerate(places):
                if place == _OTHER or (
                    node.opcode == "iota" and place == node.attrs["iota_dimension"]
                ):
                    _forbid(result, i)
        else:
            _check_memory(result, node, places)
    return result


def _reads(
    computed: Instruction | None,
    stack: list[tuple[Instruction, Places]],
    roles: Mapping[Instruction, Role],
) -> Iterator[tuple[Instruction, Places]]:
    """Yield what is read: `computed`, fused instructions, and down to memory."""
    seen: set[tuple[Instruction, Places]] = set()
    while stack:
        node, places = stack.pop()
        if (node, places) in seen:
            continue
        seen.add((node, places))
        yield node, places
        if node is computed or roles[node] is Role.FUSED:
            stack += [(o, operand_places(node, o, places)) for o in _arrays(node.operands)]


def _arrays(operands: Sequence[Instruction]) -> list[Instruction]:
    """Return the operands that have dimensions."""
    return [o for o in operands if isinstance(o.shape, ArrayShape) and o.shape.dims]


def _forbid(result: list[bool], loop: int) -> None:
    if loop:
        result[loop - 1] = False
    if loop < len(result):
        result[loop] = False


def _check_memory(result: list[bool], node: Instruction, places: Places) -> None:
    shape = node.shape
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return
    if not is_plain(shape):
        places = tuple(None if place is None else _OTHER for place in places)
    strides = _strides(node)
    for i in range(len(result)):
        outer, inner = places[i], places[i + 1]
        if outer is None and inner is None:
            continue
        if outer is None or inner is None or _OTHER in (outer, inner):
            result[i] = False
        elif strides[outer] != strides[inner] * shape.dims[inner]:
            result[i] = False


def _strides(node: Instruction) -> list[int]:
    """Return the distance in elements between neighbours of each dimension, tiles aside."""
    shape = node.array_shape
    assert shape.layout is not None
    stride, strides = 1, [0] * shape.rank
    for d in shape.layout.minor_to_major:
        strides[d] = stride
        stride *= shape.dims[d]
    return strides


def operand_places(node: Instruction, operand: Instruction, places: Places) -> Places:
    """Return the dimension of an operand that each loop runs over, given those of its user."""
    shape, source = node.array_shape, operand.array_shape
    moved: dict[int, int | None]
    if node.spec.has(Trait.ELEMENTWISE) or node.opcode in ("map", "copy"):
        return places
    if node.opcode == "bitcast-convert":
        # To a narrower type there is one dimension more, which the operand does not depend on.
        return tuple(p if p is None or p < source.rank else None for p in places)
    match node.opcode:
        case "broadcast":
            moved = {
                d: at if source.dims[at] == shape.dims[d] else None
                for at, d in enumerate(node.attrs["dimensions"])
            }
            return tuple(moved.get(p) if p is not None and p >= 0 else p for p in places)
        case "transpose":
            moved = dict(enumerate(node.attrs["dimensions"]))
        case "reshape":
            ours = [d for d in range(shape.rank) if shape.dims[d] != 1]
            theirs = [d for d in range(source.rank) if source.dims[d] != 1]
            same = [shape.dims[d] for d in ours] == [source.dims[d] for d in theirs]
            moved = dict(zip(ours, theirs, strict=True)) if same else {}
        case "slice" | "dynamic-slice" | "pad":
            kept = [d for d in range(shape.rank) if shape.dims[d] == source.dims[d]]
            if node.opcode == "pad":
                kept = [d for d in kept if _is_unpadded(node.attrs["padding"][d])]
            moved = {d: d for d in kept}
        case "reverse":
            moved = {d: d for d in range(shape.rank) if d not in node.attrs["dimensions"]}
        case _:
            moved = {}
    return tuple(moved.get(p, _OTHER) if p is not None and p >= 0 else p for p in places)


def _is_unpadded(padding: PadDim) -> bool:
    return not (padding.low or padding.high or padding.interior)


def operand_origin(node: Instruction, operand: Instruction, origin: Origin) -> Origin:
    """Return the index of the one element of an operand that an element of its user is made of."""
    dims, attrs = operand.array_shape.dims, node.attrs
    if origin is None or 0 in dims:
        return None
    if node.spec.has(Trait.ELEMENTWISE) or node.opcode in ("map", "copy"):
        return origin
    match node.opcode:
        case "broadcast":
            picked = (origin[d] for d in attrs["dimensions"])
            return tuple(0 if n == 1 else i for n, i in zip(dims, picked, strict=True))
        case "transpose":
            return tuple(origin[attrs["dimensions"].index(d)] for d in range(len(dims)))
        case "reshape":
            linear = 0
            for n, i in zip(node.array_shape.dims, origin, strict=True):
                linear = linear * n + i
            found: list[int] = []
            for n in reversed(dims):
                found.insert(0, linear % n)
                linear //= n
            return tuple(found)
        case "slice":
            return tuple(
                s.start + i * s.stride for s, i in zip(attrs["slice"], origin, strict=True)
            )
        case "reverse":
            flipped = attrs["dimensions"]
            return tuple(n - 1 - i if d in flipped else i
                         for d, (n, i) in enumerate(zip(dims, origin, strict=True)))  # fmt: skip
        case "bitcast-convert" if len(dims) <= len(origin):
            return origin[: len(dims)]
        case "dynamic-slice" if node.array_shape.dims == dims:
            return origin
        case "pad" if all(map(_is_unpadded, attrs["padding"])):
            return origin
    return None
