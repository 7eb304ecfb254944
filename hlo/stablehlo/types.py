"""MLIR's types and dense constants as shapes and literals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hlo.errors import TextError
from hlo.literal import Literal
from hlo.scan import Scanner
from hlo.shape_text import MAX_NESTING, parse_shape
from hlo.types import (
    ELEMENT_TYPES,
    TOKEN,
    UNBOUNDED,
    ArrayShape,
    ElementType,
    Layout,
    Shape,
    TupleShape,
    complex_of,
    complex_part,
)

_DIM = re.compile(r"(\d{1,19}|\?)x")
_ELEMENT = re.compile(r"complex<(\w+)>|(\w+)")
_BOUNDS = re.compile(r"\s*,\s*#stablehlo\.(?:bounds|type_extensions)<([^>]*)>")


def element_type(word: str) -> ElementType | None:
    """Return the element type that MLIR calls `word` (`i32`, `ui8`, `f8E4M3FN`), or None."""
    m = re.fullmatch(r"(u|s)?i(\d+)", word)
    if m is not None:
        name = "pred" if m[0] == "i1" else f"{'u' if m[1] == 'u' else 's'}{m[2]}"
        return ELEMENT_TYPES.get(name)
    return ELEMENT_TYPES.get("s64" if word == "index" else word.lower())


def read_type(c: Scanner, depth: int = 0) -> Shape:
    """Read `tensor<2x3xf32>`, a tuple, a token or a bare element type, which is a scalar's."""
    start = c.pos
    if depth > MAX_NESTING:
        c.fail(f"tuples are nested more than {MAX_NESTING} deep", code="nesting-too-deep")
    if c.accept("!stablehlo.token") or c.accept("!mhlo.token"):
        return TOKEN
    if c.accept("tuple"):
        c.expect("<")
        elements: list[Shape] = []
        while not c.accept(">"):
            if elements:
                c.expect(",")
            elements.append(read_type(c, depth + 1))
        return TupleShape(tuple(elements))
    dims: list[int] = []
    is_tensor = c.accept("tensor")
    if is_tensor:
        c.expect("<")
        while m := _DIM.match(c.text, c.pos):
            dims.append(UNBOUNDED if m[1] == "?" else int(m[1]))
            c.pos = m.end()
    m = _ELEMENT.match(c.text, c.pos)
    if m is None:
        c.fail(f"expected a type, found {c.text[c.pos : c.pos + 20]!r}")
    et = element_type(m[1] or m[2])
    if et is not None and m[1] is not None:
        et = complex_of(et) if et.name in ("f32", "f64") else None
    if et is None:
        c.fail(f"{m[0]!r} is no element type of HLO", code="unknown-type")
    c.pos = m.end()
    dynamic = [d == UNBOUNDED for d in dims]
    if is_tensor:
        bounds = _BOUNDS.match(c.text, c.pos)
        if bounds is not None:
            words = bounds[1].replace("bounds", "").strip(" =[]").split(",")
            for i, word in enumerate(words[: len(dims)]):
                if word.strip().isdecimal():
                    dims[i] = int(word)
            c.pos = bounds.end()
        c.expect(">")
    c.skip()
    flags = tuple(dynamic) if any(dynamic) else ()
    shape = ArrayShape(et, tuple(dims), Layout.default(len(dims)), flags)
    try:
        return parse_shape(str(shape))
    except TextError as e:
        c.fail(e.message, start, code=e.code)


# --- constants ----------------------------------------------------------------------------------

_NUMBER = re.compile(r"true|false|-?0x[0-9a-fA-F]+|-?(?:\d[\d.eE+-]*)|(\S)")
_PUNCTUATION = re.compile(r"[\s,\[\]()]+")


def read_dense(text: str, shape: Shape, start: int) -> Literal:
    """Return the constant that `dense<text>` of a type spells. Raises TextError.

    Of one element for all it is a scalar: the text may be short where the array is large.
    """
    if not isinstance(shape, ArrayShape) or shape.dynamic:
        raise TextError("a constant is an array of static size", start, code="type-mismatch")
    et, count = shape.element_type, shape.num_elements
    if text.strip().startswith('"'):
        values = _from_hex(text.strip().strip('"'), et, count, start)
    else:
        values = _from_numbers(text, et, start)
    if len(values) not in (1, count):
        raise TextError(f"{len(values)} elements for {shape.to_string(False)}", start,
                        code="literal-shape")  # fmt: skip
    if len(values) != count:
        return Literal.of(values.reshape(()))
    return Literal(shape, np.array(values).reshape(shape.dims))


_MAX_ATTRIBUTE = 1 << 16


def dense_array(text: str, shape: Shape, start: int) -> np.ndarray:
    """Return the numbers of an attribute that is `dense<text>`: dimensions, padding, groups."""
    values = read_dense(text, shape, start).array
    assert isinstance(shape, ArrayShape)
    if shape.num_elements > _MAX_ATTRIBUTE and values.shape != shape.dims:
        raise TextError(f"an attribute of {shape.num_elements} numbers", start, code="bad-value")
    return np.broadcast_to(values, shape.dims)


def _from_hex(text: str, et: ElementType, count: int, start: int) -> np.ndarray:
    try:
        raw = np.frombuffer(bytes.fromhex(text.removeprefix("0x")), np.uint8)
    except ValueError:
        raise TextError("bytes of a constant that are no hexadecimal digits", start) from None
    if et.is_pred:
        # One byte for all, or a bit an element.
        return raw != 0 if len(raw) == 1 and count != 8 else _bits(raw, count)
    if len(raw) % et.byte_width:
        raise TextError(f"{len(raw)} bytes of {et}", start, code="literal-shape")
    return raw.view(et.dtype)


def _bits(raw: np.ndarray, count: int) -> np.ndarray:
    return np.unpackbits(raw, bitorder="little")[:count] != 0


def _from_numbers(text: str, et: ElementType, start: int) -> np.ndarray:
    words = [w for w in _PUNCTUATION.split(text) if w]
    part = complex_part(et)
    if not all((m := _NUMBER.fullmatch(w)) and not m[1] for w in words):
        bad = next(w for w in words if not (m := _NUMBER.fullmatch(w)) or m[1])
        raise TextError(f"{bad!r} is no element of a constant", start, code="bad-value")
    try:
        if part.is_pred:
            values = np.array([w in ("true", "1") for w in words], bool)
        elif part.is_integer:
            values = np.array([int(w, 0) & ((1 << 64) - 1) for w in words], np.uint64)
            values = values.astype(part.dtype)
        else:
            values = np.array([_float(w, part) for w in words], part.dtype)
    except (ValueError, OverflowError):
        raise TextError(f"elements of a constant that are no {et}", start,
                        code="bad-value") from None  # fmt: skip
    return values.view(et.dtype) if et.is_complex else values


def _float(word: str, et: ElementType) -> Any:
    if "x" not in word:
        with np.errstate(over="ignore"):
            return et.dtype.type(float(word))
    # The bits of the number.
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[et.byte_width]
    return np.array([int(word, 16)], np.uint64).astype(width).view(et.dtype)[0]
