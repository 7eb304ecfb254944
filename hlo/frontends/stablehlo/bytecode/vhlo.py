"""Attributes and types of VHLO in bytecode, as those of StableHLO.

VHLO's attributes and types have a version in their name and never change, so that new readers take
old files. Source: StableHLO's documents on VHLO, and the codes in its bytecode.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from hlo.frontends.stablehlo.bytecode.builtin import (
    decoder,
    read_array,
    read_complex_type,
    read_dictionary,
    read_function_type,
    read_string,
    read_tensor_type,
    read_tensor_type_with_encoding,
    read_tuple_type,
    read_type_attribute,
)
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Stream, fail

NONE = object()
"""The value of an attribute that is the type `none`: it stands for an absent one."""

# --- attributes ---------------------------------------------------------------------------------


def _enumeration(name: str, *words: str, first: int = 0) -> Callable[[Reader, Stream], Value]:
    def decode(r: Reader, s: Stream) -> Value:
        start, number = s.pos, s.varint() - first
        if not 0 <= number < len(words):
            fail(f"{name} {number + first} is unknown", start)
        return Value(f"#stablehlo<{name} {words[number]}>", words[number])

    return decode


_API_VERSIONS = 5


def _api_version(r: Reader, s: Stream) -> Value:
    start, number = s.pos, s.varint()
    if number >= _API_VERSIONS:
        fail(f"the API version {number} of a custom call is unknown", start)
    return Value(f"{number} : i32", number)


def _boolean(r: Reader, s: Stream) -> Value:
    value = bool(s.varint())
    return Value("true" if value else "false", value)


def _float(r: Reader, s: Stream) -> Value:
    kind = r.type(s)
    if not (isinstance(kind.value, tuple) and isinstance(kind.value[1], np.dtype)):
        fail(f"{kind.text} is not the type of a number", s.pos)
    bits, dtype = kind.value
    raw = s.wide(bits) & (1 << bits) - 1
    number = np.array([raw], f"u{bits // 8}").view(dtype)[0]
    text = decimal(number) if np.isfinite(number) else f"0x{raw:0{bits // 4}X}"
    return Value(f"{text} : {kind.text}", float(number))


def decimal(number: Any) -> str:
    """Return a finite number as MLIR writes it: with a point before the exponent."""
    text = str(number)
    return text if "." in text else text.replace("e", ".0e")


def _integer(r: Reader, s: Stream) -> Value:
    kind = r.type(s)
    if not isinstance(kind.value, int):
        fail(f"{kind.text} is not the type of an integer", s.pos)
    value = s.wide(kind.value)
    if kind.value <= 8 and not kind.text.startswith("u") and value >> (kind.value - 1) & 1:
        value -= 1 << kind.value
    return Value(f"{value} : {kind.text}", value)


def _output_operand_alias(r: Reader, s: Stream) -> Value:
    result, operand, inside = s.signed_list(), s.signed(), s.signed_list()
    return Value(
        f"#stablehlo.output_operand_alias<output_tuple_indices = {result}, "
        f"operand_index = {operand}, operand_tuple_indices = {inside}>"
    )


def _tensor_attribute(r: Reader, s: Stream) -> Value:
    """Decode an array, whose value is its elements if it is a list of i64 or of i1."""
    kind = r.type(s)
    raw = s.blob()
    if not (isinstance(kind.value, tuple) and isinstance(kind.value[1], tuple)):
        fail(f"{kind.text} is not the type of a constant", s.pos)
    element, dims = kind.value
    count = int(np.prod(dims, dtype=object))
    if element == "i1":
        raw = _bytes_of_bits(raw, count)
    text = f'dense<"0x{raw.hex()}"> : {kind.text}' if count else f"dense<> : {kind.text}"
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


class Ints(list[int]):
    """The elements of a list of integers or of truth values, with the short form of its text."""

    def __init__(self, values: list[int], text: str) -> None:
        super().__init__(values)
        self.text = text


def _bytes_of_bits(raw: bytes, count: int) -> bytes:
    """Return a byte for each truth value, or one for all: older files have a bit for each."""
    values = np.frombuffer(raw, np.uint8)
    if len(raw) == -(-count // 8) != count:
        values = np.unpackbits(values, bitorder="little")[:count]
    values = (values != 0).astype(np.uint8)
    return bytes(values[:1] if (values == values[:1]).all() else values)


def _type_extensions(r: Reader, s: Stream) -> Value:
    bounds = ", ".join("?" if b < 0 else str(b) for b in s.signed_list())
    return Value(f"#stablehlo.bounds<{bounds}>")


def _result_accuracy(r: Reader, s: Stream) -> Value:
    atol, rtol, ulps = s.double(), s.double(), s.signed()
    mode = r.attribute(s)
    if mode.value == "DEFAULT":
        return Value("", NONE)
    return Value(
        f"#stablehlo.result_accuracy<atol = {decimal(atol)}, rtol = {decimal(rtol)}, "
        f"ulps = {ulps}, mode = #stablehlo.result_accuracy_mode<{mode.value}>>"
    )


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


_ATTRIBUTES: dict[int, Callable[[Reader, Stream], Value]] = {
    1: read_array,
    2: _boolean,
    3: _enumeration("comparison_direction", "EQ", "NE", "GE", "GT", "LE", "LT"),
    4: _enumeration("comparison_type", "NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    5: _api_version,
    6: read_dictionary,
    7: _enumeration("fft_type", "FFT", "IFFT", "RFFT", "IRFFT"),
    8: _float,
    9: _integer,
    10: _output_operand_alias,
    11: _enumeration("precision", "DEFAULT", "HIGH", "HIGHEST"),
    12: _enumeration("rng_algorithm", "DEFAULT", "THREE_FRY", "PHILOX"),
    13: _enumeration("rng_distribution", "UNIFORM", "NORMAL", first=1),
    14: read_string,
    15: _tensor_attribute,
    16: _enumeration("transpose", "TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    17: read_type_attribute,
    18: _type_extensions,
    19: _enumeration("result_accuracy_mode", "DEFAULT", "HIGHEST", "TOLERANCE"),
    20: _result_accuracy,
    21: _sub_axis,
    22: _axis,
    23: _mesh_groups,
    24: _mesh_axis,
    25: _mesh,
}

# --- types --------------------------------------------------------------------------------------


def _unranked(r: Reader, s: Stream) -> Value:
    return Value(f"tensor<*x{r.type(s).text}>")


def _buffer(r: Reader, s: Stream) -> Value:
    sizes = "".join(f"{d}x" for d in s.signed_list())
    return Value(f"memref<{sizes}{r.type(s).text}>")


def _future(r: Reader, s: Stream) -> Value:
    return Value(f"!stablehlo.future<{', '.join(t.text for t in r.types(s))}>")


def _quantized(r: Reader, s: Stream) -> Value:
    flags, storage, expressed = s.varint(), r.type(s), r.type(s)
    scale, zero = s.double(), s.signed()
    low, high = s.signed(), s.signed()
    types = f"{_storage(storage, flags, low, high)}:{expressed.text}"
    return Value(f"!quant.uniform<{types}, {decimal(scale)}:{zero}>")


def _quantized_per_axis(r: Reader, s: Stream) -> Value:
    flags, storage, expressed, axis = s.varint(), r.type(s), r.type(s), s.varint()
    low, high = s.signed(), s.signed()
    scales = [s.double() for _ in range(s.count())]
    zeros = s.signed_list()
    if len(scales) != len(zeros):
        fail(f"{len(scales)} scales and {len(zeros)} zero points", s.pos)
    pairs = ", ".join(f"{decimal(scale)}:{zero}" for scale, zero in zip(scales, zeros, strict=True))
    return Value(
        f"!quant.uniform<{_storage(storage, flags, low, high)}:{expressed.text}:{axis}, "
        f"{{{pairs}}}>"
    )


def _storage(kind: Value, flags: int, low: int, high: int) -> str:
    """Return a storage type with its range. flags: 1 if it is signed."""
    bits = kind.text.lstrip("sui")
    return f"{'i' if flags & 1 else 'u'}{bits if kind.text[0] != 'f' else kind.text}<{low}:{high}>"


def _word(text: str, bits: int | None = None, dtype: str = "") -> Callable[..., Value]:
    """bits, dtype: of numbers that are attributes."""
    value = None if bits is None else (bits, np.dtype(dtype)) if dtype else bits
    return lambda r, s: Value(text, value)


def _none(r: Reader, s: Stream) -> Value:
    return Value("none", NONE)


def _bfloat16() -> str:
    import ml_dtypes  # noqa: F401  registers the name with numpy

    return "bfloat16"


_TYPES: dict[int, Callable[..., Value]] = {
    0: _word("i1", 1),
    1: read_complex_type,
    2: _word("bf16", 16, _bfloat16()),
    3: _word("f16", 16, "float16"),
    4: _word("f32", 32, "float32"),
    5: _word("f64", 64, "float64"),
    6: _word("f8E4M3FN"),
    7: _word("f8E5M2"),
    8: read_function_type,
    9: _word("index", 64),
    10: _word("i4", 4),
    11: _word("i8", 8),
    12: _word("i16", 16),
    13: _word("i32", 32),
    14: _word("i64", 64),
    15: _word("ui4", 4),
    16: _word("ui8", 8),
    17: _word("ui16", 16),
    18: _word("ui32", 32),
    19: _word("ui64", 64),
    20: read_tensor_type,
    21: read_tensor_type_with_encoding,
    22: _word("!stablehlo.token"),
    23: read_tuple_type,
    24: _quantized,
    25: _unranked,
    27: _word("f8E4M3FNUZ"),
    28: _word("f8E5M2FNUZ"),
    29: _word("f8E4M3B11FNUZ"),
    30: _quantized_per_axis,
    31: _word("i2", 2),
    32: _word("ui2", 2),
    33: _none,
    34: _word("tf32"),
    35: _word("f8E4M3"),
    36: _word("f8E3M4"),
    37: _word("f4E2M1FN"),
    38: _word("f6E2M3FN"),
    39: _word("f6E3M2FN"),
    40: _word("f8E8M0FNU"),
    41: _buffer,
    42: _future,
}

decode_attribute = decoder(_ATTRIBUTES, "an attribute of VHLO")
decode_type = decoder(_TYPES, "a type of VHLO")
