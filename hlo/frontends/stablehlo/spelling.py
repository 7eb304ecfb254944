"""Words, types and constants in MLIR's syntax; attributes are in `attributes`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.values.literal import Literal
from hlo.values.scan import to_bytes
from hlo.values.types import UNBOUNDED, ArrayShape, ElementType, Shape, TupleShape, complex_part

_INTEGER = re.compile(r"([su])(\d+)")
_SYMBOL = re.compile(r"[A-Za-z_][\w$.]*")
# Constants of more elements are written as bytes.
_LISTED = 64


def element_word(et: ElementType) -> str:
    """Return MLIR's name of an element type. Raises InferError if it has none."""
    if et.is_pred:
        return "i1"
    if et.is_complex:
        return f"complex<{element_word(complex_part(et))}>"
    m = _INTEGER.fullmatch(et.name)
    if m is not None:
        if m[2] == "1":
            raise InferError(f"StableHLO has no {et}: its i1 is pred", code="unknown-type")
        return ("u" if m[1] == "u" else "") + f"i{m[2]}"
    return et.name[0] + et.name[1:].upper() if re.match(r"f\d+e", et.name) else et.name


def type_of(shape: Shape) -> str:
    """Return a shape as a type, without the layout: StableHLO has none."""
    if isinstance(shape, TupleShape):
        return f"tuple<{', '.join(map(type_of, shape.elements))}>"
    if not isinstance(shape, ArrayShape):
        if shape.is_token:
            return "!stablehlo.token"
        raise InferError(f"StableHLO has no {shape}", code="unknown-type")
    sizes = ["?" if n is None else str(n) for n in sizes_of(shape)]
    text = "x".join([*sizes, element_word(shape.element_type)])
    bounds = bounds_of(shape)
    if set(bounds) - {None}:
        words = ("?" if n is None else str(n) for n in bounds)
        text += f", #stablehlo.bounds<{', '.join(words)}>"
    return f"tensor<{text}>"


def sizes_of(shape: ArrayShape) -> list[int | None]:
    """Return the sizes of an array's dimensions, None for a dynamic one."""
    return [None if shape.is_dynamic_dim(i) else n for i, n in enumerate(shape.dims)]


def bounds_of(shape: ArrayShape) -> list[int | None]:
    """Return the bounds of an array's dimensions, None for those without one."""
    return [
        n if shape.is_dynamic_dim(i) and n != UNBOUNDED else None for i, n in enumerate(shape.dims)
    ]


def symbol(name: str) -> str:
    """Return a symbol reference, `@name`, quoted if necessary."""
    return "@" + (name if _SYMBOL.fullmatch(name) else string(name))


def string(text: str | bytes) -> str:
    """Return a quoted string; bytes that are not printable become two hex digits."""
    data = to_bytes(text) if isinstance(text, str) else text
    return '"' + "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data
    ) + '"'  # fmt: skip


def flag(value: bool) -> str:
    return "true" if value else "false"


def listed(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"


def dictionary(fields: Mapping[str, Any]) -> str:
    """Return `{key = value, ..}`."""
    parts = [f"{key if _SYMBOL.fullmatch(key) else string(key)} = {value}"
             for key, value in fields.items()]  # fmt: skip
    return "{" + ", ".join(parts) + "}"


def number(value: np.generic) -> str:
    """Return a number as MLIR writes it: with a point before the exponent, or as its bits."""
    if not np.isfinite(value):
        return f"0x{int.from_bytes(value.tobytes(), 'little'):0{value.nbytes * 2}X}"
    text = str(value)
    return text if "." in text else text.replace("e", ".0e")


# --- constants ----------------------------------------------------------------------------------


def dense(literal: Literal) -> str:
    """Return `dense<..> : type` of an array."""
    shape = literal.shape
    assert isinstance(shape, ArrayShape)
    values, et = literal.array.reshape(-1), shape.element_type
    if values.size and is_splat(values):
        inside = _number(values[0], et)
    elif values.size > _LISTED and not et.is_pred and et.bits >= 8:
        inside = f'"0x{np.ascontiguousarray(values).tobytes().hex().upper()}"'
    else:
        inside = nested([_number(v, et) for v in values], shape.dims)
    return f"dense<{inside}> : {type_of(shape)}"


def is_splat(values: np.ndarray) -> bool:
    """Whether all elements of a list, of which there is one at least, have the same bits."""
    rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    # Most lists that are no splat differ soon.
    return bool((rows[:64] == rows[0]).all() and (rows == rows[0]).all())


def nested(words: list[str], dims: Sequence[int]) -> str:
    """Return the elements of an array as lists inside of lists."""
    if 0 in dims:
        return ""
    for size in reversed(dims[1:]):
        words = [listed(words[i : i + size]) for i in range(0, len(words), size)]
    return listed(words) if dims else words[0]


def _number(value: Any, et: ElementType) -> str:
    if et.is_complex:
        part = complex_part(et)
        return f"({_number(value.real, part)}, {_number(value.imag, part)})"
    if et.is_pred:
        return flag(bool(value))
    if et.is_integer:
        return str(int(value))
    with np.errstate(invalid="ignore"):  # a signalling NaN
        number = float(value)
    if not np.isfinite(number) or (et.bits < 8 and number == 0):
        return f"0x{int.from_bytes(np.asarray(value).tobytes()[::-1], 'big'):0{et.byte_width * 2}X}"
    # The fewest digits that round-trip for f32, the exact value for other types.
    text = str(np.float32(value)) if et.name == "f32" else repr(number)
    mantissa, mark, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + mark + exponent
