"""The precision of a module's intermediate results."""

from __future__ import annotations

import ml_dtypes

from hlo.ir import Module
from hlo.values.types import ArrayShape

# Narrower types are quantized on purpose, not approximations of more precise numbers.
_FEWEST_DIGITS = 7


def rounded_digits(module: Module) -> int | None:
    """Return the smallest number of mantissa bits that intermediate results are rounded to, at
    least 7.

    None when no operation rounds numbers to fewer than those of its operand.
    """
    found: list[int] = []
    for inst in module.instructions():
        if inst.opcode == "reduce-precision":
            found.append(inst.mantissa_bits)
        elif inst.opcode == "convert":
            given, made = inst.operand_shapes[0], inst.shape
            if isinstance(given, ArrayShape) and isinstance(made, ArrayShape):
                before, after = _digits(given), _digits(made)
                if before is not None and after is not None and after < before:
                    found.append(after)
    return min((n for n in found if n >= _FEWEST_DIGITS), default=None)


def _digits(shape: ArrayShape) -> int | None:
    et = shape.element_type
    return int(ml_dtypes.finfo(et.dtype).nmant) if et.is_float or et.is_complex else None
