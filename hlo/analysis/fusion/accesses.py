"""How the loops of a kernel run through the arrays that it reads.

For each loop, the dimension of an array that it runs over. An array that is contiguous along
another loop than the innermost one is read transposed: each element takes a cache line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.roles import Role
from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.ops.attrs import PadDim
from hlo.values.layout.plain import is_plain, strides_of
from hlo.values.types import ArrayShape

# For each loop, the dimension of an array that it runs over: a number, None when the array does not
# depend on it, or `IRREGULAR` when it depends on it in another way than by plain index.
IRREGULAR = -1
# Arrays of fewer elements stay in the cache however they are read.
_LARGE = 1 << 14
LoopDims = tuple[int | None, ...]
# The index of one element of an array, None when that depends on more than the loops.
Origin = tuple[int, ...] | None


@dataclass(frozen=True)
class TransposedRead:
    """An array that is contiguous along a loop outside the innermost one, and strided along that.

    loop_dims: the dimension of the array that each loop runs over, None for none. along: the number
    of the loop along which it is contiguous. origin: the index of the element that is read first.
    """

    node: Instruction
    loop_dims: LoopDims
    along: int
    origin: tuple[int, ...]

    @property
    def shape(self) -> ArrayShape:
        return self.node.array_shape


def transposed_reads(
    inst: Instruction, roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[TransposedRead]:
    """Return the large arrays that loops over dims `order` of an instruction read transposed.

    Each is read at one index in each iteration. All are contiguous along the same loop.
    """
    if not order:
        return []
    found: dict[Instruction, TransposedRead | None] = {}
    stack: list[tuple[Instruction, LoopDims, Origin]]
    stack = [(inst, tuple(order), (0,) * inst.array_shape.rank)]
    seen: set[tuple[Instruction, LoopDims, Origin]] = set()
    while stack:
        node, loop_dims, origin = entry = stack.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if node is inst or roles[node] is Role.FUSED:
            stack += [
                (o, operand_loop_dims(node, o, loop_dims), operand_origin(node, o, origin))
                for o in arrays_in(node.operands)
            ]
        elif node in found:
            found[node] = None  # read at two indices
        else:
            found[node] = _transposed_read(node, loop_dims, origin)
    reads = [r for r in found.values() if r is not None]
    return [r for r in reads if r.along == reads[0].along]


def _transposed_read(
    node: Instruction, loop_dims: LoopDims, origin: Origin
) -> TransposedRead | None:
    shape = node.array_shape
    if not is_plain(shape) or shape.num_elements < _LARGE:
        return None
    if origin is None or IRREGULAR in loop_dims:
        return None
    strides = strides_of(shape)
    steps = [0 if dim is None else strides[dim] for dim in loop_dims]
    if steps[-1] <= 1 or 1 not in steps:
        return None
    return TransposedRead(node, loop_dims, steps.index(1), origin)


def memory_order(
    operands: Sequence[Instruction], roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[int]:
    """Return dims `order` of operands of equal dimensions, as loops that follow memory.

    That is the memory of the largest array that is read, the slowest-varying dimension first.
    """
    largest, best = 0, list(order)
    stack = [(operand, tuple[int | None, ...](order)) for operand in operands]
    seen: set[tuple[Instruction, LoopDims]] = set()
    while stack:
        node, loop_dims = entry = stack.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if roles[node] is Role.FUSED:
            stack += [(o, operand_loop_dims(node, o, loop_dims)) for o in arrays_in(node.operands)]
            continue
        shape = node.shape
        if not isinstance(shape, ArrayShape) or IRREGULAR in loop_dims or not is_plain(shape):
            continue
        if shape.num_elements > largest:
            largest, strides = shape.num_elements, strides_of(shape)
            # What the array does not depend on is outside.
            steps = [math.inf if dim is None else strides[dim] for dim in loop_dims]
            ranked = sorted(range(len(order)), key=lambda loop: -steps[loop])
            best = [order[loop] for loop in ranked]
    return best


def arrays_in(operands: Sequence[Instruction]) -> list[Instruction]:
    """Return the operands that have dimensions."""
    return [o for o in operands if isinstance(o.shape, ArrayShape) and o.shape.dims]


def operand_loop_dims(node: Instruction, operand: Instruction, loop_dims: LoopDims) -> LoopDims:
    """Return the dimension of an operand that each loop runs over, given those of its user."""
    if node.spec.has(Trait.ELEMENTWISE) or node.opcode in ("map", "copy"):
        return loop_dims
    shape, source = node.array_shape, operand.array_shape
    moved: dict[int, int | None]
    if node.opcode == "bitcast-convert":
        # To a narrower type there is one dimension more, which the operand does not depend on.
        return tuple(d if d is None or d < source.rank else None for d in loop_dims)
    match node.opcode:
        case "broadcast":
            moved = {
                dim: at if source.dims[at] == shape.dims[dim] else None
                for at, dim in enumerate(node.dimensions)
            }
            return tuple(moved.get(d) if d is not None and d >= 0 else d for d in loop_dims)
        case "transpose":
            moved = dict(enumerate(node.dimensions))
        case "reshape":
            ours = [d for d in range(shape.rank) if shape.dims[d] != 1]
            theirs = [d for d in range(source.rank) if source.dims[d] != 1]
            same = [shape.dims[d] for d in ours] == [source.dims[d] for d in theirs]
            moved = dict(zip(ours, theirs, strict=True)) if same else {}
        case "slice" | "dynamic-slice" | "pad":
            kept = [d for d in range(shape.rank) if shape.dims[d] == source.dims[d]]
            if node.opcode == "pad":
                kept = [d for d in kept if _is_unpadded(node.padding[d])]
            moved = {d: d for d in kept}
        case "reverse" | "concatenate":
            moved = {d: d for d in range(shape.rank) if d not in node.dimensions}
        case _:
            moved = {}
    return tuple(moved.get(d, IRREGULAR) if d is not None and d >= 0 else d for d in loop_dims)


def _is_unpadded(padding: PadDim) -> bool:
    return not (padding.low or padding.high or padding.interior)


def operand_origin(node: Instruction, operand: Instruction, origin: Origin) -> Origin:
    """Return the index of the one element of an operand that an element of its user is made of."""
    dims = operand.array_shape.dims
    if origin is None or 0 in dims:
        return None
    if node.spec.has(Trait.ELEMENTWISE) or node.opcode in ("map", "copy"):
        return origin
    match node.opcode:
        case "broadcast":
            picked = (origin[d] for d in node.dimensions)
            return tuple(0 if n == 1 else i for n, i in zip(dims, picked, strict=True))
        case "transpose":
            return tuple(origin[node.dimensions.index(d)] for d in range(len(dims)))
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
            return tuple(s.start + i * s.stride for s, i in zip(node.slice, origin, strict=True))
        case "reverse":
            flipped = node.dimensions
            return tuple(n - 1 - i if d in flipped else i
                         for d, (n, i) in enumerate(zip(dims, origin, strict=True)))  # fmt: skip
        case "bitcast-convert" if len(dims) <= len(origin):
            return origin[: len(dims)]
        case "dynamic-slice" if node.array_shape.dims == dims:
            return origin
        case "pad" if all(map(_is_unpadded, node.padding)):
            return origin
    return None
