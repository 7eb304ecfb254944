"""Entries of PJRT's table that are Python: each takes its argument struct, and fills it in.

An entry is registered by the name of its function, without `PJRT_`. It is called with Python's lock
and without a pending exception; what it raises becomes a `PJRT_Error`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from hlo.errors import HloError
from hlo.pjrt.interface import interface

# By their numbers native code says which is called.
ENTRY_NAMES = (*interface().arguments, "failure", "renew")
ENTRIES: dict[str, Callable[[Any], None]] = {}

ErrorCode = interface().enums["Error_Code"]


class PjrtError(Exception):
    """An error with one of PJRT's codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = ErrorCode[code], message


# PJRT's codes by ours, where an error has one of its own.
_CODES = {
    "internal": "INTERNAL",
    "out-of-memory": "RESOURCE_EXHAUSTED",
    "unsupported": "UNIMPLEMENTED",
}


def code_of(error: HloError, other: str) -> str:
    """Return the name of PJRT's code for an error, `other` for one without a code of its own."""
    return _CODES.get(error.code, other)


def entry(name: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register the Python entry of a function: `@entry("Client_Compile")`.

    Two are no functions of PJRT's: "failure" raises the error of a run, see `records.Failure`, and
    "renew" has the devices of a program meet again after one.
    """
    assert name in ENTRY_NAMES, name

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        ENTRIES[name] = function
        return function

    return register


def bytes_at(address: int, size: int) -> bytes:
    """Return a copy of memory."""
    return ctypes.string_at(address, size) if size else b""
