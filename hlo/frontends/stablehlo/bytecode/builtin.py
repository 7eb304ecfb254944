"""Attributes and types of MLIR's dialect builtin in bytecode: decoding and encoding.

Portable artifacts have few of them: locations, and names of modules. Source: MLIR's definition of
the builtin dialect's bytecode, whose codes are the positions in these tables.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, cast

from hlo.frontends.stablehlo.attributes import Dictionary, Integer, List, Location, String
from hlo.frontends.stablehlo.bytecode.assembly import Encoder
from hlo.frontends.stablehlo.bytecode.codes import Code, Read, decoder, encoder
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.dense import dense_text, read_dense
from hlo.frontends.stablehlo.bytecode.discardable import read_float, read_list
from hlo.frontends.stablehlo.bytecode.stream import Output, Stream, fail
from hlo.frontends.stablehlo.spelling import string

_BARE = re.compile(r"[A-Za-z_][\w$.]*")
UNIT = Value("unit", True)


def read_array(r: Reader, s: Stream) -> Value:
    """Return a list of attributes."""
    values = r.attributes(s)
    return Value(f"[{', '.join(v.text for v in values)}]", values)


def write_array(e: Encoder, out: Output, a: List) -> None:
    """Write a list of attributes."""
    e.attributes(out, a.items)


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


def write_dictionary(e: Encoder, out: Output, a: Dictionary) -> None:
    """Write a dictionary of attributes."""
    e.pairs(out, a.fields)


def read_type_attribute(r: Reader, s: Stream) -> Value:
    """Return a type that is an attribute."""
    return r.type(s)


def read_string(r: Reader, s: Stream) -> Value:
    """Return a string."""
    value = r.string(s)
    return Value(string(value), value)


def write_string(e: Encoder, out: Output, a: String) -> None:
    """Write a string."""
    out.varint(e.string(a.value))


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
    if not kind.text.startswith("u"):
        value = with_sign(value, bits)
    return Value(f"{value} : {kind.text}", value)


def with_sign(value: int, bits: int) -> int:
    """Return an integer whose highest bit is its sign: bytecode has narrow ones without."""
    return value - (value >> (bits - 1) << bits) if 0 <= value < 1 << bits else value


def _write_integer(e: Encoder, out: Output, a: Integer) -> None:
    out.varint(e.type(a.kind))
    out.wide(a.value, int(a.kind.lstrip("sui")))


def _elements(r: Reader, s: Stream) -> Value:
    kind, raw, count = read_dense(r, s)
    element, dims = kind.value
    return Value(f"dense<{dense_text(raw, element, dims, count)}> : {kind.text}")


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


def _write_file(e: Encoder, out: Output, where: Location) -> None:
    out.varint(e.attribute(String(where.file)))
    out.varint(where.line)
    out.varint(where.column)


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


def _write_named(e: Encoder, out: Output, where: Location) -> None:
    out.varint(e.attribute(String(where.name)))
    out.varint(e.attribute(replace(where, name="")))


def _unknown(r: Reader, s: Stream) -> Value:
    return Value("unknown")


_CALL_SITE = 10
_ATTRIBUTES = {
    0: Code(read_array, List, write_array),
    1: Code(read_dictionary, Dictionary, write_dictionary),
    2: Code(read_string, String, write_string),
    3: Code(_typed_string),
    4: Code(_symbol),
    5: Code(_nested_symbol),
    6: Code(read_type_attribute),
    7: Code(_unit),
    8: Code(_integer, Integer, _write_integer),
    9: Code(read_float),
    _CALL_SITE: Code(_call_site),
    11: Code(_file, "file", _write_file),
    12: Code(_fused),
    13: Code(_fused_with_metadata),
    14: Code(_named, "named", _write_named),
    15: Code(_unknown, "unknown"),
    17: Code(read_list),
    18: Code(_elements),
    22: Code(_file_range),
}


def _key_of(value: Any) -> Hashable:
    if isinstance(value, Location):
        return "named" if value.name else "file" if value.file else "unknown"
    return cast("Hashable", type(value))


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
    sizes = "".join("?x" if d == DYNAMIC else f"{d}x" for d in dims)
    element = r.type(s).text
    return Value(f"tensor<{sizes}{element}{encoding}>", (element, tuple(dims)))


def read_tensor_type_with_encoding(r: Reader, s: Stream) -> Value:
    """Return the type of an array with bounds."""
    return read_tensor_type(r, s, f", {r.attribute(s).text}")


def read_tuple_type(r: Reader, s: Stream) -> Value:
    """Return the type of a tuple."""
    return Value(f"tuple<{', '.join(t.text for t in r.types(s))}>")


DYNAMIC = -(1 << 63)
"""What stands for the size of an unbounded dimension, and for a bound that is not given."""


def _integer_type(r: Reader, s: Stream) -> Value:
    word = s.varint()
    return Value(f"{('', 's', 'u', '')[word & 3]}i{word >> 2}", word >> 2)


def _write_integer_type(e: Encoder, out: Output, word: str) -> None:
    out.varint(int(word.removeprefix("i")) << 2)


def _word(text: str) -> Read:
    return lambda r, s: Value(text)


_TYPES = {
    0: Code(_integer_type, "integer", _write_integer_type),
    1: Code(_word("index")),
    2: Code(read_function_type),
    3: Code(_word("bf16")),
    4: Code(_word("f16")),
    5: Code(_word("f32")),
    6: Code(_word("f64")),
    9: Code(read_complex_type),
    12: Code(_word("none")),
    13: Code(read_tensor_type),
    14: Code(read_tensor_type_with_encoding),
    15: Code(read_tuple_type),
}

_ATTRIBUTE, _TYPE = "an attribute of the dialect builtin", "a type of the dialect builtin"
decode_attribute = decoder(_ATTRIBUTES, _ATTRIBUTE)
decode_type = decoder(_TYPES, _TYPE)
encode_attribute = encoder(_ATTRIBUTES, _key_of, _ATTRIBUTE)
encode_type = encoder(_TYPES, lambda word: "integer", _TYPE)
