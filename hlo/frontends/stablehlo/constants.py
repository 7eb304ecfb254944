"""MLIR's constants, `dense<..>`, as literals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import TextError
from hlo.frontends.stablehlo.spelling import is_splat
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, ElementType, Shape, complex_part, integer_range

_PUNCTUATION = re.compile(r"[,\[\]()]+")


def read_dense(text: str, shape: Shape, start: int) -> Literal:
    """Parse the constant `dense<text>` of a type. Raises TextError.

    A splat is a scalar: the text may be short where the array is large.
    """
    if not isinstance(shape, ArrayShape) or shape.dynamic:
        raise TextError("a constant is an array of static size", start, code="type-mismatch")
    et, count = shape.element_type, shape.num_elements
    if text.strip().startswith('"'):
        values = _from_hex(text.strip().strip('"'), et, count, start)
    else:
        values = _from_numbers(text, et, start)
        if len(values) in (1, count) and not _is_nested(text, shape.dims):
            raise TextError(f"its lists are not those of {shape.to_string(False)}", start,
                            code="literal-shape")  # fmt: skip
        if len(values) == count > 1 and is_splat(values):
            values = values[:1]
    if len(values) not in (1, count):
        raise TextError(f"{len(values)} elements for {shape.to_string(False)}", start,
                        code="literal-shape")  # fmt: skip
    if len(values) != count:
        return Literal.of(values.reshape(()))
    return Literal(shape, np.array(values).reshape(shape.dims))


_MAX_ATTRIBUTE = 1 << 16
_COMPLEX = re.compile(r"\([^()]*\)")
_NO_BRACKET = re.compile(r"[^][,]+")


def _is_nested(text: str, dims: Sequence[int]) -> bool:
    """Whether the lists of a constant have the sizes of an array; one number is a splat."""
    brackets = _NO_BRACKET.sub("", _COMPLEX.sub("", text))
    if not brackets:
        return bool(text.strip()) or 0 in dims
    if 0 in dims:
        return brackets.strip("[]") == ""
    inner = ""
    for size in reversed(dims):
        inner = f"[{','.join([inner] * size)}]"
    return brackets == inner


def _bad_number(words: Sequence[str], et: ElementType) -> str | None:
    """Return the first word that is no number of an element type: MLIR's integers have no point,
    its other numbers have one, or are the bits in hexadecimal digits."""
    if et.is_pred:
        return next((w for w in words if w not in ("true", "false", "0", "1", "-1")), None)
    if not et.is_integer:
        digits = et.byte_width * 2
        for w in words:
            m = None if _DECIMAL.fullmatch(w) else _HEX_BITS.fullmatch(w)
            if not _DECIMAL.fullmatch(w) and (m is None or len(m[1]) > digits):
                return w
        return None
    low, high = integer_range(et)
    if low < 0:
        high = 2 * high + 1
    return next((w for w in words if not _INTEGER.fullmatch(w) or not low <= int(w, 0) <= high),
                None)  # fmt: skip


_DECIMAL = re.compile(r"-?\d++\.\d*+(?:[eE][+-]?\d++)?")
_HEX_BITS = re.compile(r"0x0*+([0-9a-fA-F]*+)")
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]++|\d++)")


def dense_array(text: str, shape: Shape, start: int) -> np.ndarray:
    """Return the numbers of a `dense<text>` attribute: dimensions, padding, groups."""
    values = read_dense(text, shape, start).array
    assert isinstance(shape, ArrayShape)
    if shape.num_elements > _MAX_ATTRIBUTE and values.shape != shape.dims:
        raise TextError(f"an attribute of {shape.num_elements} numbers", start, code="bad-value")
    return np.broadcast_to(values, shape.dims)


def _from_hex(text: str, et: ElementType, count: int, start: int) -> np.ndarray:
    if not text.startswith("0x"):
        raise TextError("bytes of a constant begin with 0x", start)
    try:
        raw = np.frombuffer(bytes.fromhex(text.removeprefix("0x")), np.uint8)
    except ValueError:
        raise TextError("bytes of a constant that are not hexadecimal digits", start) from None
    if et.is_pred:
        # A byte per element; before 2026 a bit. A single byte may be a splat.
        bits = len(raw) not in (1, count) or (count <= 8 and len(raw) == 1 and raw[0] not in _BYTES)
        return _bits(raw, count) if bits else raw != 0
    if len(raw) % et.byte_width:
        raise TextError(f"{len(raw)} bytes of {et}", start, code="literal-shape")
    return raw.view(et.dtype)


_BYTES = (0, 1, 0xFF)


def _bits(raw: np.ndarray, count: int) -> np.ndarray:
    return np.unpackbits(raw, bitorder="little")[:count] != 0


def _from_numbers(text: str, et: ElementType, start: int) -> np.ndarray:
    words = [w for w in map(str.strip, _PUNCTUATION.split(text)) if w]
    part = complex_part(et)
    bad = _bad_number(words, part)
    if bad is not None:
        raise TextError(f"{bad!r} is not a number of {part}", start, code="bad-value")
    try:
        if part.is_pred:
            values = np.array([w in ("true", "1", "-1") for w in words], bool)
        elif part.is_integer:
            values = np.array([int(w, 0) & ((1 << 64) - 1) for w in words], np.uint64)
            values = values.astype(part.dtype)
        else:
            values = np.array([_float(w, part) for w in words], part.dtype)
    except (ValueError, OverflowError):
        raise TextError(f"elements of a constant that are not {et}", start,
                        code="bad-value") from None  # fmt: skip
    if et.is_complex and len(values) % 2:
        raise TextError("a complex number is two numbers", start, code="literal-shape")
    return values.view(et.dtype) if et.is_complex else values


def _float(word: str, et: ElementType) -> Any:
    if "x" not in word:
        with np.errstate(over="ignore"):
            return et.dtype.type(float(word))
    # The bits of the number.
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[et.byte_width]
    return np.array([int(word, 16)], np.uint64).astype(width).view(et.dtype)[0]
