"""Attributes and types of MLIR's dialect builtin in bytecode.

Portable artifacts have few of them: locations, and names of modules. Source: MLIR's definition of
the builtin dialect's bytecode, whose codes are the positions in these tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.discardable import read_dense, read_float, read_list
from hlo.frontends.stablehlo.bytecode.stream import Stream, fail
from hlo.frontends.stablehlo.spelling import string

_BARE = re.compile(r"[A-Za-z_][\w$.]*")
UNIT = Value("unit", True)


def read_array(r: Reader, s: Stream) -> Value:
    """Return a list of attributes."""
    values = r.attributes(s)
    return Value(f"[{', '.join(v.text for v in values)}]", values)


def read_dictionary(r: Reader, s: Stream) -> Value:
    """Return a dictionary of attributes."""
    pairs: dict[str, Value] = {}
    for _ in range(s.count()):
        key = r.attribute(s)
        if not isinstance(key.value, str):
            fail("a key of a dictionary is not a string", s.pos)
        pairs[key.value] = r.attribute(s)
    names = ((k if _BARE.fullmatch(k) else string(k), v) for k, v in pairs.items())
    words = (f"{name} = {v.text}" if v is not UNIT else name for name, v in names)
    return Value(f"{{{', '.join(words)}}}", pairs)


def read_type_attribute(r: Reader, s: Stream) -> Value:
    """Return a type that is an attribute."""
    return r.type(s)


def read_string(r: Reader, s: Stream) -> Value:
    """Return a string."""
    value = r.string(s)
    return Value(string(value), value)


def _typed_string(r: Reader, s: Stream) -> Value:
    found = read_string(r, s)
    r.type(s)
    return found


def _symbol(r: Reader, s: Stream) -> Value:
    name = r.attribute(s)
    return Value(f"@{name.value if _BARE.fullmatch(str(name.value)) else name.text}")


def _nested_symbol(r: Reader, s: Stream) -> Value:
    root = r.attribute(s)
    return Value("::".join([f"@{root.text}", *(v.text for v in r.attributes(s))]))


def _unit(r: Reader, s: Stream) -> Value:
    return UNIT


def _integer(r: Reader, s: Stream) -> Value:
    kind = r.type(s)
    bits = kind.value if isinstance(kind.value, int) else 64
    value = s.wide(bits)
    if kind.text == "i1":
        return Value("true" if value & 1 else "false", bool(value & 1))
    return Value(f"{value} : {kind.text}", value)


# --- locations ----------------------------------------------------------------------------------


def _call_site(r: Reader, s: Stream) -> Value:
    """Decode a call, whose caller may be a call in turn, and so on: stacks are deep.

    Callers are defined apart, since many operations have the same.
    """
    callees = [(r.attribute(s).text, 0)]
    while (inner := r.behind(s, "builtin", _CALL_SITE)) is not None:
        s, number = inner
        callees.append((r.attribute(s).text, number))
    text = r.attribute(s).text
    while len(callees) > 1:
        callee, number = callees.pop()
        text = r.define_location(number, f"callsite({callee} at {text})")
    return Value(f"callsite({callees[0][0]} at {text})")


def _file(r: Reader, s: Stream) -> Value:
    name = r.attribute(s)
    line = s.varint()
    return Value(f"{name.text}:{line}:{s.varint()}")


def _file_range(r: Reader, s: Stream) -> Value:
    """Decode a location from one line and column to another, whose form says what is left out."""
    name = r.attribute(s)
    numbers = [s.varint() for _ in range(s.count())]
    if not 1 <= len(numbers) <= 4:
        fail(f"a location in a file has {len(numbers)} numbers", s.pos)
    line, column, *end = [*numbers, 0][: max(len(numbers), 2)]
    start = f"{name.text}:{line}:{column}"
    if not end:
        return Value(start)
    end_line = end[0] if len(end) == 2 else ""
    return Value(f"{start} to {end_line}:{end[-1]}")


def _fused(r: Reader, s: Stream) -> Value:
    return Value(f"fused[{', '.join(v.text for v in r.attributes(s))}]")


def _fused_with_metadata(r: Reader, s: Stream) -> Value:
    parts = r.attributes(s)
    return Value(f"fused<{r.attribute(s).text}>[{', '.join(v.text for v in parts)}]")


def _named(r: Reader, s: Stream) -> Value:
    name, inside = r.attribute(s), r.attribute(s)
    return name if inside.text == "unknown" else Value(f"{name.text}({inside.text})")


def _unknown(r: Reader, s: Stream) -> Value:
    return Value("unknown")


_CALL_SITE = 10
_ATTRIBUTES: dict[int, Callable[[Reader, Stream], Value]] = {
    0: read_array, 1: read_dictionary, 2: read_string, 3: _typed_string, 4: _symbol,
    5: _nested_symbol, 6: read_type_attribute, 7: _unit, 8: _integer, 9: read_float,
    _CALL_SITE: _call_site, 11: _file, 12: _fused,
    13: _fused_with_metadata, 14: _named, 15: _unknown,
    17: read_list, 18: read_dense, 22: _file_range,
}  # fmt: skip


# --- types --------------------------------------------------------------------------------------


def read_function_type(r: Reader, s: Stream) -> Value:
    """Return the type of a function."""
    sides = [", ".join(t.text for t in r.types(s)) for _ in range(2)]
    return Value(f"({sides[0]}) -> ({sides[1]})")


def read_complex_type(r: Reader, s: Stream) -> Value:
    """Return the type of complex numbers."""
    return Value(f"complex<{r.type(s).text}>")


def read_tensor_type(r: Reader, s: Stream, encoding: str = "") -> Value:
    """Return the type of an array; its value is the element type and the sizes."""
    dims = s.signed_list()
    sizes = "".join("?x" if d == _DYNAMIC else f"{d}x" for d in dims)
    element = r.type(s).text
    return Value(f"tensor<{sizes}{element}{encoding}>", (element, tuple(dims)))


def read_tensor_type_with_encoding(r: Reader, s: Stream) -> Value:
    """Return the type of an array with bounds."""
    return read_tensor_type(r, s, f", {r.attribute(s).text}")


def read_tuple_type(r: Reader, s: Stream) -> Value:
    """Return the type of a tuple."""
    return Value(f"tuple<{', '.join(t.text for t in r.types(s))}>")


_DYNAMIC = -(1 << 63)


def _integer_type(r: Reader, s: Stream) -> Value:
    word = s.varint()
    return Value(f"{('', 's', 'u', '')[word & 3]}i{word >> 2}", word >> 2)


def _word(text: str) -> Callable[[Reader, Stream], Value]:
    return lambda r, s: Value(text)


_TYPES: dict[int, Callable[[Reader, Stream], Value]] = {
    0: _integer_type, 1: _word("index"), 2: read_function_type, 3: _word("bf16"), 4: _word("f16"),
    5: _word("f32"), 6: _word("f64"), 9: read_complex_type, 12: _word("none"), 13: read_tensor_type,
    14: read_tensor_type_with_encoding,
    15: read_tuple_type,
}  # fmt: skip


def decoder(table: dict[int, Callable[[Reader, Stream], Value]], what: str) -> Any:
    """Return the decoder whose first number selects an entry of a table."""

    def decode(r: Reader, s: Stream) -> Value:
        start, code = s.pos, s.varint()
        if code not in table:
            fail(f"{what} has the code {code}, which is not read", start)
        return table[code](r, s)

    return decode


decode_attribute = decoder(_ATTRIBUTES, "an attribute of the dialect builtin")
decode_type = decoder(_TYPES, "a type of the dialect builtin")
