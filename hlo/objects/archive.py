"""Archives of object files, as `ar` writes them."""

from __future__ import annotations

from collections.abc import Sequence

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60


def archive(member: str, code: bytes, symbols: Sequence[str]) -> bytes:
    """Return an archive of one object file, in the form of System V and GNU.

    symbols: the defined symbols, for the linker's index. Timestamp and owner are not stored, so
    that equal files give equal archives.
    """
    names = b"".join(s.encode() + b"\0" for s in symbols)
    # Short names are in the header, longer ones in a separate table.
    short = member + "/"
    table = b"" if len(short) <= 16 else short.encode() + b"\n"
    index_bytes = 4 * (1 + len(symbols)) + len(names)
    offset = len(_MAGIC) + _padded_bytes(index_bytes) + (_padded_bytes(len(table)) if table else 0)
    index = len(symbols).to_bytes(4, "big") + offset.to_bytes(4, "big") * len(symbols) + names
    parts = [_MAGIC, _member("/", index)]
    if table:
        parts.append(_member("//", table))
    parts.append(_member("/0" if table else short, code))
    return b"".join(parts)


def _padded_bytes(size: int) -> int:
    return _HEADER_BYTES + size + size % 2


def _member(name: str, data: bytes) -> bytes:
    # Name, time, user, group, mode, size.
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode("ascii")
    assert len(header) == _HEADER_BYTES, name
    return header + data + b"\n" * (len(data) % 2)
