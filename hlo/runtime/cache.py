"""A cache of compiled programs on disk, keyed by the content that they were made from.

Beside the programs it has the code of functions that many programs share: a program that is new may
consist of functions that are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from hlo.llvm import Compiled
from hlo.runtime.entries import Entries
from hlo.runtime.program import NativeProgram, from_bytes, to_bytes

LIMIT_BYTES = 1 << 30


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """Return a hash of the parts that a program is made from, including their boundaries."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


class Cache:
    """A folder of programs.

    If the last program could not be stored, `problem` says why: a miss only costs time, so
    nothing is raised.
    """

    def __init__(self, folder: str | Path | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        """folder: by default one in the user's folder for caches. It is made when needed.

        limit_bytes: of programs; shared functions take at most an eighth of that besides.
        """
        self.folder = default_folder() if folder is None else Path(folder)
        self.limit_bytes = limit_bytes
        self.problem: str | None = None
        self._programs = Entries(self.folder, ".program", looks_at_all=True)
        self._parts = Entries(self.folder / "parts", ".o", looks_at_all=False)
        self._functions = Entries(self.folder / "parts", ".function", looks_at_all=False)

    def get(self, key: str) -> NativeProgram | None:
        """Return the program stored under a key, or None."""
        data = self._programs.read(key)
        try:
            return None if data is None else from_bytes(data)
        except ValueError:
            return None

    def put(self, key: str, program: NativeProgram) -> None:
        """Store a program under a key, if that is possible; see `problem`."""
        self.problem = self._programs.write(key, to_bytes(program), self.limit_bytes)

    def get_bytes(self, key: str) -> memoryview | None:
        """Return the program of another kind stored under a key, or None."""
        return self._programs.read(key)

    def put_bytes(self, key: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Store a program of another kind under a key, if that is possible; see `problem`."""
        self.problem = self._programs.write(key, pieces, self.limit_bytes)

    def discard(self, key: str) -> None:
        """Remove the program stored under a key."""
        self._programs.discard(key)

    def has_part(self, key: str) -> bool:
        """Return whether something is stored under the key of shared functions."""
        return self._parts.path(key).exists()

    def get_part(self, key: str) -> bytes | None:
        """Return the object file of shared functions stored under a key, or None."""
        data = self._parts.read(key)
        return None if data is None else bytes(data)

    def put_part(self, key: str, object_file: bytes) -> None:
        """Store an object file of shared functions under a key, if that is possible."""
        self._parts.write(key, [object_file], self.limit_bytes // 8)

    def get_function(self, key: str) -> Compiled | None:
        """Return the shared function stored under a key, or None."""
        data = self._functions.read(key)
        if data is None:
            return None
        found = json.loads(bytes(data))
        return Compiled(**found | {n: tuple(found[n]) for n in ("note", "parts")})

    def put_function(self, key: str, function: Compiled) -> None:
        """Store under a key what is known of a shared function, if that is possible."""
        text = json.dumps(asdict(function)).encode()
        self._functions.write(key, [text], self.limit_bytes // 64)

    def clear(self) -> None:
        """Remove all programs and shared functions."""
        for entries in (self._programs, self._parts, self._functions):
            entries.evict(0)


def default_folder() -> Path:
    """Return the user's folder for compiled programs."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("hlo-tools", appauthor=False)) / "programs"
