"""Outer products of pairs of bf16: two products are added to a sum of f32 in one instruction.

x86 has it as vdpbf16ps, which takes denormals for zero; AArch64 as bfdot, which does too, and
rounds sums to odd.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.codegen.kernels.matmul.microkernels.outer_product import (
    Groups,
    outer_product,
    register_tiles,
)
from hlo.codegen.kernels.matmul.microkernels.record import Microkernel
from hlo.codegen.kernels.matmul.microkernels.registry import family
from hlo.codegen.llvm import Builder, Val
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import as_vector, vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType

_BF16, _F32 = ELEMENT_TYPES["bf16"], ELEMENT_TYPES["f32"]
# By the feature that has it and the bits of a vector.
_INSTRUCTIONS = {
    ("avx512bf16", 512): "llvm.x86.avx512bf16.dpbf16ps.512",
    ("bf16", 128): "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
}


@family
def bf16_pairs(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for bf16, summed in f32."""
    if not (lhs is rhs is _BF16 and total is _F32):
        return
    for (feature, bits), name in _INSTRUCTIONS.items():
        if feature not in target.features or bits != target.vector_bits:
            continue

        def multiply_add(b: Builder, x: Val, y: Val, sums: Val, name: str = name) -> Val:
            vector = vector_type(2 * as_vector(sums.type).lanes, "bfloat")
            operands = [sums, *(b.cast("bitcast", v, vector) for v in (x, y))]
            b.module.declare(name, sums.type, [v.type for v in operands])
            return b.call(name, operands, sums.type)

        groups = Groups(
            ".bf16", 2, _BF16, _BF16, multiply_add, exact=False, features=frozenset({feature})
        )
        for (rows, vectors), m in register_tiles(target):
            yield outer_product(target, total, rows, vectors, m=m, groups=groups)
