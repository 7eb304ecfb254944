"""Outer products of pairs of s16: two products are added to a sum of 32 bits in one instruction.

x86 has it as pmaddwd and vpdpwssd, AArch64 as smlal and smlal2; LLVM selects what there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.codegen.kernels.matmul.microkernels.outer_product import (
    Groups,
    outer_product,
    register_tiles,
)
from hlo.codegen.kernels.matmul.microkernels.record import Microkernel
from hlo.codegen.kernels.matmul.microkernels.registry import family, fits
from hlo.codegen.llvm import Builder, Val
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import as_vector, vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType

_S16 = ELEMENT_TYPES["s16"]


@family
def pairs(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for operands whose values are s16, summed in 32 bits."""
    if not (total.is_integer and total.bits == 32 and fits(lhs, _S16) and fits(rhs, _S16)):
        return
    groups = Groups(".pairs", 2, _S16, _S16, _add_pair_products)
    for (rows, vectors), m in register_tiles(target):
        yield outer_product(target, total, rows, vectors, m=m, groups=groups)


def _add_pair_products(b: Builder, x: Val, y: Val, total: Val) -> Val:
    """Return total + x.low * y.low + x.high * y.high in each lane."""
    lanes = as_vector(x.type).lanes
    narrow, wide = vector_type(2 * lanes, "i16"), vector_type(2 * lanes, "i32")
    halves = [b.cast("bitcast", v, narrow) for v in (x, y)]
    p, q = (b.cast("sext", v, wide) for v in halves)
    product = b.binary("mul", p, q, "nsw")
    even, odd = (b.shuffle_vector(product, product, range(i, 2 * lanes, 2)) for i in (0, 1))
    return b.binary("add", total, b.binary("add", even, odd))
