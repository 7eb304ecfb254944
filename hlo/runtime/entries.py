"""A folder of entries by key, each a file with a checksum.

Files are created by an atomic rename, so that any number of processes may read and write the folder
concurrently. A damaged file counts as absent and is written again. When the folder exceeds its
limit, the entries that were not used for longest are evicted.

Entries are executed: folder and files are used only if they belong to the user, and nobody else may
write them.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

HEAD_BYTES = 64
_MAGIC = b"hlo-tools program\n"
_TEMPORARY = "new-"
# A temporary file of this age belongs to a process that died before renaming it.
_ABANDONED_S = 3600.0


class Entries:
    """The files of a folder whose names end in a suffix."""

    def __init__(self, folder: Path, suffix: str, *, looks_at_all: bool) -> None:
        """looks_at_all: before each entry that is written, not before one in some dozens."""
        self.folder, self.suffix = folder, suffix
        self._looks_at_all = looks_at_all

    def read(self, key: str) -> memoryview | None:
        """Return what was written under a key, at a multiple of 64 bytes, or None."""
        path = self.path(key)
        try:
            if not _is_private(os.stat(self.folder), stat.S_IFDIR):
                return None
            handle = os.open(path, os.O_RDONLY | _CAUTIOUSLY)
            try:
                if not _is_private(os.fstat(handle), stat.S_IFREG):
                    return None
                # Mapped, so that large constants are paged in on use and shared between
                # processes.
                data = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
            finally:
                os.close(handle)
            os.utime(path)
        except (OSError, ValueError):  # absent, unreadable, or empty
            return None
        return data[HEAD_BYTES:] if data[:HEAD_BYTES] == head(key, [data[HEAD_BYTES:]]) else None

    def write(self, key: str, pieces: Iterable[bytes | memoryview], limit_bytes: int) -> str | None:
        """Write an entry; returns why that was not possible, if so.

        limit_bytes: of the folder, which is made when needed.
        """
        pieces = list(pieces)
        size = sum(len(p) for p in pieces)
        if size > limit_bytes // 2:
            return f"{size} bytes are too many for a cache of {limit_bytes}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(os.stat(self.folder), stat.S_IFDIR):
                return f"{self.folder}: it belongs to another user, or others may write to it"
            if self._looks_at_all or key.startswith("00"):
                self.evict(limit_bytes - size)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=_TEMPORARY)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(head(key, pieces))
                    file.writelines(pieces)
                os.replace(name, self.path(key))
            except BaseException:
                os.unlink(name)
                raise
        except OSError as e:
            return f"{self.folder}: {(e.strerror or str(e)).lower()}"
        return None

    def discard(self, key: str) -> None:
        """Remove the entry of a key."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(key))

    def path(self, key: str) -> Path:
        """Return where the entry of a key is."""
        return self.folder / f"{key}{self.suffix}"

    def evict(self, keep_bytes: int) -> None:
        """Remove the entries that were not used for longest until the rest has `keep_bytes`."""
        found: list[tuple[float, int, str]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                # Another process may remove a file at any time.
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(self.suffix):
                        found.append((status.st_mtime, status.st_size, entry.path))
                    elif entry.name.startswith(_TEMPORARY) and (
                        status.st_mtime < time.time() - _ABANDONED_S
                    ):
                        os.unlink(entry.path)
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= keep_bytes:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


# Do not follow symbolic links or block on pipes; not every system has these flags.
_CAUTIOUSLY = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def _is_private(status: os.stat_result, kind: int) -> bool:
    """True for a file or folder that is the user's own and that nobody else may write."""
    if stat.S_IFMT(status.st_mode) != kind:
        return False
    if os.name != "posix":  # systems without POSIX modes, where a user's folders are private anyway
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def head(key: str, pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return the first bytes of an entry's file: a checksum, also of its key."""
    checksum = hashlib.sha256(key.encode())
    for piece in pieces:
        checksum.update(piece)
    return _MAGIC.ljust(HEAD_BYTES - checksum.digest_size) + checksum.digest()
