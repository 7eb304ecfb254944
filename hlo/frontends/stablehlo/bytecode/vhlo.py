"""Attributes of VHLO in bytecode, decoded as those of StableHLO, and encoded from them.

VHLO's attributes have a version in their name and never change, so that new readers take old files.
Source: StableHLO's documents on VHLO, and the codes in its bytecode.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.frontends.stablehlo.attributes import (
    Accuracy,
    Array,
    Attribute,
    Boolean,
    Dictionary,
    Elements,
    Enumeration,
    Float,
    Integer,
    List,
    Numbers,
    Record,
    String,
    Symbol,
    TypeAttribute,
    Verbatim,
    output_operand_alias,
)
from hlo.frontends.stablehlo.bytecode.assembly import Encoder
from hlo.frontends.stablehlo.bytecode.builtin import (
    read_array,
    read_dictionary,
    read_string,
    read_type_attribute,
    with_sign,
    write_array,
    write_dictionary,
    write_string,
)
from hlo.frontends.stablehlo.bytecode.codes import Code, decoder, encoder
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.dense import dense_text, read_dense
from hlo.frontends.stablehlo.bytecode.stream import Output, Stream, fail
from hlo.frontends.stablehlo.bytecode.vhlo_types import NONE, Bounds, TensorType
from hlo.frontends.stablehlo.spelling import is_splat
from hlo.frontends.stablehlo.verbatim import parsed
from hlo.values.types import ArrayShape

# --- attributes ---------------------------------------------------------------------------------


def _enumeration(name: str, *words: str, first: int = 0) -> Code:
    def read(r: Reader, s: Stream) -> Value:
        start, number = s.pos, s.varint() - first
        if not 0 <= number < len(words):
            fail(f"{name} {number + first} is unknown", start)
        return Value(str(Enumeration(name, words[number])), words[number])

    def write(e: Encoder, out: Output, a: Enumeration) -> None:
        if a.word not in words:
            e.refuse(f"a portable artifact has no {name} {a.word}")
        out.varint(words.index(a.word) + first)

    return Code(read, name, write)


_API_VERSIONS = 5


@dataclass(frozen=True)
class ApiVersion(Attribute):
    """The version of a custom call's interface."""

    number: int


def _api_version(r: Reader, s: Stream) -> Value:
    start, number = s.pos, s.varint()
    if number >= _API_VERSIONS:
        fail(f"the API version {number} of a custom call is unknown", start)
    return Value(f"{number} : i32", number)


def _write_api_version(e: Encoder, out: Output, a: ApiVersion) -> None:
    out.varint(a.number)


def _boolean(r: Reader, s: Stream) -> Value:
    value = bool(s.varint())
    return Value("true" if value else "false", value)


def _write_boolean(e: Encoder, out: Output, a: Boolean) -> None:
    out.varint(a.value)


def _float(r: Reader, s: Stream) -> Value:
    kind = r.type(s)
    if not (isinstance(kind.value, tuple) and isinstance(kind.value[1], np.dtype)):
        fail(f"{kind.text} is not the type of a number", s.pos)
    bits, dtype = kind.value
    raw = s.wide(bits) & (1 << bits) - 1
    value = np.array([raw], f"u{bits // 8}").view(dtype)[0]
    return Value(str(Float(value, kind.text)), float(value))


def _write_float(e: Encoder, out: Output, a: Float) -> None:
    out.varint(e.type(a.kind))
    out.wide(int.from_bytes(a.value.tobytes(), "little"), a.value.nbytes * 8)


def _integer(r: Reader, s: Stream) -> Value:
    kind = r.type(s)
    if not isinstance(kind.value, int):
        fail(f"{kind.text} is not the type of an integer", s.pos)
    value = s.wide(kind.value)
    if not kind.text.startswith("u"):
        value = with_sign(value, kind.value)
    return Value(f"{value} : {kind.text}", value)


def _write_integer(e: Encoder, out: Output, a: Integer) -> None:
    out.varint(e.type(a.kind))
    out.wide(a.value, 64 if a.kind == "index" else int(a.kind.lstrip("ui")))


def _output_operand_alias(r: Reader, s: Stream) -> Value:
    result, operand, inside = s.signed_list(), s.signed(), s.signed_list()
    return Value(str(output_operand_alias(tuple(result), operand, tuple(inside))))


def _write_output_operand_alias(e: Encoder, out: Output, a: Record) -> None:
    result, operand, inside = a.fields.values()
    out.signed_list(result)
    out.signed(operand)
    out.signed_list(inside)


def _tensor_attribute(r: Reader, s: Stream) -> Value:
    """Decode an array, whose value is its elements if it is a list of i64 or of i1."""
    kind, raw, count = read_dense(r, s)
    element, dims = kind.value
    text = f"dense<{dense_text(raw, element, dims, count)}> : {kind.text}"
    if len(dims) != 1 or element not in ("i1", "i64") or count > _MAX_LIST:
        return Value(text)
    width = 8 if element == "i64" else 1
    if len(raw) not in (width, count * width):
        fail(f"{len(raw)} bytes for {kind.text}", s.pos, "literal-shape")
    values = list(struct.unpack(f"<{len(raw) // 8}q", raw)) if element == "i64" else list(raw)
    if len(values) != count:
        values *= count
    words = ("false", "true") if element == "i1" else None
    body = ", ".join(words[v] if words else str(v) for v in values)
    return Value(text, Ints(values, f"array<{element}{': ' if values else ''}{body}>"))


_MAX_LIST = 1 << 16


def _write_tensor(e: Encoder, out: Output, a: Array | Numbers | Elements) -> None:
    """Write the bytes of an array; those of one element where all are the same."""
    if isinstance(a, Elements):
        shape = a.literal.shape
        assert isinstance(shape, ArrayShape)
        values = a.literal.array.reshape(-1)
        out.varint(e.type(shape))
    else:
        dims = a.dims if isinstance(a, Numbers) else (len(a.values),)
        dtype = {"i64": np.int64, "index": np.int64, "i1": np.bool_}.get(a.kind)
        if dtype is None:
            e.refuse(f"a portable artifact has lists of i64 and i1, not of {a.kind}")
        values = np.array(a.values, dtype)
        out.varint(e.type(TensorType(a.kind, dims)))
    alike = len(values) > 1 and is_splat(values)
    if values.dtype != np.bool_:
        out.blob(values[: 1 if alike else None].tobytes())
    elif alike:
        # A byte that is no list of bits, which ends with zeros.
        out.blob(b"\xff" if values[0] else b"\0")
    else:
        out.blob(np.packbits(values, bitorder="little").tobytes())


class Ints(list[int]):
    """The elements of a list of integers or of truth values, with the short form of its text."""

    def __init__(self, values: list[int], text: str) -> None:
        super().__init__(values)
        self.text = text


def _type_extensions(r: Reader, s: Stream) -> Value:
    return Value(str(Bounds(tuple(s.signed_list()))))


def _write_type_extensions(e: Encoder, out: Output, a: Bounds) -> None:
    out.signed_list(a.sizes)


def _result_accuracy(r: Reader, s: Stream) -> Value:
    atol, rtol, ulps = s.double(), s.double(), s.signed()
    mode = r.attribute(s)
    if mode.value == "DEFAULT":
        return Value("", NONE)
    return Value(str(Accuracy(atol, rtol, ulps, mode.value)))


def _write_result_accuracy(e: Encoder, out: Output, a: Accuracy) -> None:
    out.double(a.atol)
    out.double(a.rtol)
    out.signed(a.ulps)
    out.varint(e.attribute(Enumeration("result_accuracy_mode", a.mode)))


def _sub_axis(r: Reader, s: Stream) -> Value:
    before, size = s.signed(), s.signed()
    return Value(f"({before}){size}")


def _axis(r: Reader, s: Stream) -> Value:
    name = r.attribute(s)
    inside = f", sub_axis_info = {r.attribute(s).text}" if s.varint() else ""
    return Value(f"#stablehlo.axis_ref<name = {name.text}{inside}>")


def _mesh_axis(r: Reader, s: Stream) -> Value:
    name = r.attribute(s)
    return Value(f"#stablehlo.mesh_axis<name = {name.text}, size = {s.signed()}>")


def _mesh(r: Reader, s: Stream) -> Value:
    axes, ids = r.attribute(s), r.optional_attribute(s)
    ids_text = f", device_ids = {ids.text}" if ids is not None else ""
    return Value(f"#stablehlo.mesh<axes = {axes.text}{ids_text}>")


def _mesh_groups(r: Reader, s: Stream) -> Value:
    mesh, axes = r.attribute(s), r.attribute(s)
    name = f"@{mesh.value}" if isinstance(mesh.value, str) else mesh.text
    return Value(f"#stablehlo.replica_group_mesh_axes<mesh = {name}, axes = {axes.text}>")


def _write_type(e: Encoder, out: Output, a: TypeAttribute) -> None:
    out.varint(e.type(a.type))


_ATTRIBUTES = {
    1: Code(read_array, List, write_array),
    2: Code(_boolean, Boolean, _write_boolean),
    3: _enumeration("comparison_direction", "EQ", "NE", "GE", "GT", "LE", "LT"),
    4: _enumeration("comparison_type", "NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    5: Code(_api_version, ApiVersion, _write_api_version),
    6: Code(read_dictionary, Dictionary, write_dictionary),
    7: _enumeration("fft_type", "FFT", "IFFT", "RFFT", "IRFFT"),
    8: Code(_float, Float, _write_float),
    9: Code(_integer, Integer, _write_integer),
    10: Code(_output_operand_alias, "output_operand_alias", _write_output_operand_alias),
    11: _enumeration("precision", "DEFAULT", "HIGH", "HIGHEST"),
    12: _enumeration("rng_algorithm", "DEFAULT", "THREE_FRY", "PHILOX"),
    13: _enumeration("rng_distribution", "UNIFORM", "NORMAL", first=1),
    14: Code(read_string, String, write_string),
    15: Code(_tensor_attribute, Elements, _write_tensor),
    16: _enumeration("transpose", "TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    17: Code(read_type_attribute, TypeAttribute, _write_type),
    18: Code(_type_extensions, Bounds, _write_type_extensions),
    19: _enumeration("result_accuracy_mode", "DEFAULT", "HIGHEST", "TOLERANCE"),
    20: Code(_result_accuracy, Accuracy, _write_result_accuracy),
    21: Code(_sub_axis),
    22: Code(_axis),
    23: Code(_mesh_groups),
    24: Code(_mesh_axis),
    25: Code(_mesh),
}
# What is encoded as something else: VHLO has fewer kinds of attributes.
_SAME = {Array: Elements, Numbers: Elements}


def _key_of(a: Any) -> Hashable:
    return a.kind if isinstance(a, Enumeration | Record) else _SAME.get(type(a), type(a))


decode_attribute = decoder(_ATTRIBUTES, "an attribute of VHLO")
_encode = encoder(_ATTRIBUTES, _key_of, "attribute")


def encode_attribute(e: Encoder, out: Output, a: Any) -> None:
    """Write an attribute with its code. Raises InferError for what VHLO lacks."""
    if isinstance(a, Symbol):
        a = String(a.name)
    elif isinstance(a, Verbatim):
        a = parsed(a)
    _encode(e, out, a)
