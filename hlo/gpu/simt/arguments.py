"""What a launch is called with, as numbers: dimensions of its grid, and the kernel's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from hlo.errors import HloError
from hlo.gpu.ptx.records import Variable

# Sizes in x, y and z, of a grid or of a block.
Dims = tuple[int, int, int]
# A number, an address among them, or the bytes of a structure.
Argument = SupportsIndex | float | bytes | np.generic
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_WORD = 8


def dims_of(value: SupportsIndex | Sequence[SupportsIndex], what: str) -> Dims:
    """Return a size in x, or in x, y and z, as all three. Raises HloError for what is none."""
    try:
        sizes = [int(n) for n in value] if isinstance(value, Sequence) else [value.__index__()]
    except (AttributeError, TypeError, ValueError):
        sizes = []
    if not 1 <= len(sizes) <= 3:
        raise HloError.at(
            "bad-launch", f"{value!r} is not a number of {what}, nor three of them for x, y, z"
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def words_of(parameter: Variable, value: Argument) -> np.ndarray:
    """Return an argument as a row of words of 64 bits, zeros after it. Raises HloError.

    Python's numbers become what the parameter is; what has a size has to have that.
    """
    data = _data(parameter, value)
    if data is None:
        raise HloError.at(
            "bad-launch", f"parameter {parameter.name}, {parameter.size} bytes of "
            f"{parameter.type}, cannot be {value!r}",
        )  # fmt: skip
    padded = data + bytes(-len(data) % _WORD)
    return np.frombuffer(padded, np.uint64).reshape(1, -1)


def _data(parameter: Variable, value: Any) -> bytes | None:
    size, type_ = parameter.size, parameter.type
    if isinstance(value, int) and type_ in _FLOATS:
        value = float(value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        float_ = _FLOATS.get(type_.replace("b", "f"))
        return None if float_ is None else np.array(value, float_).tobytes()
    if isinstance(value, np.generic) and not isinstance(value, np.integer):
        value = value.tobytes()
    if isinstance(value, bytes):
        return value if len(value) == size else None
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        return None
    if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
        return None
    return (number % (1 << (8 * size))).to_bytes(size, "little")
