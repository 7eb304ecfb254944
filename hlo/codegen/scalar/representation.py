"""How a value of each element type is represented: in SSA values, and in memory.

  pred            i1
  integers        an LLVM integer of exactly the type's bits, so that arithmetic wraps by itself
  f64             double
  f32 and below   float; a narrower type's value is always one that the type has (rounded after each
                  operation)
  complex         a `Cplx` of two such values
In memory, pred and integers below a byte take a byte, bf16 and f16 two bytes, f8 and f4 one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.codegen.llvm import Builder, Index, Val, float_const, int_const
from hlo.codegen.scalar import floats
from hlo.values.types import ElementType, complex_part


@dataclass(frozen=True, slots=True)
class Cplx:
    """A complex value: real and imaginary part."""

    re: Val
    im: Val


Value = Val | Cplx


def ssa_type(et: ElementType) -> str:
    """Return the LLVM type of an SSA value (of its parts, when complex)."""
    if et.is_pred:
        return "i1"
    if et.is_integer:
        return f"i{et.bits}"
    return "double" if complex_part(et).name == "f64" else "float"


def memory_type(et: ElementType) -> str:
    """Return the LLVM type that an element (or complex part) takes in memory."""
    if et.is_pred:
        return "i8"
    if et.is_integer:
        return f"i{max(et.bits, 8)}"
    return {64: "double", 32: "float", 16: "i16"}.get(complex_part(et).bits, "i8")


def load(b: Builder, et: ElementType, base: str, index: Index) -> Value:
    """Load element `index` of an unpacked array at `base`."""
    mem = memory_type(et)
    if et.is_complex:
        at = b.mul(index, 2)
        parts = [b.load(mem, b.element_address(base, mem, b.add(at, k))) for k in (0, 1)]
        return Cplx(*parts)
    raw = b.load(mem, b.element_address(base, mem, index))
    return from_memory(b, et, raw)


def store(b: Builder, et: ElementType, value: Value, base: str, index: Index) -> None:
    """Store a value as element `index` of an unpacked array at `base`."""
    mem = memory_type(et)
    if isinstance(value, Cplx):
        at = b.mul(index, 2)
        for k, part in enumerate((value.re, value.im)):
            b.store(part, b.element_address(base, mem, b.add(at, k)))
        return
    raw = to_memory(b, et, value)
    b.store(raw, b.element_address(base, mem, index))


def from_memory(b: Builder, et: ElementType, raw: Val) -> Val:
    """Return the SSA value of an element's bits in memory."""
    if et.is_pred:
        return b.icmp("ne", raw, 0)
    if et.is_integer:
        return raw if et.bits >= 8 else b.cast("trunc", raw, ssa_type(et))
    return raw if raw.type in ("float", "double") else floats.decode(b, et, raw)


def to_memory(b: Builder, et: ElementType, value: Val) -> Val:
    """Return the bits in memory of an SSA value."""
    if et.is_pred:
        return b.cast("zext", value, "i8")
    if et.is_integer:
        if et.bits >= 8:
            return value
        return b.cast("sext" if et.is_signed else "zext", value, "i8")
    return value if memory_type(et) == value.type else floats.encode(b, et, value)


def to_bits(b: Builder, et: ElementType, value: Val) -> Val:
    """Return the bits of a value that is not complex, as an integer of the type's width."""
    if et.is_integer:
        return value
    if et.is_pred:
        return b.cast("zext", value, "i8")
    t = f"i{et.bits}"
    if et.bits >= 32:
        return b.cast("bitcast", value, t)
    raw = floats.encode(b, et, value)
    return raw if raw.type == t else b.cast("trunc", raw, t)


def from_bits(b: Builder, et: ElementType, raw: Val) -> Val:
    """Return the value that is not complex whose bits are an integer of the type's width."""
    if et.is_integer:
        return raw
    if et.is_pred:
        return b.icmp("ne", raw, 0)
    if et.bits >= 32:
        t = ssa_type(et)
        return b.cast("bitcast", raw, t)
    mem = memory_type(et)
    return floats.decode(b, et, raw if raw.type == mem else b.cast("zext", raw, mem))


def constant(et: ElementType, value: np.generic | np.ndarray) -> Value:
    """Return the constant of a numpy scalar of the type."""
    if et.is_complex:
        part = ssa_type(et)
        return Cplx(float_const(part, float(value.real)), float_const(part, float(value.imag)))
    if et.is_pred:
        return int_const(1, int(bool(value)))
    if et.is_integer:
        return int_const(et.bits, int(value))
    return float_const(ssa_type(et), float(value))


def select(b: Builder, condition: Val, yes: Value, no: Value) -> Value:
    """Return one of two values."""
    if isinstance(yes, Cplx):
        assert isinstance(no, Cplx)
        return Cplx(b.select(condition, yes.re, no.re), b.select(condition, yes.im, no.im))
    assert isinstance(no, Val)
    return b.select(condition, yes, no)
