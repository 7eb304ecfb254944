"""Scalar code in LLVM IR: what one thread computes in an instruction."""

from __future__ import annotations

import struct

# LLVM's types of PTX's. Floating-point numbers of 16 bits and less are bits: machines that run the
# emulation may not know them.
LLVM_TYPES = {
    "pred": "i1",
    **dict.fromkeys(("b8", "u8", "s8"), "i8"),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), "i16"),
    **dict.fromkeys(("b32", "u32", "s32", "f16x2", "bf16x2", "u16x2", "s16x2", "tf32"), "i32"),
    **dict.fromkeys(("b64", "u64", "s64"), "i64"),
    "f32": "float",
    "f64": "double",
    **dict.fromkeys(("e4m3x2", "e5m2x2"), "i16"),
}  # fmt: skip
# Bits of a type.
BITS = {
    "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "float": 32, "double": 64,
}  # fmt: skip


class Code:
    """Instructions of a function under construction, and what it calls.

    Values are names or constants as LLVM writes them; types are given where they are used.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()

    def let(self, text: str) -> str:
        """Write an instruction; returns its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def call(self, function: str, type_: str, *operands: tuple[str, str]) -> str:
        """Call a function of (type, value) operands, which is declared."""
        types = ", ".join(t for t, _ in operands)
        self.declarations.add(f"declare {type_} @{function}({types})")
        values = ", ".join(f"{t} {v}" for t, v in operands)
        return self.let(f"call {type_} @{function}({values})")

    def intrinsic(self, name: str, type_: str, *values: str) -> str:
        """Call an intrinsic whose operands and result have one type, which is in its name."""
        suffix = {"float": "f32", "double": "f64"}.get(type_, type_)
        return self.call(f"llvm.{name}.{suffix}", type_, *[(type_, v) for v in values])

    def select(self, condition: str, type_: str, yes: str, no: str) -> str:
        return self.let(f"select i1 {condition}, {type_} {yes}, {type_} {no}")

    def bitcast(self, source: str, value: str, target: str) -> str:
        return value if source == target else self.let(f"bitcast {source} {value} to {target}")

    def resize(self, source: str, value: str, target: str, *, signed: bool = False) -> str:
        """Return an integer in another width."""
        if source == target:
            return value
        narrower = BITS[target] < BITS[source]
        how = "trunc" if narrower else "sext" if signed else "zext"
        return self.let(f"{how} {source} {value} to {target}")


def double(value: float) -> str:
    """Return a constant of LLVM's type double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def is_float(type_: str) -> bool:
    """Return whether a PTX type is of floating-point numbers."""
    return type_.startswith(("f", "bf", "tf", "e4", "e5"))
