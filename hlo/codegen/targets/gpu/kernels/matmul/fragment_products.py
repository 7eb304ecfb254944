"""Products of what the lanes of a warp hold of two tiles, added up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.codegen.llvm import Builder, Val, float_const
from hlo.codegen.targets.gpu.kernels.matmul.units import Unit, split

# The registers of each fragment of an operand.
Registers = Sequence[Sequence[Val]]


def add_products(b: Builder, unit: Unit, x: Registers, y: Registers, totals: list[Val]) -> None:
    """Add the products of all pairs of fragments to sums, in place.

    Of operands that are split, three pairs of parts are multiplied; products with small ones have
    sums of their own, the second half: see `joined`.
    """
    if not unit.is_split:
        _add(b, unit, x, y, totals, 0)
        return
    (high_x, low_x), (high_y, low_y) = (
        zip(*(split(b, registers) for registers in side), strict=True) for side in (x, y)
    )
    small = len(totals) // 2
    _add(b, unit, low_x, high_y, totals, small)
    _add(b, unit, high_x, low_y, totals, small)
    _add(b, unit, high_x, high_y, totals, 0)


def _add(b: Builder, unit: Unit, x: Registers, y: Registers, totals: list[Val], first: int) -> None:
    """Add the products of fragments to sums, from the first-th on."""
    each, at = unit.sums, first
    for row in x:
        for column in y:
            totals[at : at + each] = unit.multiply_add(b, row, column, totals[at : at + each])
            at += each


def joined(b: Builder, totals: Sequence[Val]) -> list[Val]:
    """Return the sums of large and small parts.

    What small parts make of infinities is not counted: the product of the large ones has the right
    ones.
    """
    half = len(totals) // 2
    zero, limit = float_const("float", 0.0), float_const("float", math.inf)
    found = []
    for large, small in zip(totals[:half], totals[half:], strict=True):
        is_finite = b.fcmp("olt", b.intrinsic("fabs", "float", [small]), limit)
        found.append(b.binary("fadd", large, b.select(is_finite, small, zero)))
    return found
