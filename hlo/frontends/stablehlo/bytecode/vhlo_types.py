"""Types of VHLO in bytecode, decoded as those of StableHLO, and encoded from shapes.

Source: StableHLO's documents on VHLO, and the codes in its bytecode.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np

from hlo.frontends.stablehlo.attributes import Attribute
from hlo.frontends.stablehlo.bytecode.assembly import Encoder
from hlo.frontends.stablehlo.bytecode.builtin import (
    DYNAMIC,
    read_complex_type,
    read_function_type,
    read_tensor_type,
    read_tensor_type_with_encoding,
    read_tuple_type,
)
from hlo.frontends.stablehlo.bytecode.codes import Code, decoder, encoder
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Output, Stream, fail
from hlo.frontends.stablehlo.bytecode.versions import OLDEST, Version
from hlo.frontends.stablehlo.spelling import bounds_of, element_word, number, sizes_of
from hlo.values.types import ArrayShape, Shape, TupleShape

NONE = object()
"""The value of an attribute that is the type `none`: it stands for an absent one."""


class TensorType(NamedTuple):
    """The type of an attribute that is an array. element: MLIR's name of the element type."""

    element: str
    dims: tuple[int, ...]


class FunctionType(NamedTuple):
    """The type of a function, which is an attribute of it."""

    arguments: tuple[Shape, ...]
    results: tuple[Shape, ...]


@dataclass(frozen=True)
class Bounds(Attribute):
    """The bounds of an array's dimensions; negative for those without one."""

    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"#stablehlo.bounds<{', '.join('?' if n < 0 else str(n) for n in self.sizes)}>"


def _write_complex(e: Encoder, out: Output, word: str) -> None:
    out.varint(e.type(word[len("complex<") : -1]))


def _write_function(e: Encoder, out: Output, t: FunctionType) -> None:
    e.types(out, t.arguments)
    e.types(out, t.results)


def _write_tensor(e: Encoder, out: Output, t: ArrayShape | TensorType) -> None:
    if isinstance(t, TensorType):
        out.signed_list(t.dims)
        out.varint(e.type(t.element))
    else:
        out.signed_list([DYNAMIC if n is None else n for n in sizes_of(t)])
        out.varint(e.type(element_word(t.element_type)))


def _write_bounded_tensor(e: Encoder, out: Output, t: ArrayShape) -> None:
    bounds = tuple(DYNAMIC if n is None else n for n in bounds_of(t))
    out.varint(e.attribute(Bounds(bounds)))
    _write_tensor(e, out, t)


def _write_tuple(e: Encoder, out: Output, t: TupleShape) -> None:
    e.types(out, t.elements)


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
    return Value(f"!quant.uniform<{types}, {number(np.float64(scale))}:{zero}>")


def _quantized_per_axis(r: Reader, s: Stream) -> Value:
    flags, storage, expressed, axis = s.varint(), r.type(s), r.type(s), s.varint()
    low, high = s.signed(), s.signed()
    scales = [s.double() for _ in range(s.count())]
    zeros = s.signed_list()
    if len(scales) != len(zeros):
        fail(f"{len(scales)} scales and {len(zeros)} zero points", s.pos)
    pairs = ", ".join(
        f"{number(np.float64(scale))}:{zero}" for scale, zero in zip(scales, zeros, strict=True)
    )
    return Value(
        f"!quant.uniform<{_storage(storage, flags, low, high)}:{expressed.text}:{axis}, "
        f"{{{pairs}}}>"
    )


def _storage(kind: Value, flags: int, low: int, high: int) -> str:
    """Return a storage type with its range. flags: 1 if it is signed."""
    bits = kind.text.lstrip("sui")
    return f"{'i' if flags & 1 else 'u'}{bits if kind.text[0] != 'f' else kind.text}<{low}:{high}>"


def _word(text: str, bits: int | None = None, dtype: Any = None, since: Version = OLDEST) -> Code:
    """bits, dtype: of numbers that are attributes."""
    value = None if bits is None else (bits, np.dtype(dtype)) if dtype else bits
    return Code(lambda r, s: Value(text, value), text, since=since)


def _none(r: Reader, s: Stream) -> Value:
    return Value("none", NONE)


_TYPES = {
    0: _word("i1", 1),
    1: Code(read_complex_type, "complex", _write_complex),
    2: _word("bf16", 16, ml_dtypes.bfloat16),
    3: _word("f16", 16, "float16"),
    4: _word("f32", 32, "float32"),
    5: _word("f64", 64, "float64"),
    6: _word("f8E4M3FN"),
    7: _word("f8E5M2"),
    8: Code(read_function_type, FunctionType, _write_function),
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
    20: Code(read_tensor_type, "tensor", _write_tensor),
    21: Code(read_tensor_type_with_encoding, "bounded tensor", _write_bounded_tensor),
    22: _word("!stablehlo.token"),
    23: Code(read_tuple_type, TupleShape, _write_tuple),
    24: Code(_quantized),
    25: Code(_unranked),
    27: _word("f8E4M3FNUZ"),
    28: _word("f8E5M2FNUZ"),
    29: _word("f8E4M3B11FNUZ"),
    30: Code(_quantized_per_axis),
    31: _word("i2", 2, since=(1, 2, 0)),
    32: _word("ui2", 2, since=(1, 2, 0)),
    33: Code(_none, "none", since=(1, 6, 0)),
    34: _word("tf32", since=(1, 6, 0)),
    35: _word("f8E4M3", since=(1, 7, 0)),
    36: _word("f8E3M4", since=(1, 7, 0)),
    37: _word("f4E2M1FN", since=(1, 8, 0)),
    38: _word("f6E2M3FN", since=(1, 8, 0)),
    39: _word("f6E3M2FN", since=(1, 8, 0)),
    40: _word("f8E8M0FNU", since=(1, 8, 0)),
    41: Code(_buffer),
    42: Code(_future),
}


def _key_of(t: Any) -> Hashable:
    if isinstance(t, str):
        return "complex" if t.startswith("complex<") else t
    if isinstance(t, ArrayShape):
        has_bounds = any(n is not None for n in bounds_of(t))
        return "bounded tensor" if has_bounds else "tensor"
    if isinstance(t, TensorType):
        return "tensor"
    if isinstance(t, Shape) and t.is_token:
        return "!stablehlo.token"
    return cast("Hashable", type(t))


decode_type = decoder(_TYPES, "a type of VHLO")
encode_type = encoder(_TYPES, _key_of, "type")
