"""Memory of C for what entries answer: strings, arrays, named values, bytes that callers free."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hlo.pjrt.entries import PjrtError, bytes_at
from hlo.pjrt.interface import interface

_NamedValue = interface().structs["NamedValue"]
_Type = interface().enums["NamedValue_Type"]
_STRING, _LIST = _Type["kString"], _Type["kInt64List"]
# The types of values that the struct itself holds.
_SCALARS: Mapping[type, tuple[int, Any]] = {
    bool: (_Type["kBool"], ctypes.c_bool),
    int: (_Type["kInt64"], ctypes.c_int64),
    float: (_Type["kFloat"], ctypes.c_float),
}
_C_TYPES = dict(_SCALARS.values())

# What a named value can be.
Value = str | int | float | bool | Sequence[int]

_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)

# The address of C's `free`: what callers free `handed` memory with. It does nothing for null.
FREE: int = ctypes.cast(_libc.free, ctypes.c_void_p).value or 0


def handed(content: bytes) -> int:
    """Return the address of a copy that its receiver frees with `FREE`."""
    address: int | None = _libc.malloc(max(1, len(content)))
    if address is None:
        raise MemoryError
    ctypes.memmove(address, content, len(content))
    return address


class Held:
    """Memory that lives as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._strings: dict[bytes, int] = {}

    def string(self, text: str | bytes) -> tuple[int, int]:
        """Return the address and the size of a string, which is followed by a zero."""
        content = text.encode() if isinstance(text, str) else text
        if content not in self._strings:
            buffer = ctypes.create_string_buffer(content)
            self._kept.append(buffer)
            self._strings[content] = ctypes.addressof(buffer)
        return self._strings[content], len(content)

    def array(self, of: Any, values: Iterable[Any]) -> int:
        """Return the address of an array of a type of ctypes, 0 for no elements."""
        items = list(values)
        return self.record((of * len(items))(*items)) if items else 0

    def addresses(self, values: Iterable[int]) -> int:
        """Return the address of an array of addresses or sizes."""
        return self.array(ctypes.c_size_t, values)

    def strings(self, texts: Sequence[str | bytes]) -> tuple[int, int]:
        """Return the addresses of an array of strings and of an array of their sizes."""
        pairs = [self.string(t) for t in texts]
        return self.addresses(a for a, _ in pairs), self.addresses(n for _, n in pairs)

    def record(self, value: Any) -> int:
        """Return the address of a struct or an array of ctypes, which is kept."""
        self._kept.append(value)
        return ctypes.addressof(value)

    def named_values(self, values: Mapping[str, Value]) -> tuple[int, int]:
        """Return the address and the number of named values."""
        items = (_NamedValue * len(values))()
        for item, (name, value) in zip(items, values.items(), strict=True):
            item.struct_size = ctypes.sizeof(_NamedValue)
            item.name, item.name_size = self.string(name)
            item.value_size = 1
            if type(value) in _SCALARS:
                item.type, kind = _SCALARS[type(value)]
                kind.from_address(_value_at(item)).value = value
            elif isinstance(value, str):
                item.type = _STRING
                item.string_value, item.value_size = self.string(value)
            else:
                item.type, numbers = _LIST, list(value)  # type: ignore[arg-type]
                item.string_value = self.array(ctypes.c_int64, numbers)
                item.value_size = len(numbers)
        return (self.record(items) if values else 0), len(values)


def _value_at(item: Any) -> int:
    """Return the address of the value in a named value, which is a union."""
    return ctypes.addressof(item) + int(_NamedValue.string_value.offset)


def read_named_values(address: int, count: int) -> dict[str, Value]:
    """Return the named values at an address. Raises PjrtError for a type that is unknown."""
    found: dict[str, Value] = {}
    if not address:
        return found
    for item in (_NamedValue * count).from_address(address):
        name = bytes_at(item.name, item.name_size).decode(errors="replace")
        if item.type in _C_TYPES:
            found[name] = _C_TYPES[item.type].from_address(_value_at(item)).value
        elif item.type == _STRING:
            found[name] = bytes_at(item.string_value, item.value_size).decode(errors="replace")
        elif item.type == _LIST:
            found[name] = list((ctypes.c_int64 * item.value_size).from_address(item.string_value))
        else:
            raise PjrtError("INVALID_ARGUMENT", f"option {name!r} has the unknown type {item.type}")
    return found
