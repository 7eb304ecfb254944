"""A compiled program as a callable on numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from hlo.runtime.jit import NativeCode
from hlo.runtime.pool import default_threads, pool_of
from hlo.types import ArrayShape


def aligned(size_bytes: int, alignment: int = 64) -> np.ndarray:
    """Return uninitialized memory of at least one byte at an aligned address."""
    raw = np.empty(max(1, size_bytes) + alignment, np.uint8)
    skip = -raw.ctypes.data % alignment
    return raw[skip : skip + max(1, size_bytes)]


class Executable:
    """Calls native code on the array leaves of the arguments; returns the leaves of the result."""

    def __init__(
        self,
        code: NativeCode,
        symbol: str,
        arguments: Sequence[ArrayShape],
        results: Sequence[ArrayShape],
        arena_bytes: int,
        constants: Sequence[tuple[int, np.ndarray]],
        constant_bytes: int,
    ) -> None:
        self._code = code
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(code.addresses[symbol])
        self._threads = pool_of(default_threads())
        self.arguments = list(arguments)
        self.results = list(results)
        self._arena = aligned(arena_bytes)
        self._constants = aligned(constant_bytes)
        for offset, data in constants:
            flat = data.reshape(-1).view(np.uint8)
            self._constants[offset : offset + flat.size] = flat

    def run(self, leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on contiguous arrays in the parameters' layouts, of their shapes and dtypes."""
        outs = [np.empty(s.dims, s.element_type.dtype) for s in self.results]
        n, m = len(leaves), len(outs)
        args = (ctypes.c_void_p * max(n, 1))(*[a.ctypes.data for a in leaves])
        results = (ctypes.c_void_p * max(m, 1))(*[a.ctypes.data for a in outs])
        self._call(
            ctypes.addressof(args), ctypes.addressof(results),
            self._arena.ctypes.data, self._constants.ctypes.data, self._threads,
        )  # fmt: skip
        return outs
