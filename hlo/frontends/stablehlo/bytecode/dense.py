"""Constants in bytecode: the bytes of their elements, and the text of them."""

from __future__ import annotations

import numpy as np

from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Stream, fail
from hlo.frontends.stablehlo.spelling import flag, nested
from hlo.frontends.stablehlo.types import element_type


def read_dense(r: Reader, s: Stream) -> tuple[Value, bytes, int]:
    """Return the type of a constant, its bytes, and the number of its elements."""
    kind = r.type(s)
    raw = s.blob()
    if not (isinstance(kind.value, tuple) and isinstance(kind.value[1], tuple)):
        fail(f"{kind.text} is not the type of a constant", s.pos)
    element, dims = kind.value
    count = int(np.prod(dims, dtype=object))
    if element == "i1":
        raw = _bytes_of_bits(raw, count)
    return kind, raw, count


def dense_text(raw: bytes, element: str, dims: tuple[int, ...], count: int) -> str:
    """Return what `dense` has: a list of integers, or bytes.

    What reads the attributes of a custom call takes lists only.
    """
    if not count:
        return ""
    et = element_type(element)
    if count > _MAX_INTEGERS or et is None or not (et.is_integer or et.is_pred):
        return f'"0x{raw.hex()}"'
    if len(raw) not in (et.byte_width, count * et.byte_width):
        return f'"0x{raw.hex()}"'
    values = np.frombuffer(raw, et.dtype).tolist()
    words = list(map(flag if et.is_pred else str, values))
    return words[0] if len(words) < count else nested(words, dims)


_MAX_INTEGERS = 64


def _bytes_of_bits(raw: bytes, count: int) -> bytes:
    """Return a byte for each truth value, or one for all: older files have a bit for each."""
    values = np.frombuffer(raw, np.uint8)
    if len(raw) == -(-count // 8) != count:
        values = np.unpackbits(values, bitorder="little")[:count]
    values = (values != 0).astype(np.uint8)
    return bytes(values[:1] if (values == values[:1]).all() else values)
