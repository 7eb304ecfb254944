"""Compiled programs on disk, by the content of what they were made from.

One file holds one program behind a checksum. Files appear whole, by renaming, so that any number of
processes may read and write the folder at once. A file that is damaged counts as absent and is
written again. When the folder grows over its limit, what was not used for longest goes.

What is in the cache is run: folder and files count only if they are the user's, and nobody else may
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

from hlo.runtime.program import NativeProgram, from_bytes, to_bytes

LIMIT_BYTES = 1 << 30
_MAGIC = b"hlo-tools program\n"
# The program starts at a multiple of 64, as its constants are aligned from there.
_HEAD_BYTES = 64
_SUFFIX = ".program"
_TEMPORARY = "new-"
# A temporary file of this age belongs to a process that did not live to rename it.
_ABANDONED_S = 3600.0


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """Return the key of what a program is made from: each part counts, and where it ends."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


class Cache:
    """A folder of programs.

    `problem` says why the last one could not be stored, if it could not: a program that is not
    stored is only slower to get the next time, so nothing is raised.
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
                # Mapped, so that large constants cost memory only where they are used, and once
                # for all processes.
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
                self.problem = f"{self.folder}: it is another user's, or others may write to it"
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
        """Remove what was not used for longest until the rest takes at most `keep_bytes`."""
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


# No symbolic links, no waiting for whoever writes to a pipe; not every system knows these.
_CAUTIOUSLY = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def _is_private(status: os.stat_result, kind: int) -> bool:
    """True for a file or folder that is the user's own and that nobody else may write."""
    if stat.S_IFMT(status.st_mode) != kind:
        return False
    if os.name != "posix":  # where modes say nothing of it, and a user's folders are the user's
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _head(key: str, pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return what stands before a program: an entry under another key is none."""
    checksum = hashlib.sha256(key.encode())
    for piece in pieces:
        checksum.update(piece)
    return _MAGIC.ljust(_HEAD_BYTES - checksum.digest_size) + checksum.digest()
