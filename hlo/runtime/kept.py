"""What modules share: object files of parts, and the functions in them by what they were made from.

Both are in the memory of this process, and in a store. An object file is found by its LLVM IR, a
function by its origin, before there is any IR of it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from hlo.llvm import Compiled

FILES_BYTES, FUNCTIONS = 1 << 26, 1 << 14


class PartStore(Protocol):
    """Where object files and functions are kept beyond this process."""

    def has_part(self, key: str) -> bool:
        """Return whether an object file is stored under a key."""

    def get_part(self, key: str) -> bytes | None:
        """Return the object file stored under a key, or None."""

    def put_part(self, key: str, object_file: bytes) -> None:
        """Store an object file under a key, if that is possible."""

    def get_function(self, key: str) -> Compiled | None:
        """Return the function stored under a key, or None."""

    def put_function(self, key: str, function: Compiled) -> None:
        """Store a function under a key, if that is possible."""


T = TypeVar("T")


class _Kept(Generic[T]):
    """Values by key; when they weigh too much, those not used for longest go."""

    def __init__(self, limit: int) -> None:
        self._limit, self._weight = limit, 0
        self._values: dict[str, tuple[T, int]] = {}  # the last one used is the last
        self.lock = threading.Lock()

    def get(self, key: str) -> T | None:
        with self.lock:
            found = self._values.pop(key, None)
            if found is None:
                return None
            self._values[key] = found
            return found[0]

    def put(self, key: str, value: T, weight: int = 1) -> None:
        with self.lock:
            self._weight += weight - self._values.pop(key, (None, 0))[1]
            self._values[key] = (value, weight)
            while self._weight > self._limit:
                self._weight -= self._values.pop(next(iter(self._values)))[1]

    def clear(self) -> None:
        with self.lock:
            self._values.clear()
            self._weight = 0


_files = _Kept[bytes](FILES_BYTES)
_functions = _Kept[Compiled](FUNCTIONS)


def get(key: str, store: PartStore | None) -> bytes | None:
    """Return the object file of a key from memory or the store, or None."""
    found = _files.get(key)
    if found is None:
        if store is not None and (found := store.get_part(key)) is not None:
            _files.put(key, found, len(found))
    elif store is not None and not store.has_part(key):
        store.put_part(key, found)
    return found


def put(key: str, object_file: bytes, store: PartStore | None) -> None:
    """Keep an object file in memory, and in the store."""
    _files.put(key, object_file, len(object_file))
    if store is not None:
        store.put_part(key, object_file)


class KeptFunctions:
    """The functions with object code for a machine, as `hlo.llvm.CompiledFunctions`.

    files: the object files of those that were found.
    """

    def __init__(self, context: str, store: PartStore | None) -> None:
        """context: what code depends on besides its origin. store: where else they are kept."""
        self._context, self._store = context, store
        self.files: dict[str, bytes] = {}

    def find(self, key: str) -> Compiled | None:
        """Return the function of an origin, if there are all object files that it takes."""
        name = self._name(key)
        found = _functions.get(name)
        if found is None:
            found = self._store.get_function(name) if self._store is not None else None
            if found is None:
                return None
            _functions.put(name, found)
        files = {part: get(part, self._store) for part in found.parts if part not in self.files}
        if None in files.values():
            return None
        self.files |= {part: file for part, file in files.items() if file is not None}
        return found

    def put(self, key: str, function: Compiled) -> None:
        """Keep a function, whose object files are kept."""
        name = self._name(key)
        _functions.put(name, function)
        if self._store is not None:
            self._store.put_function(name, function)

    def files_of(self, functions: Mapping[str, Compiled]) -> dict[str, bytes]:
        """Return the object files of functions that were found, by key."""
        return {part: self.files[part] for f in functions.values() for part in f.parts}

    def _name(self, key: str) -> str:
        return hashlib.sha256(f"{self._context}\n{key}".encode()).hexdigest()


def forget() -> None:
    """Keep nothing in memory any more."""
    _files.clear()
    _functions.clear()


def _after_fork() -> None:
    # Another thread may have had it.
    for kept in (_files, _functions):
        kept.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
