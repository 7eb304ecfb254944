"""Files that gzip has compressed."""

from __future__ import annotations

import zlib

from hlo.errors import HloError
from hlo.support.memory import check_available, size_text

_GZIP = b"\x1f\x8b"
# A file of a few megabytes may say that it has terabytes of zeros.
_MOST_BYTES = 1 << 31
_CHUNK = 1 << 24


def unpacked(data: bytes, name: str) -> bytes:
    """Return the content of a file, unpacked if gzip has compressed it.

    Raises HloError for a broken file, and for one whose content is too large.
    """
    if not data.startswith(_GZIP):
        return data
    pieces: list[bytes] = []
    size, rest = 0, data
    try:
        # A file may have several members, whose contents follow each other.
        while rest.startswith(_GZIP):
            member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            while not member.eof:
                pieces.append(member.decompress(rest, _CHUNK))
                size += len(pieces[-1])
                rest = member.unconsumed_tail
                if size > _MOST_BYTES:
                    limit = size_text(_MOST_BYTES)
                    raise HloError.at("too-large", f"{name} has more than {limit} when unpacked")
                if not pieces[-1] and not member.eof:
                    raise HloError.at("bad-file", f"{name}: the gzip file is truncated")
                check_available(f"{name}, unpacked,", {"content": len(pieces[-1])})
            rest = member.unused_data
    except zlib.error as e:
        reason = str(e).rpartition(": ")[2]
        raise HloError.at("bad-file", f"{name}: the gzip file is broken: {reason}") from None
    return b"".join(pieces)
