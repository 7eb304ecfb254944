"""What one call of a program works with: tables of addresses, temporaries, its watch."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from hlo.runtime.blocks import block
from hlo.runtime.outside import HostTable
from hlo.runtime.watch import ARENA, ARGUMENTS, RESULTS, WORDS


class Frame:
    """The state of one call: tables of addresses, the arena, and its watch."""

    def __init__(
        self, arguments: int, results: int, arena_bytes: int, host: HostTable | None
    ) -> None:
        self.host = host
        self.arguments = (ctypes.c_size_t * max(1, arguments))()
        self.results = (ctypes.c_size_t * max(1, results))()
        self.arena = block(arena_bytes)
        self.watch = (ctypes.c_size_t * WORDS)()
        self.watch_at = ctypes.addressof(self.watch)
        self.watch[ARGUMENTS] = ctypes.addressof(self.arguments)
        self.watch[RESULTS] = ctypes.addressof(self.results)
        self.watch[ARENA] = self.arena.ctypes.data


def _slow_address(a: np.ndarray) -> int:
    return int(a.ctypes.data)


def _address_function() -> Callable[[np.ndarray], int]:
    """Return the fastest function for an array's address.

    By numpy's C ABI an array object begins with Python's object header and the address.
    Asking `a.ctypes` takes eight times as long; with 60 arguments that is most of a call.
    """
    if sys.implementation.name != "cpython":
        return _slow_address
    offset, read = object.__basicsize__, ctypes.c_size_t.from_address

    def address(a: np.ndarray) -> int:
        return read(id(a) + offset).value

    probe = np.arange(3)
    return address if address(probe) == _slow_address(probe) else _slow_address


address_of = _address_function()
