"""Values as LLVM IR writes them, and constants."""

from __future__ import annotations

import struct
from dataclasses import dataclass

# An index: a known number, or the name of an i64 value.
Index = int | str


@dataclass(frozen=True, slots=True)
class Val:
    """A typed SSA value or constant. `name` is what LLVM IR writes: `%7`, `42`, `0x3FF...`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


# What stands where the type is that of the operand before: a value, a known number, or a name.
Operand = Val | str | int

TRUE, FALSE = Val("i1", "true"), Val("i1", "false")


def i64(index: Index) -> Val:
    """Return an index as a value."""
    return Val("i64", str(index))


def i32(value: int) -> Val:
    """Return a number of 32 bits."""
    return Val("i32", str(value))


def ptr(address: str, align: int = 0) -> Val:
    """Return an address as a value; as an argument with its alignment in bytes."""
    return Val(f"ptr align {align}" if align else "ptr", address)


def int_const(bits: int, value: int) -> Val:
    """Return an integer constant, reduced to its width."""
    if bits == 1:
        return TRUE if value & 1 else FALSE
    value &= (1 << bits) - 1
    if value >> (bits - 1):
        value -= 1 << bits
    return Val(f"i{bits}", str(value))


def float_const(type_: str, value: float) -> Val:
    """Return a `float` or `double` constant with exact bits; NaN keeps its payload in double."""
    if type_ == "float":
        # LLVM writes a float as the double of the same value.
        (single,) = struct.unpack("<f", struct.pack("<f", value))
        return Val(type_, f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}")
    return Val(type_, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")
