"""Types, attributes and constants in MLIR's syntax."""

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
    dynamic = [shape.is_dynamic_dim(i) for i in range(shape.rank)]
    sizes = ["?" if d else str(n) for n, d in zip(shape.dims, dynamic, strict=True)]
    text = "x".join([*sizes, element_word(shape.element_type)])
    bounds = [str(n) if d and n != UNBOUNDED else "?"
              for n, d in zip(shape.dims, dynamic, strict=True)]  # fmt: skip
    if set(bounds) - {"?"}:
        text += f", #stablehlo.bounds<{', '.join(bounds)}>"
    return f"tensor<{text}>"


def symbol(name: str) -> str:
    """Return a symbol reference, `@name`, quoted if necessary."""
    return "@" + (name if _SYMBOL.fullmatch(name) else string(name))


def string(text: str | bytes) -> str:
    """Return a quoted string; bytes that are not printable become two hex digits."""
    data = to_bytes(text) if isinstance(text, str) else text
    return '"' + "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data
    ) + '"'  # fmt: skip


def integer(value: int, bits: int = 64) -> str:
    return f"{value} : i{bits}"


def flag(value: bool) -> str:
    return "true" if value else "false"


def integers(values: Iterable[int]) -> str:
    """Return `array<i64: 1, 2>`."""
    words = ", ".join(map(str, values))
    return f"array<i64: {words}>" if words else "array<i64>"


def flags(values: Iterable[bool]) -> str:
    words = ", ".join(map(flag, values))
    return f"array<i1: {words}>" if words else "array<i1>"


def listed(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"


def matrix(rows: Sequence[Sequence[int]], width: int) -> str:
    """Return rows of integers as an attribute of two dimensions."""
    inside = listed(map(listed, rows)) if rows and width else ""
    return f"dense<{inside}> : tensor<{len(rows)}x{width}xi64>"


def struct(name: str, fields: Mapping[str, Any]) -> str:
    """Return `#stablehlo.name<key = value, ..>`, without fields that are empty lists."""
    parts = [f"{key} = {listed(value) if isinstance(value, tuple) else value}"
             for key, value in fields.items() if value != ()]  # fmt: skip
    return f"#stablehlo.{name}<{', '.join(parts)}>"


def enum(kind: str, word: str) -> str:
    return f"#stablehlo<{kind} {word}>"


def dictionary(fields: Mapping[str, str]) -> str:
    """Return `{key = value, ..}`."""
    parts = [f"{key if _SYMBOL.fullmatch(key) else string(key)} = {value}"
             for key, value in fields.items()]  # fmt: skip
    return "{" + ", ".join(parts) + "}"


# --- constants ----------------------------------------------------------------------------------


def dense(literal: Literal) -> str:
    """Return `dense<..> : type` of an array. Raises InferError for an elided one, or a tuple."""
    shape = literal.shape
    if literal.elided:
        raise InferError("its elements are elided, {...}", code="elided-constants")
    if not isinstance(shape, ArrayShape):
        raise InferError(f"StableHLO has no constants of {shape}", code="unknown-type")
    values, et = literal.array.reshape(-1), shape.element_type
    if values.size and _is_splat(values):
        inside = _number(values[0], et)
    elif values.size > _LISTED and not et.is_pred and et.bits >= 8:
        inside = f'"0x{np.ascontiguousarray(values).tobytes().hex().upper()}"'
    else:
        inside = _nested([_number(v, et) for v in values], shape.dims)
    return f"dense<{inside}> : {type_of(shape)}"


def _is_splat(values: np.ndarray) -> bool:
    rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return bool((rows == rows[0]).all())


def _nested(words: list[str], dims: Sequence[int]) -> str:
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
