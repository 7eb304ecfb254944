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
from hlo.gpu.simt.instructions.products import products_of
from hlo.gpu.simt.instructions.warp import LANES

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
# So many warps at a time, that what is computed with stays in caches.
_MOST_WARPS = 128
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
    count_a, count_b = (n * depth * width // (unit * LANES) for n in (rows, columns))
    count_c, count_d = (
        rows * columns * _ELEMENT[t] // (max(32, _ELEMENT[t]) * LANES) for t in (of_c, of_d)
    )
    if columns != _GROUPS or sources != count_a + count_b + count_c or results != count_d:
        raise UnknownInstruction("no shape of matrices that is known")
    product = _fused if of_d == "f64" else products_of(count_a // count_b, count_b, unit // width)
    saturates = "satfinite" in modifiers

    def multiply_some(registers: Sequence[np.ndarray]) -> np.ndarray:
        a = _factor(registers[:count_a], of_a)
        b = _factor(registers[count_a : count_a + count_b], of_b)
        c = _elements(registers[count_a + count_b :], of_c)
        return _words(product(a, b, c), c, of_d, saturates=saturates)

    def apply(active: np.ndarray, *registers: np.ndarray) -> Any:
        warps = len(active)
        if warps <= _MOST_WARPS:
            found = multiply_some(registers)
        else:
            found = np.empty((count_d, warps, LANES), registers[-1].dtype)
            for begin in range(0, warps, _MOST_WARPS):
                part = slice(begin, begin + _MOST_WARPS)
                found[:, part] = multiply_some([r[part] for r in registers])
        return tuple(found) if count_d > 1 else found[0]

    word = "b64" if unit == 64 else "b32"
    sums = "b64" if of_c == "f64" else "b32"
    return Lanes((word,) * (count_a + count_b) + (sums,) * count_c, (sums,) * count_d, apply)


def _factor(registers: Sequence[np.ndarray], type_: str) -> np.ndarray:
    """Return the elements of a factor as doubles, an array of (register, warp, element)."""
    words = np.stack(registers)
    if type_ == "tf32":
        words &= _TF32_BITS
    return words.view(_DTYPES[type_]).astype(np.float64)


def _elements(registers: Sequence[np.ndarray], type_: str) -> np.ndarray:
    """Return the elements of a sum, an array of (element of a lane, warp, lane)."""
    found = np.stack(registers).view(_DTYPES[type_])
    if type_ != "f16":
        return found
    count, warps, _ = found.shape
    pairs = found.reshape(count, warps, LANES, 2)
    return pairs.transpose(0, 3, 1, 2).reshape(2 * count, warps, LANES)


def _words(
    product: np.ndarray, addend: np.ndarray, type_: str, *, saturates: bool
) -> np.ndarray:  # fmt: skip
    """Return the registers of a sum: of integers modulo 2^32, else rounded once."""
    if type_ == "f64":
        return product.view(np.uint64)
    if type_ == "s32":
        total = product.astype(np.int64) + addend
        if saturates:
            total = total.clip(-(1 << 31), (1 << 31) - 1)
        return total.astype(np.uint32)
    total = (product + addend).astype(_DTYPES[type_])
    if type_ == "f16":
        count, warps, _ = total.shape
        pairs = total.reshape(count // 2, 2, warps, LANES).transpose(0, 2, 3, 1)
        total = np.ascontiguousarray(pairs).reshape(count // 2, warps, -1)
    return total.view(np.uint32)


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a sum of products of doubles, each step of which is rounded once."""
    depths, warps, _ = b.shape
    rows = len(a) // depths
    a = a.reshape(depths, rows, warps, _GROUPS, 1, _MEMBERS)
    b = b.reshape(depths, 1, warps, 1, _GROUPS, _MEMBERS)
    c = c.reshape(rows, 2, warps, _GROUPS, _MEMBERS).transpose(0, 2, 3, 4, 1)
    total = np.ascontiguousarray(c).reshape(rows, warps, _GROUPS, _GROUPS)
    for depth in range(depths):
        for member in range(_MEMBERS):
            total = fused_f64(a[depth, ..., member], b[depth, ..., member], total)
    total = total.reshape(rows, warps, _GROUPS, _MEMBERS, 2).transpose(0, 4, 1, 2, 3)
    return np.ascontiguousarray(total).reshape(2 * rows, warps, LANES)


# --- matrices of 8 by 8 elements of 16 bits -------------------------------------------------------


def spread(rows: np.ndarray, *, transposed: bool) -> np.ndarray:
    """Return the register of each lane when `ldmatrix` has read a matrix.

    rows: uint16 of (warps, 8, 8). A lane has two neighbours in the row of its group, or, of the
    transposed matrix, in the column.
    """
    if transposed:
        rows = rows.transpose(0, 2, 1)
    return np.ascontiguousarray(rows).view(np.uint32).reshape(len(rows), LANES)


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
