"""Rules for quotients of floats: exact ones, and rewrites that only change rounding.

Every rule is valid for NaN, infinities and signed zeros. The payload of a NaN may change.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.elementwise.casts import float_info
from hlo.passes.algsimp._match import (
    filled,
    float_splat,
    has_many_exponents,
    is_float,
    is_single_use,
    is_splat,
    splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.values.types import F32, ElementType


def _reciprocal(inst: Instruction) -> tuple[np.ndarray, bool] | None:
    """Return 1/c for a float constant c, and whether it is exact; None unless it is normal."""
    value = float_splat(inst)
    if value is None or value == 0 or not math.isfinite(value) or not has_many_exponents(inst):
        return None
    return _inverse(value, type_of(inst))


@lru_cache(maxsize=256)
def _inverse(value: float, et: ElementType) -> tuple[np.ndarray, bool] | None:
    """Return what `_reciprocal` does of a number: modules divide by few."""
    with np.errstate(all="ignore"):
        inverse = np.asarray(1 / value).astype(et.dtype)
    if not np.isfinite(inverse) or abs(float(inverse)) < float(float_info(et).smallest_normal):
        return None
    return inverse, abs(math.frexp(value)[0]) == 0.5


@rule("divide", "x / c = x * (1/c), for a power of two c", on="constant broadcast")
def divide_float_power_of_two(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    found = _reciprocal(y)
    return b.op("multiply", x, filled(b, y, found[0])) if found and found[1] else None


@rule(
    "divide",
    "x / c = x * (1/c), rounded twice, for a constant c",
    approximate=True,
    on="constant broadcast",
)
def divide_constant(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    found = _reciprocal(y)
    return b.op("multiply", x, filled(b, y, found[0])) if found and splat(x) is None else None


@rule("divide", "x / sqrt(y) = x * rsqrt(y)", approximate=True, on="sqrt")
def divide_by_root(inst: Instruction, b: Builder) -> Instruction | None:
    x, root = inst.operands
    if root.opcode != "sqrt" or not is_single_use(root) or not is_float(inst):
        return None
    inverse = b.op("rsqrt", root.operands[0])
    return inverse if is_splat(x, 1.0) else b.op("multiply", x, inverse)


@rule("divide", "x / rsqrt(y) = x * sqrt(y)", approximate=True, on="rsqrt")
def divide_by_inverse_root(inst: Instruction, b: Builder) -> Instruction | None:
    x, root = inst.operands
    if root.opcode != "rsqrt" or not is_single_use(root) or not is_float(inst):
        return None
    square_root = b.op("sqrt", root.operands[0])
    return square_root if is_splat(x, 1.0) else b.op("multiply", x, square_root)


# A quotient of two bf16 by one division an array instead of one an element is worth this many.
_FEWER = 8


@rule(
    "divide",
    "x / broadcast(y) = x * p * q, rounded once, for bf16, where p * q is 1 / y in f32",
    on="broadcast",
)
def divide_narrow_by_broadcast(inst: Instruction, b: Builder) -> Instruction | None:
    """Divide once for each element of y.

    Significands of bf16 have 8 bits, so that a quotient is further from each number halfway between
    two of bf16 than two roundings to f32 can move it, or it is that number: among those below the
    normal ones, where f32 has bits to spare. Where 1 / y overflows or is not a normal number, a
    power of two comes first or last.
    """
    x, divisor = inst.operands
    if type_of(inst).name != "bf16" or divisor.opcode != "broadcast" or splat(divisor) is not None:
        return None
    y = divisor.operands[0]
    if inst.array_shape.num_elements < _FEWER * y.array_shape.num_elements:
        return None
    wide = b.convert(y, F32)
    size = b.op("abs", wide)
    large = b.compare(size, filled(b, wide, 2.0**64), "GE")
    small = b.compare(size, filled(b, wide, 2.0**-64), "LT")
    one, up, down = (filled(b, wide, 2.0**e) for e in (0, 64, -64))
    scale = b.op("select", large, down, b.op("select", small, up, one))
    inverse = b.op("divide", one, b.op("multiply", wide, scale))
    first, last = b.op("select", small, scale, inverse), b.op("select", small, inverse, scale)
    result = b.convert(x, F32)
    for factor in (first, last):
        shape = divisor.array_shape.with_type(F32)
        spread = b.op("broadcast", factor, shape=shape, dimensions=divisor.dimensions)
        result = b.op("multiply", result, spread)
    return b.convert(result, type_of(inst))
