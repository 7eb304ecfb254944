"""A cache of compiled programs on disk, keyed by the content that they were made from.

One file contains one program, preceded by a checksum. Files are created by an atomic rename, so
that any number of processes may read and write the folder concurrently. A damaged file counts as
absent and is written again. When the folder exceeds its limit, the least recently used programs
are evicted.

Cached programs are executed: folder and files are used only if they belong to the user, and
nobody else may write them.
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

from hlo.runtime.program import NativeProgram, from_bytes, to_bytes

LIMIT_BYTES = 1 << 30
_MAGIC = b"hlo-tools program\n"
# The program starts at a multiple of 64, so that its constants are aligned.
_HEAD_BYTES = 64
_SUFFIX = ".program"
_TEMPORARY = "new-"
# A temporary file of this age belongs to a process that died before renaming it.
_ABANDONED_S = 3600.0


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
        """folder: by default one in the user's folder for caches. It is made when needed."""
        self.folder = default_folder() if folder is None else Path(folder)
        self.limit_bytes = limit_bytes
        self.problem: str | None = None

    def get(self, key: str) -> NativeProgram | None:
        """Return the program stored under a key, or None."""
        path = self._path(key)
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
        if bytes(data[:_HEAD_BYTES]) != _head(key, [data[_HEAD_BYTES:]]):
            return None
        try:
            return from_bytes(data[_HEAD_BYTES:])
        except ValueError:
            return None

    def put(self, key: str, program: NativeProgram) -> None:
        """Store a program under a key, if that is possible; see `problem`."""
        pieces = to_bytes(program)
        size = sum(len(p) for p in pieces)
        self.problem = None
        if size > self.limit_bytes // 2:
            self.problem = f"{size} bytes are too many for a cache of {self.limit_bytes}"
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(os.stat(self.folder), stat.S_IFDIR):
                self.problem = (
                    f"{self.folder}: it belongs to another user, or others may write to it"
                )
                return
            self._evict(self.limit_bytes - size)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=_TEMPORARY)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_head(key, pieces))
                    file.writelines(pieces)
                os.replace(name, self._path(key))
            except BaseException:
                os.unlink(name)
                raise
        except OSError as e:
            self.problem = f"{self.folder}: {(e.strerror or str(e)).lower()}"

    def discard(self, key: str) -> None:
        """Remove the program stored under a key."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(key))

    def clear(self) -> None:
        """Remove all programs."""
        self._evict(0)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _evict(self, keep_bytes: int) -> None:
        """Evict the least recently used programs until the rest takes at most `keep_bytes`."""
        found: list[tuple[float, int, str]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                # Another process may remove a file at any time.
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX):
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


def default_folder() -> Path:
    """Return the user's folder for compiled programs."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("hlo-tools", appauthor=False)) / "programs"


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


def _head(key: str, pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return the header of a program's file, which contains its key."""
    checksum = hashlib.sha256(key.encode())
    for piece in pieces:
        checksum.update(piece)
    return _MAGIC.ljust(_HEAD_BYTES - checksum.digest_size) + checksum.digest()
