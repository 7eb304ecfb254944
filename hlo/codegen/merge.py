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
from hlo.types import ArrayShape

# For each loop, the dimension of an array that it runs over: a number, None when the array does not
# depend on it, or `_OTHER` when it depends on it in another way than by plain index.
_OTHER = -1
# Arrays of fewer elements stay in the cache however they are read.
_LARGE = 1 << 14
Places = tuple[int | None, ...]


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

    places: the dimension of the array that each loop runs over, None for none.
    """

    node: Instruction
    places: Places
    along: int

    @property
    def shape(self) -> ArrayShape:
        return self.node.array_shape


def crossings(
    inst: Instruction, roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[Crossing]:
    """Return the large arrays that lie across the last loop, the loops running over dims `order`.

    Each is read at one place for each turn of the loops. All are contiguous along the same loop.
    """
    found: dict[Instruction, Crossing | None] = {}
    for node, places in _reads(inst, [(inst, tuple(order))], roles):
        if node is inst or roles[node] is Role.FUSED:
            continue
        if node in found:
            found[node] = None  # read in two ways
        else:
            found[node] = _crossing(node, places)
    across = [c for c in found.values() if c is not None]
    return [c for c in across if c.along == across[0].along]


def _crossing(node: Instruction, places: Places) -> Crossing | None:
    shape = node.array_shape
    if _OTHER in places or not is_plain(shape) or shape.num_elements < _LARGE:
        return None
    strides = _strides(node)
    steps = [0 if place is None else strides[place] for place in places]
    if steps[-1] <= 1 or 1 not in steps:
        return None
    return Crossing(node, places, steps.index(1))


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
            for operand in node.operands:
                if isinstance(operand.shape, ArrayShape) and operand.shape.dims:
                    stack.append((operand, operand_places(node, operand, places)))


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
            moved = {d: d for d in range(shape.rank) if shape.dims[d] == source.dims[d]
                     and (node.opcode != "pad" or node.attrs["padding"][d].low == 0)}  # fmt: skip
        case "reverse":
            moved = {d: d for d in range(shape.rank) if d not in node.attrs["dimensions"]}
        case _:
            moved = {}
    return tuple(moved.get(p, _OTHER) if p is not None and p >= 0 else p for p in places)
