"""Files of named arrays: npz, and safetensors, which is memory-mapped."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.io.files import named_file, read_npz, reason_of
from hlo.values.types import ELEMENT_TYPES

SAFETENSORS = ".safetensors"
# The format's names of element types.
_TYPES = {
    "BOOL": "pred", "U8": "u8", "I8": "s8", "U16": "u16", "I16": "s16", "U32": "u32", "I32": "s32",
    "U64": "u64", "I64": "s64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64",
    "C64": "c64", "F8_E4M3": "f8e4m3fn", "F8_E5M2": "f8e5m2", "F8_E8M0": "f8e8m0fnu",
}  # fmt: skip
_LENGTH_BYTES = 8
# Larger than any real header; files of other formats often begin with a huge number here.
_MOST_HEADER_BYTES = 100_000_000


def read_archive(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays in an npz or a safetensors file by name. Raises HloError."""
    is_safetensors = str(path).endswith(SAFETENSORS)
    return read_safetensors(path) if is_safetensors else read_npz(path)


def read_safetensors(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays in a safetensors file by name: read-only views of the file.

    Pages are loaded on access. Raises HloError.
    """
    try:
        place = named_file(path)
        size = place.stat().st_size
        data = np.memmap(place, np.uint8, "r") if size else np.empty(0, np.uint8)
    except (OSError, ValueError) as e:
        reason = reason_of(e) if isinstance(e, OSError) else str(e)
        raise HloError.at("bad-file", f"{path}: {reason}") from None
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    if size < _LENGTH_BYTES or not start <= min(size, _MOST_HEADER_BYTES):
        raise _broken(path, "its header is longer than the file")
    try:
        header = json.loads(data[_LENGTH_BYTES:start].tobytes())
    except (ValueError, RecursionError) as e:
        raise _broken(path, f"its header is not JSON: {e}") from None
    if not isinstance(header, dict):
        raise _broken(path, "its header is not a JSON object")
    header.pop("__metadata__", None)
    return {name: _array(path, name, entry, data[start:]) for name, entry in header.items()}


def _broken(path: str | Path, why: str) -> HloError:
    return HloError.at("bad-file", f"{path}: broken, or not a safetensors file: {why}")


def _array(path: str | Path, name: str, entry: Any, data: np.ndarray) -> np.ndarray:
    """Return the array described by an entry of the header."""
    fields = entry if isinstance(entry, dict) else {}
    dims, ends = _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    if dims is None or ends is None or len(ends) != 2:
        raise _broken(path, f"{name!r} has no shape and data_offsets")
    kind = fields.get("dtype")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise HloError.at("bad-file", f"{path}: {name!r} is of type {kind!r}, which is not read")
    dtype = ELEMENT_TYPES[_TYPES[kind]].dtype
    begin, end = ends
    if not begin <= end <= data.size or end - begin != math.prod(dims) * dtype.itemsize:
        raise _broken(path, f"{name!r}, {kind}{dims}, is not what is at {begin}:{end}")
    if dtype == np.bool_:
        return np.asarray(data[begin:end] != 0).reshape(dims)
    return np.asarray(data[begin:end].view(dtype).reshape(dims))


def _sizes(value: Any) -> list[int] | None:
    """Return a list of sizes from JSON, None for anything else."""
    is_one = isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
    return value if is_one else None
