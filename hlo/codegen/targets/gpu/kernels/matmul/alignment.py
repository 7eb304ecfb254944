"""What the address of an operand is a multiple of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.matmul.product import Computed, Source
from hlo.codegen.kernels.views import element_strides
from hlo.codegen.plan.liveness import collect_leaves
from hlo.ir import Instruction

_RENAMED = frozenset({"reshape", "transpose", "copy", "bitcast"})
# What memory is aligned to, as far as it matters.
_WHOLE = 16


def alignment_of(source: Source, inst: Instruction, roles: Mapping[Instruction, Role]) -> int:
    """Return what the address of an operand's memory is a multiple of, 16 at the most."""
    if isinstance(source.memory, Computed):
        return 1
    if isinstance(source.memory, int):
        return _WHOLE
    return _alignment(collect_leaves(inst, roles)[source.memory.number], roles)


def _alignment(leaf: Instruction, roles: Mapping[Instruction, Role]) -> int:
    offset = 0
    while roles[leaf] is Role.ALIAS and (leaf.opcode == "slice" or leaf.opcode in _RENAMED):
        (whole,) = leaf.operands
        if leaf.opcode == "slice":
            shape = whole.array_shape
            starts = [part.start for part in leaf.slice]
            offset += _offset(starts, element_strides(shape)) * shape.element_type.byte_width
        leaf = whole
    return math.gcd(offset, _WHOLE)


def _offset(starts: Sequence[int], strides: Sequence[int]) -> int:
    return sum(start * stride for start, stride in zip(starts, strides, strict=True))
