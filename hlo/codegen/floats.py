"""Narrow floating-point types: decoding, rounding and encoding by integer arithmetic.

All of it is branch-free and vectorizes on every target; none of it needs a library call.
"""

from __future__ import annotations

from hlo.codegen.llvm import Builder, Val, float_const, int_const
from hlo.types import ElementType


def _bits(b: Builder, value: Val) -> Val:
    return b.op("i32", f"bitcast {value} to i32")


def _float(b: Builder, bits: Val) -> Val:
    return b.op("float", f"bitcast {bits} to float")


def decode(b: Builder, et: ElementType, raw: Val) -> Val:
    """Return the `float` of an element's bits in memory."""
    assert et.name == "bf16", et
    wide = b.op("i32", f"zext {raw} to i32")
    return _float(b, b.op("i32", f"shl {wide}, 16"))


def encode(b: Builder, et: ElementType, value: Val) -> Val:
    """Return the bits in memory of a `float` that the type has."""
    assert et.name == "bf16", et
    high = b.op("i32", f"lshr {_bits(b, value)}, 16")
    return b.op("i16", f"trunc {high} to i16")


def round_to(b: Builder, et: ElementType, value: Val) -> Val:
    """Round a `float` to the nearest value of the type, ties to even."""
    assert et.name == "bf16", et
    bits = _bits(b, value)
    odd = b.op("i32", f"and i32 {b.op('i32', f'lshr {bits}, 16').name}, 1")
    half = b.op("i32", f"add i32 {odd.name}, 32767")
    up = b.op("i32", f"add {bits}, {half.name}")
    rounded = _float(b, b.op("i32", f"and {up}, -65536"))
    nan = b.op("i1", f"fcmp uno {value}, {value.name}")
    quiet = float_const("float", float("nan"))
    return b.select(nan, quiet, rounded)


__all__ = ["decode", "encode", "int_const", "round_to"]
