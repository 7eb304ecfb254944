"""Numbers, and lists of them, of MLIR's dialect builtin.

Portable artifacts have them in discardable attributes only, such as the device of a mesh.
"""

from __future__ import annotations

import re
import struct

from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Stream, fail

# Types of whole bytes, and the index type, which is 64 bits wide.
_WHOLE = re.compile(r"(?:[su]?i|b?f)(8|16|32|64)")
_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


def _bits(kind: str, at: int) -> int:
    found = _WHOLE.fullmatch(kind)
    if kind == "index":
        return 64
    if found is None:
        fail(f"{kind} is not a type of numbers that an attribute can have here", at)
    return int(found[1])


def read_float(r: Reader, s: Stream) -> Value:
    """Return a number of a floating-point type."""
    kind = r.type(s).text
    bits = _bits(kind, s.pos)
    return Value(f"0x{s.wide(bits) & (1 << bits) - 1:0{bits // 4}X} : {kind}")


def read_list(r: Reader, s: Stream) -> Value:
    """Return a list of numbers, `array<...>`."""
    kind, count, raw = r.type(s).text, s.varint(), s.blob()
    size = 1 if kind == "i1" else _bits(kind, s.pos) // 8
    if len(raw) != count * size:
        fail(f"{len(raw)} bytes for {count} numbers of type {kind}", s.pos)
    parts = [raw[i : i + size] for i in range(0, len(raw), size)]
    if kind == "i1":
        words = ["true" if any(x) else "false" for x in parts]
    elif kind in _FLOATS:
        words = [str(struct.unpack(_FLOATS[kind], x)[0]) for x in parts]
    else:
        words = [str(int.from_bytes(x, "little", signed=kind[0] != "u")) for x in parts]
    return Value(f"array<{kind}{': ' if words else ''}{', '.join(words)}>")
