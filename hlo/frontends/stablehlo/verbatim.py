"""Dictionaries of attributes that are kept as MLIR text, read as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.attributes import (
    Array,
    Attribute,
    Boolean,
    Dictionary,
    Elements,
    Float,
    Integer,
    List,
    String,
    Symbol,
    Unit,
    Verbatim,
)
from hlo.frontends.stablehlo.constants import dense_array
from hlo.frontends.stablehlo.cursor import Cursor, Tagged
from hlo.frontends.stablehlo.types import element_type
from hlo.values.literal import Literal


def parsed(verbatim: Verbatim) -> Dictionary:
    """Return the attributes in a dictionary's text. Raises InferError."""
    reader = _Reader(verbatim.text)
    try:
        found = reader.attribute()
        if not isinstance(found, Dictionary) or reader.pos != len(reader.text):
            reader.fail("it is not a dictionary", 0)
    except TextError as e:
        raise InferError(f"the attributes {verbatim.text}: {e.message}", code=e.code) from None
    return found


class _Reader(Cursor):
    """Reads attributes as values."""

    def attribute(self) -> Attribute:
        start = self.pos
        value = super().attribute()
        made = _made(value, self.kind)
        if made is None:
            self.fail(f"{self.text[start : self.pos].strip()} has no counterpart", start,
                      code="no-counterpart")  # fmt: skip
        return made


def _made(value: Any, kind: str) -> Attribute | None:
    """Return an attribute from what the parser makes of it, None for one of another kind."""
    if kind == "dictionary":
        return Dictionary({key: _field(v) for key, v in value.items()})
    if kind == "list":
        return List(tuple(value))
    if kind == "string":
        return String(value)
    if kind == "symbol":
        return Symbol(value)
    if kind == "unit":
        return Unit()
    if kind in ("bool", "i1"):
        return Boolean(bool(value))
    if kind.startswith("array<"):
        return Array(tuple(value), kind[len("array<") : -1])
    if isinstance(value, Tagged) and kind.startswith("elements<") and value.name == "dense":
        shape = value.type
        assert shape is not None
        return Elements(Literal(shape, np.array(dense_array(value.text, shape, value.start))))
    et = element_type(kind)
    if isinstance(value, int) and (kind == "index" or (et is not None and et.is_integer)):
        return Integer(value, kind)
    if et is not None and et.is_float:
        return Float(_number(value, et.dtype), kind)
    return None


def _field(value: Any) -> Attribute:
    """Return what a dictionary has: a name alone is True, and some values are kept as text."""
    return Unit() if value is True else Verbatim(value) if isinstance(value, str) else value


def _number(value: float, dtype: np.dtype) -> np.generic:
    """Return a number of a type, from itself or, where it is an integer, from its bits."""
    if isinstance(value, int):
        raw = np.array([value], np.uint64).astype(f"u{dtype.itemsize}")
        return raw.view(dtype)[0]
    with np.errstate(over="ignore"):
        return dtype.type(value)
