"""Element types, one object each.

Source: "Shapes and Layout" (document 001) and XLA's `xla_data.proto`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import ml_dtypes
import numpy as np


class Kind(Enum):
    """The class an element type belongs to; operations state which classes they accept."""

    PRED = "pred"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "floating-point"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True, eq=False)
class ElementType:
    """The type of one array element. `bits` is its logical width; numpy stores whole bytes.

    byte_width: bytes of one element in an unpacked (default) array. is_*: what `kind` says.
    """

    name: str
    kind: Kind
    bits: int
    dtype: np.dtype
    byte_width: int = field(init=False)
    is_integer: bool = field(init=False)
    is_signed: bool = field(init=False)
    is_float: bool = field(init=False)
    is_complex: bool = field(init=False)
    is_pred: bool = field(init=False)

    def __post_init__(self) -> None:
        # Fields and no properties: passes ask for them all the time.
        for name, value in (
            ("byte_width", self.dtype.itemsize),
            ("is_integer", self.kind in (Kind.SIGNED, Kind.UNSIGNED)),
            ("is_signed", self.kind is Kind.SIGNED),
            ("is_float", self.kind is Kind.FLOAT),
            ("is_complex", self.kind is Kind.COMPLEX),
            ("is_pred", self.kind is Kind.PRED),
        ):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ElementType({self.name})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return element_type, (self.name,)


def _et(name: str, kind: Kind, bits: int, dtype: object) -> ElementType:
    return ElementType(name, kind, bits, np.dtype(dtype))  # type: ignore[call-overload]


_S, _U, _F, _C = Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.COMPLEX
ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        _et("pred", Kind.PRED, 8, np.bool_),
        _et("s1", _S, 1, ml_dtypes.int1),
        _et("s2", _S, 2, ml_dtypes.int2),
        _et("s4", _S, 4, ml_dtypes.int4),
        _et("s8", _S, 8, np.int8),
        _et("s16", _S, 16, np.int16),
        _et("s32", _S, 32, np.int32),
        _et("s64", _S, 64, np.int64),
        _et("u1", _U, 1, ml_dtypes.uint1),
        _et("u2", _U, 2, ml_dtypes.uint2),
        _et("u4", _U, 4, ml_dtypes.uint4),
        _et("u8", _U, 8, np.uint8),
        _et("u16", _U, 16, np.uint16),
        _et("u32", _U, 32, np.uint32),
        _et("u64", _U, 64, np.uint64),
        _et("f4e2m1fn", _F, 4, ml_dtypes.float4_e2m1fn),
        _et("f6e2m3fn", _F, 6, ml_dtypes.float6_e2m3fn),
        _et("f6e3m2fn", _F, 6, ml_dtypes.float6_e3m2fn),
        _et("f8e3m4", _F, 8, ml_dtypes.float8_e3m4),
        _et("f8e4m3", _F, 8, ml_dtypes.float8_e4m3),
        _et("f8e4m3b11fnuz", _F, 8, ml_dtypes.float8_e4m3b11fnuz),
        _et("f8e4m3fn", _F, 8, ml_dtypes.float8_e4m3fn),
        _et("f8e4m3fnuz", _F, 8, ml_dtypes.float8_e4m3fnuz),
        _et("f8e5m2", _F, 8, ml_dtypes.float8_e5m2),
        _et("f8e5m2fnuz", _F, 8, ml_dtypes.float8_e5m2fnuz),
        _et("f8e8m0fnu", _F, 8, ml_dtypes.float8_e8m0fnu),
        _et("bf16", _F, 16, ml_dtypes.bfloat16),
        _et("f16", _F, 16, np.float16),
        _et("f32", _F, 32, np.float32),
        _et("f64", _F, 64, np.float64),
        _et("c64", _C, 64, np.complex64),
        _et("c128", _C, 128, np.complex128),
    )
}
# They have neither infinities nor NaNs: larger values saturate.
FINITE_TYPES = frozenset({"f4e2m1fn", "f6e2m3fn", "f6e3m2fn"})
PRED, S32, S64, U32, U64, F32 = (
    ELEMENT_TYPES[n] for n in ("pred", "s32", "s64", "u32", "u64", "f32")
)
TYPE_NAMES = frozenset(ELEMENT_TYPES) | {"token", "opaque"}
"""Words that stand for types wherever text has them, so that no instruction can be called so."""

_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values()}


def element_type(name: str) -> ElementType:
    """Return the element type called `name` (`f32`, `s4`, ...). Raises KeyError."""
    return ELEMENT_TYPES[name]


def element_type_of(dtype: np.dtype) -> ElementType:
    """Return the element type that numpy represents as `dtype`. Raises KeyError."""
    return _BY_DTYPE[dtype]


def integer_range(et: ElementType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    if et.is_signed:
        return -(1 << (et.bits - 1)), (1 << (et.bits - 1)) - 1
    return 0, (1 << et.bits) - 1


def complex_part(et: ElementType) -> ElementType:
    """Return the type of a complex type's parts: c64 -> f32, c128 -> f64; itself for others."""
    return ELEMENT_TYPES[{"c64": "f32", "c128": "f64"}.get(et.name, et.name)]


def complex_of(et: ElementType) -> ElementType:
    """Return the complex type over a real part: f32 -> c64, f64 -> c128. Raises KeyError."""
    return ELEMENT_TYPES[{"f32": "c64", "f64": "c128"}[et.name]]
