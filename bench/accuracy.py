"""How far results are from those of the same program in double precision."""

from __future__ import annotations

import re

import numpy as np

import hlo
from hlo.ir import Module
from hlo.values.literal import Literal
from hlo.values.types import element_type_of

_WIDE = {"f16": "f64", "bf16": "f64", "f32": "f64", "c64": "c128"}
_NARROW = re.compile(rf"\b({'|'.join(_WIDE)})\[")
# They depend on how numbers are encoded, or on the type that a library has a function for.
_OF_ONE_TYPE = frozenset({"bitcast-convert", "custom-call", "reduce-precision"})


def in_double(text: str) -> Module | None:
    """Return a program with all floats in double precision, None if that is another program.

    Constants are the numbers that they are in the narrow types.
    """
    narrow = hlo.parse(text)
    if any(inst.opcode in _OF_ONE_TYPE for inst in narrow.instructions()):
        return None
    wide = hlo.parse(_NARROW.sub(lambda found: f"{_WIDE[found[1]]}[", text))
    for was, now in zip(narrow.instructions(), wide.instructions(), strict=True):
        if was.opcode == "constant" and was.shape != now.shape:
            dtype = now.array_shape.element_type.dtype
            now.attrs["literal"] = Literal(now.shape, was.literal.array.astype(dtype))
    return wide


def widened(args: list[np.ndarray]) -> list[np.ndarray]:
    """Return arguments as the program in double precision takes them."""
    return [a.astype(_double(a.dtype)) if _is_narrow(a.dtype) else a for a in args]


def relative_error(got: list[np.ndarray], exact: list[np.ndarray]) -> float | None:
    """Return the root mean square of the differences over that of the exact values.

    Of the result where that is largest; None where none is narrow. What is not finite is left out.
    """
    found = []
    for g, e in zip(got, exact, strict=True):
        if not _is_narrow(g.dtype):
            continue
        values = g.astype(e.dtype)
        is_finite = np.isfinite(values) & np.isfinite(e)
        values, e = values[is_finite], e[is_finite]
        difference, size = np.abs(values - e), np.abs(e)
        if np.any(size):
            found.append(float(np.sqrt(np.mean(difference**2) / np.mean(size**2))))
    return max(found, default=None)


def _is_narrow(dtype: np.dtype) -> bool:
    return element_type_of(dtype).name in _WIDE


def _double(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex128 if dtype == np.complex64 else np.float64)
