"""PJRT's C interface: the structs of its calls, its functions in order, its enumerations.

`interface.txt` has the facts, which `header.py` takes from PJRT's headers. A struct is a
`ctypes.Structure`, for Python and for native code alike, which asks it for offsets.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

# Addresses are integers, zero for null. A mutex or a condition of POSIX is ready when it is zero.
C_TYPES: Mapping[str, Any] = {
    "ptr": ctypes.c_size_t, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i8": ctypes.c_int8,
    "f32": ctypes.c_float, "lock": ctypes.c_int64 * 8,
}  # fmt: skip
_HEAD = ("struct_size:i64", "extension_start:ptr")


class Struct(ctypes.Structure):
    """A struct in C's layout. types: of its fields, as LLVM has them."""

    types: Mapping[str, str]


def struct(
    name: str, fields: Sequence[str], known: Mapping[str, type[Struct]] = {}
) -> type[Struct]:
    """Return the struct of fields `name:type`, whose types are LLVM's or those of known structs."""
    types = dict(f.split(":") for f in fields)
    members = [(n, known[t] if t in known else C_TYPES[t]) for n, t in types.items()]
    return type(name, (Struct,), {"_fields_": members, "types": types})


def _enum(name: str, members: Sequence[str]) -> type[IntEnum]:
    made: Any = IntEnum
    return made(name, members, start=0)  # type: ignore[no-any-return]


@dataclass
class Extension:
    """An extension: its number, its version, and its functions in order."""

    number: int
    version: int
    calls: list[str] = field(default_factory=list)


@dataclass
class Interface:
    """What `interface.txt` says. calls: the functions of the table, in order. arguments: the struct
    that each takes, those of extensions too."""

    minor: int = 0
    calls: list[str] = field(default_factory=list)
    arguments: dict[str, type[Struct]] = field(default_factory=dict)
    structs: dict[str, type[Struct]] = field(default_factory=dict)
    enums: dict[str, type[IntEnum]] = field(default_factory=dict)
    extensions: dict[str, Extension] = field(default_factory=dict)


@cache
def interface() -> Interface:
    """Return the interface, read once."""
    known = Interface()
    calls = known.calls
    for line in Path(__file__).with_name("interface.txt").read_text().splitlines():
        kind, name, *rest = line.split()
        if kind == "minor":
            known.minor = int(name)
        elif kind == "enum":
            known.enums[name] = _enum(name, rest)
        elif kind == "struct":
            known.structs[name] = struct(name, rest, known.structs)
        elif kind == "extension":
            known.extensions[name] = Extension(int(rest[0]), int(rest[1]))
            calls = known.extensions[name].calls
        elif kind == "call":
            calls.append(name)
            fields = rest if rest[:1] == [_HEAD[0]] else (*_HEAD, *rest)
            known.arguments[name] = struct(name, fields, known.structs)
    return known
