"""Which neighbouring loops of a loop nest collapse into one.

Two adjacent dimensions of the result share a loop if every array that the kernel reads either has
them adjacent too, or depends on neither. The fewer and longer the loops, the better the innermost
one vectorizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hlo.analysis.fusion.accesses import IRREGULAR, LoopDims, arrays_in, operand_loop_dims
from hlo.analysis.fusion.roles import Role
from hlo.ir import Instruction
from hlo.values.layout.plain import is_plain, strides_of
from hlo.values.types import ArrayShape


def collapsible(
    inst: Instruction, roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[bool]:
    """Return which adjacent loops over dims `order` of `inst` may be collapsed."""
    return _walk(inst, [(inst, tuple(order))], roles, len(order))


def collapsible_reads(
    operands: Sequence[Instruction], roles: Mapping[Instruction, Role], order: Sequence[int]
) -> list[bool]:
    """Return which adjacent loops over dims `order` of operands may be collapsed.

    The operands have equal dimensions; each is fused or in memory.
    """
    return _walk(None, [(o, tuple(order)) for o in operands], roles, len(order))


def _walk(
    computed: Instruction | None,
    stack: list[tuple[Instruction, LoopDims]],
    roles: Mapping[Instruction, Role],
    loops: int,
) -> list[bool]:
    """Return which loops may be collapsed for all values that are read."""
    result = [True] * max(0, loops - 1)
    for node, loop_dims in _reads(computed, stack, roles):
        if node is computed or roles[node] is Role.FUSED:
            for i, dim in enumerate(loop_dims):
                if dim == IRREGULAR or (node.opcode == "iota" and dim == node.iota_dimension):
                    _forbid(result, i)
        else:
            _check_memory(result, node, loop_dims)
    return result


def _reads(
    computed: Instruction | None,
    stack: list[tuple[Instruction, LoopDims]],
    roles: Mapping[Instruction, Role],
) -> Iterator[tuple[Instruction, LoopDims]]:
    """Yield the values that are read: `computed`, fused instructions, and loads."""
    seen: set[tuple[Instruction, LoopDims]] = set()
    while stack:
        node, loop_dims = stack.pop()
        if (node, loop_dims) in seen:
            continue
        seen.add((node, loop_dims))
        yield node, loop_dims
        if node is computed or roles[node] is Role.FUSED:
            stack += [(o, operand_loop_dims(node, o, loop_dims)) for o in arrays_in(node.operands)]


def _forbid(result: list[bool], loop: int) -> None:
    if loop:
        result[loop - 1] = False
    if loop < len(result):
        result[loop] = False


def _check_memory(result: list[bool], node: Instruction, loop_dims: LoopDims) -> None:
    shape = node.shape
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return
    if not is_plain(shape):
        loop_dims = tuple(None if dim is None else IRREGULAR for dim in loop_dims)
    strides = strides_of(shape)
    for i in range(len(result)):
        outer, inner = loop_dims[i], loop_dims[i + 1]
        if outer is None and inner is None:
            continue
        if outer is None or inner is None or IRREGULAR in (outer, inner):
            result[i] = False
        elif strides[outer] != strides[inner] * shape.dims[inner]:
            result[i] = False
