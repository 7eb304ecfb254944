"""Products of matrices by the tensor cores, whose elements the lanes of a warp hold.

A lane is in one of 8 groups of 4. Of the first factor, a register of a lane has neighbours in a
row; registers alternate between the row of the group and the eighth after it, and go on along the
row. Of the second factor they go on along the column of the group. Of the sum, a lane has pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from hlo.gpu.simt.instructions.floating import fused_f64
from hlo.gpu.simt.instructions.operation import Lanes, Semantics, UnknownInstruction

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_GROUPS, _MEMBERS = 8, 4
# Bits of an element in a register.
_ELEMENT = {
    **dict.fromkeys(("s8", "u8", "e4m3", "e5m2"), 8), **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("tf32", "f32", "s32"), 32), "f64": 64,
}  # fmt: skip
_DTYPES: dict[str, Any] = {
    "s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
    "s32": np.int32, "f64": np.float64,
}  # fmt: skip
# What the tensor cores read of a tf32: they do not look at the low bits.
_TF32_BITS = np.uint32(0xFFFFE000)


def multiply(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`mma.sync`: a product of two matrices of a warp, added to a third one."""
    shape = next((m for m in map(_SHAPE.match, modifiers) if m), None)
    of_d, of_a, of_b, of_c = modifiers[-4:]
    if shape is None or "row" not in modifiers or any(t not in _DTYPES for t in modifiers[-4:]):
        raise UnknownInstruction("no product of matrices that is known")
    rows, columns, depth = (int(n) for n in shape.groups())
    width = _ELEMENT[of_a]
    unit = max(32, width)
    count_a, count_b = (n * depth * width // (unit * 32) for n in (rows, columns))
    count_c, count_d = (
        rows * columns * _ELEMENT[t] // (max(32, _ELEMENT[t]) * 32) for t in (of_c, of_d)
    )
    if columns != _GROUPS or sources != count_a + count_b + count_c or results != count_d:
        raise UnknownInstruction("no shape of matrices that is known")
    saturates = "satfinite" in modifiers

    def apply(active: np.ndarray, *registers: np.ndarray) -> Any:
        a = left_factor(registers[:count_a], of_a, rows)
        b = right_factor(registers[count_a : count_a + count_b], of_b)
        c = accumulator(registers[count_a + count_b :], of_c, rows)
        found = scatter(_sum_of_products(a, b, c, of_d, saturates=saturates), of_d)
        return found if len(found) > 1 else found[0]

    word = "b64" if unit == 64 else "b32"
    sums = "b64" if of_c == "f64" else "b32"
    return Lanes((word,) * (count_a + count_b) + (sums,) * count_c, (sums,) * count_d, apply)


def _sum_of_products(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, type_: str, *, saturates: bool
) -> np.ndarray:  # fmt: skip
    """Return c + a b: of integers modulo 2^32, of f64 by fused steps, else rounded once."""
    if type_ == "f64":
        for k in range(a.shape[2]):
            c = fused_f64(a[:, :, k, None], b[:, None, k, :], c)
        return c
    product = np.matmul(a.astype(np.float64), b.astype(np.float64))
    if type_ == "s32":
        total = product.astype(np.int64) + c
        if saturates:
            total = total.clip(-(1 << 31), (1 << 31) - 1)
        return total.astype(np.int32)
    return (product + c).astype(_DTYPES[type_])


def _elements(registers: Sequence[np.ndarray], type_: str) -> np.ndarray:
    """Return the elements in registers, an array of (warps, group, member, register, element)."""
    words = np.stack(registers, axis=-1)
    if type_ == "tf32":
        words = words & _TF32_BITS
    found = words.view(_DTYPES[type_])
    return found.reshape(len(words), _GROUPS, _MEMBERS, len(registers), -1)


def left_factor(registers: Sequence[np.ndarray], type_: str, rows: int) -> np.ndarray:
    """Return the first factor, an array of (warps, rows, depth)."""
    found = _elements(registers, type_)
    warps, each = len(found), found.shape[-1]
    found = found.reshape(warps, _GROUPS, _MEMBERS, -1, rows // _GROUPS, each)
    return found.transpose(0, 4, 1, 3, 2, 5).reshape(warps, rows, -1)


def right_factor(registers: Sequence[np.ndarray], type_: str) -> np.ndarray:
    """Return the second factor, an array of (warps, depth, columns)."""
    found = _elements(registers, type_)
    return found.transpose(0, 3, 2, 4, 1).reshape(len(found), -1, _GROUPS)


def accumulator(registers: Sequence[np.ndarray], type_: str, rows: int) -> np.ndarray:
    """Return the matrix that is added to, an array of (warps, rows, columns)."""
    found = _elements(registers, type_)
    found = found.reshape(len(found), _GROUPS, _MEMBERS, rows // _GROUPS, 2)
    return found.transpose(0, 3, 1, 2, 4).reshape(len(found), rows, -1)


def scatter(matrix: np.ndarray, type_: str) -> tuple[np.ndarray, ...]:
    """Return the registers of a sum."""
    warps, rows, _ = matrix.shape
    found = matrix.reshape(warps, rows // _GROUPS, _GROUPS, _MEMBERS, 2)
    found = np.ascontiguousarray(found.transpose(0, 2, 3, 1, 4))
    word = np.uint64 if type_ == "f64" else np.uint32
    registers = found.reshape(warps, 32, -1).view(word)
    return tuple(np.ascontiguousarray(registers[:, :, n]) for n in range(registers.shape[2]))


# --- matrices of 8 by 8 elements of 16 bits -------------------------------------------------------


def spread(rows: np.ndarray, *, transposed: bool) -> np.ndarray:
    """Return the register of each lane when `ldmatrix` has read a matrix.

    rows: uint16 of (warps, 8, 8). A lane has two neighbours in the row of its group, or, of the
    transposed matrix, in the column.
    """
    if transposed:
        rows = rows.transpose(0, 2, 1)
    return np.ascontiguousarray(rows).view(np.uint32).reshape(len(rows), 32)


def collect(register: np.ndarray, *, transposed: bool) -> np.ndarray:
    """Return the matrix that lanes hold, uint16 of (warps, 8, 8); the inverse of `spread`."""
    rows = np.ascontiguousarray(register).view(np.uint16).reshape(-1, 8, 8)
    return rows.transpose(0, 2, 1) if transposed else rows


def transpose(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`movmatrix`: the transposed matrix."""

    def apply(active: np.ndarray, register: np.ndarray) -> np.ndarray:
        return spread(collect(register, transposed=False), transposed=True)

    return Lanes(("b32",), ("b32",), apply)


SEMANTICS: dict[str, Semantics] = {"mma": multiply, "movmatrix": transpose}
