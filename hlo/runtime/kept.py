"""Object files of parts that modules share: in the memory of this process, and in a store."""

from __future__ import annotations

import os
import threading
from typing import Protocol

LIMIT_BYTES = 1 << 26


class PartStore(Protocol):
    """Where object files are kept beyond this process."""

    def has_part(self, key: str) -> bool:
        """Return whether something is stored under a key."""

    def get_part(self, key: str) -> bytes | None:
        """Return the object file stored under a key, or None."""

    def put_part(self, key: str, object_file: bytes) -> None:
        """Store an object file under a key, if that is possible."""


class _Kept:
    """Object files by key; when they take too much memory, those not used for longest go."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}  # the last one used is the last
        self._bytes = 0
        self.lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self.lock:
            found = self._files.pop(key, None)
            if found is not None:
                self._files[key] = found
            return found

    def put(self, key: str, object_file: bytes) -> None:
        with self.lock:
            self._bytes += len(object_file) - len(self._files.pop(key, b""))
            self._files[key] = object_file
            while self._bytes > LIMIT_BYTES:
                self._bytes -= len(self._files.pop(next(iter(self._files))))

    def clear(self) -> None:
        with self.lock:
            self._files.clear()
            self._bytes = 0


_kept = _Kept()


def get(key: str, store: PartStore | None) -> bytes | None:
    """Return the object file of a key from memory or the store, or None."""
    found = _kept.get(key)
    if found is None:
        if store is not None and (found := store.get_part(key)) is not None:
            _kept.put(key, found)
    elif store is not None and not store.has_part(key):
        store.put_part(key, found)
    return found


def put(key: str, object_file: bytes, store: PartStore | None) -> None:
    """Keep an object file in memory, and in the store."""
    _kept.put(key, object_file)
    if store is not None:
        store.put_part(key, object_file)


def forget() -> None:
    """Keep nothing in memory any more."""
    _kept.clear()


def _after_fork() -> None:
    # Another thread may have had it.
    _kept.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
