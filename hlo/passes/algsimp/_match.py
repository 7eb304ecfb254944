"""Matchers for rules, and helpers that build instructions.

Constants are compared by their bits, so that 0 and -0 differ, and seen through broadcasts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.analysis.constants import splat
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS, Trait
from hlo.values.types import ElementType, array, element_type_of, integer_range

# --- shapes -------------------------------------------------------------------------------------


def type_of(inst: Instruction) -> ElementType:
    """Return the element type of an instruction that gives an array."""
    return inst.array_shape.element_type


def is_float(inst: Instruction) -> bool:
    """True for an array of a real float type."""
    return type_of(inst).is_float


def dims_of(inst: Instruction) -> tuple[int, ...]:
    """Return the dimensions of an instruction that gives an array."""
    return inst.array_shape.dims


def is_exact(et: ElementType) -> bool:
    """True for types in which addition and multiplication are associative."""
    return et.is_integer or et.is_pred


def kept_dims(inst: Instruction) -> list[int]:
    """Return the dimensions whose size is not one."""
    return [d for d, size in enumerate(dims_of(inst)) if size != 1]


def only_ones_differ(a: Sequence[int], b: Sequence[int]) -> bool:
    """True when two lists of sizes are the same but for ones."""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def is_empty(inst: Instruction) -> bool:
    """True for an array without elements."""
    return inst.array_shape.num_elements == 0


def is_single_use(inst: Instruction) -> bool:
    """True when taking one user away leaves an instruction dead."""
    return inst.num_users == 1 and not inst.is_root


# --- constants ----------------------------------------------------------------------------------


def is_splat(inst: Instruction, number: complex) -> bool:
    """True for a constant of which every element is `number`, to the bit (0 is not -0)."""
    value = splat(inst)
    if value is None:
        return False
    et = element_type_of(value.dtype)
    if is_exact(et):
        return int(value) == number
    # The numbers 0 and -0 are equal, so that only their text tells them apart.
    return value.tobytes() == _encoded(et, repr(number))


@functools.cache
def _encoded(et: ElementType, number: str) -> bytes | None:
    """Return the bits of a number in a type, None where the type has no such number."""
    value = complex(number)
    parts = (value.real, value.imag) if et.is_complex else (value.real,)
    with np.errstate(all="ignore"):
        code = np.asarray(value if et.is_complex else value.real).astype(et.dtype)
    back = (code.real, code.imag) if et.is_complex else (code,)
    for have, want in zip(back, parts, strict=True):
        if float(have) != want or np.signbit(float(have)) != np.signbit(want):
            return None
    return code.tobytes()


def integer_splat(inst: Instruction) -> int | None:
    """Return the number that every element of an integer or pred constant is."""
    value = splat(inst)
    return int(value) if value is not None and is_exact(element_type_of(value.dtype)) else None


def float_splat(inst: Instruction) -> float | None:
    """Return the number that every element of a constant of a real float type is."""
    value = splat(inst)
    return float(value) if value is not None and type_of(inst).is_float else None


def all_ones(et: ElementType) -> int:
    """Return the number of an integer type or pred that has every bit set."""
    if et.is_pred:
        return 1
    return -1 if et.is_signed else integer_range(et)[1]


def has_negatives(et: ElementType) -> bool:
    """False for the one float type without a sign, in which -x is NaN."""
    return et.name != "f8e8m0fnu"


def has_many_exponents(inst: Instruction) -> bool:
    """True for float types whose range is wide beside their precision."""
    return type_of(inst).name in ("bf16", "f16", "f32", "f64")


def limits(et: ElementType) -> tuple[float, float] | None:
    """Return the least and the greatest number of a type that has an order, -inf and inf included.

    None for types without infinities, where numbers beyond the greatest are NaN or saturate.
    """
    if et.is_pred:
        return 0, 1
    if et.is_integer:
        return integer_range(et)
    if et.is_float and _encoded(et, repr(np.inf)) is not None:
        return -np.inf, np.inf
    return None


def is_constant(inst: Instruction) -> bool:
    """True for a constant, also when it is broadcast."""
    while inst.opcode == "broadcast":
        inst = inst.operands[0]
    return inst.opcode == "constant"


def scalar_integers(values: Sequence[Instruction]) -> list[int] | None:
    """Return the numbers that integer constants of one element are, None if any is no constant."""
    found = [integer_splat(v) for v in values]
    return None if None in found else [int(v) for v in found if v is not None]


def compute(opcode: str, *values: np.ndarray) -> np.ndarray:
    """Return what an elementwise operation without attributes yields for values."""
    op = Instruction(opcode, opcode, array(element_type_of(values[0].dtype), values[0].shape))
    assert op.spec.has(Trait.ELEMENTWISE)
    return np.asarray(op.spec.evaluate(op, values, None))  # type: ignore[arg-type]


def filled(b: Builder, inst: Instruction, value: Any) -> Instruction:
    """Append a splat of the type and dimensions of `inst`."""
    shape = inst.array_shape
    return b.filled(shape.element_type, shape.dims, value)


def folded(b: Builder, opcode: str, x: Instruction, y: Instruction) -> Instruction | None:
    """Append the constant that an operation on two splats of equal dimensions yields."""
    left, right = splat(x), splat(y)
    if left is None or right is None:
        return None
    return filled(b, x, compute(opcode, left, right))


def scalar_source(inst: Instruction) -> Instruction | None:
    """Return the scalar that an instruction broadcasts."""
    if inst.opcode != "broadcast" or dims_of(inst.operands[0]):
        return None
    return inst.operands[0]


# --- operations ---------------------------------------------------------------------------------

COMMUTATIVE = " ".join(s.name for s in OPS.values() if s.has(Trait.COMMUTATIVE))


def either_way(inst: Instruction) -> list[tuple[Instruction, Instruction]]:
    """Return the operands of a commutative operation in both orders."""
    x, y = inst.operands
    return [(x, y), (y, x)]


def factored(inst: Instruction, b: Builder) -> Instruction | None:
    """Append (x + y)*c for a sum x*c + y*c, or the like of a difference; None for anything else."""
    left, right = inst.operands
    if left.opcode != "multiply" or right.opcode != "multiply":
        return None
    if not (is_single_use(left) and is_single_use(right)):
        return None
    for x, c in either_way(left):
        for y, d in either_way(right):
            if c is d:
                return b.op("multiply", b.op(inst.opcode, x, y), c)
    return None


def returns_constant(comp: Computation) -> int | None:
    """Return the integer or pred that a computation always returns, None if not known."""
    root = comp.root
    return integer_splat(root) if root.opcode == "constant" else None
