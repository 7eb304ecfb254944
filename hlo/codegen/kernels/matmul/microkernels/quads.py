"""Outer products of four bytes: four products are added to a sum of 32 bits in one instruction.

x86 has it as vpdpbusd, AArch64 as sdot, udot and usdot. That of VNNI takes an unsigned A: 128 is
added to a signed one.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.codegen.kernels.matmul.microkernels.outer_product import (
    Groups,
    MultiplyAdd,
    outer_product,
    register_tiles,
)
from hlo.codegen.kernels.matmul.microkernels.record import Microkernel
from hlo.codegen.kernels.matmul.microkernels.registry import family, fits
from hlo.codegen.llvm import Builder, Val
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import as_vector, vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType

_S8, _U8 = ELEMENT_TYPES["s8"], ELEMENT_TYPES["u8"]
# The sign bits of a group.
_SIGNS = 0x80808080 - (1 << 32)

# The instructions by the features that they need and the bits of a vector, the best first: what
# makes signed by signed, unsigned by signed and unsigned by unsigned; "" where there is none.
_INSTRUCTIONS = {
    ("avxvnniint8", 256): (
        "x86.avx2.vpdpbssd.256", "x86.avx512.vpdpbusd.256", "x86.avx2.vpdpbuud.256",
    ),
    ("avx512vnni", 512): ("", "x86.avx512.vpdpbusd.512", ""),
    ("avxvnni", 256): ("", "x86.avx512.vpdpbusd.256", ""),
    ("dotprod", 128): ("aarch64.neon.sdot.v4i32.v16i8", "", "aarch64.neon.udot.v4i32.v16i8"),
    ("i8mm", 128): ("", "aarch64.neon.usdot.v4i32.v16i8", ""),
}  # fmt: skip


@family
def quads(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for operands whose values are of 8 bits, summed in 32 bits."""
    if not (total.is_integer and total.bits == 32):
        return
    for groups in _groups(target):
        if not (fits(lhs, groups.lhs) and fits(rhs, groups.rhs)):
            continue
        for (rows, vectors), m in register_tiles(target):
            # What is added to A needs registers.
            fewer = rows - 1 if groups.shift and target.vector_registers < 32 else rows
            yield outer_product(target, total, max(1, fewer), vectors, m=m, groups=groups)


def _groups(target: LlvmTarget) -> Iterator[Groups]:
    """Yield the ways to multiply groups that a target has, one for each pair of types."""
    found = set[tuple[bool, bool]]()
    for (feature, bits), names in _INSTRUCTIONS.items():
        if feature not in target.features or bits != target.vector_bits:
            continue
        for name, (lhs, rhs) in zip(names, ((_S8, _S8), (_U8, _S8), (_U8, _U8)), strict=True):
            key = lhs.is_signed, rhs.is_signed
            if name and key not in found:
                found.add(key)
                needs = frozenset({feature})
                yield Groups(f".{lhs}.{rhs}", 4, lhs, rhs, _call(name), features=needs)
    for (feature, bits), (_, name, _) in _INSTRUCTIONS.items():
        is_here = feature in target.features and bits == target.vector_bits
        if name and is_here and (True, True) not in found:
            found.add((True, True))
            needs = frozenset({feature})
            yield Groups(".s8.s8", 4, _S8, _S8, _call(name), shift=_SIGNS, features=needs)


def _call(name: str) -> MultiplyAdd:
    """Return what calls an intrinsic function of LLVM."""

    def multiply_add(b: Builder, x: Val, y: Val, total: Val) -> Val:
        of_bytes = vector_type(4 * as_vector(total.type).lanes, "i8")
        operands = [total, *(b.cast("bitcast", v, of_bytes) for v in (x, y))]
        b.module.declare(f"llvm.{name}", total.type, [v.type for v in operands])
        return b.call(f"llvm.{name}", operands, total.type)

    return multiply_add
