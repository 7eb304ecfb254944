"""Which neighbouring loops of a fused kernel can run as one.

Two dimensions that lie next to each other in the result may share a loop when every array that the
kernel reads either has them next to each other too, or does not depend on either. The fewer and
longer the loops, the better the innermost one vectorizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.codegen.address import is_plain
from hlo.codegen.fusion import Role
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.types import ArrayShape

# For each loop, the dimension of an array that it runs over: a number, None when the array does not
# depend on it, or `_OTHER` when it depends on it in another way than by plain index.
_OTHER = -1
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


def _walk(
    computed: Instruction | None,
    stack: list[tuple[Instruction, Places]],
    roles: Mapping[Instruction, Role],
    loops: int,
) -> list[bool]:
    """Visit what is read: through `computed` and fused instructions down to memory."""
    result = [True] * max(0, loops - 1)
    seen: set[tuple[Instruction, Places]] = set()
    while stack:
        node, places = stack.pop()
        if (node, places) in seen:
            continue
        seen.add((node, places))
        if node is computed or roles[node] is Role.FUSED:
            for i, place in enumerate(places):
                if place == _OTHER:
                    _forbid(result, i)
            for operand in node.operands:
                if isinstance(operand.shape, ArrayShape) and operand.shape.dims:
                    stack.append((operand, operand_places(node, operand, places)))
            if node.opcode == "iota":
                for i, place in enumerate(places):
                    if place == node.attrs["iota_dimension"]:
                        _forbid(result, i)
        else:
            _check_memory(result, node, places)
    return result


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
    stride, strides = 1, [0] * shape.rank
    for d in shape.layout.minor_to_major:
        strides[d] = stride
        stride *= shape.dims[d]
    for i in range(len(result)):
        outer, inner = places[i], places[i + 1]
        if outer is None and inner is None:
            continue
        if outer is None or inner is None or _OTHER in (outer, inner):
            result[i] = False
        elif strides[outer] != strides[inner] * shape.dims[inner]:
            result[i] = False


def operand_places(node: Instruction, operand: Instruction, places: Places) -> Places:
    """Return the dimension of an operand that each loop runs over, given those of its user."""
    shape, source = node.shape, operand.shape
    assert isinstance(shape, ArrayShape) and isinstance(source, ArrayShape)
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
