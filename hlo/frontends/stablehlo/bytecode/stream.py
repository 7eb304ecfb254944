"""Primitive values of MLIR's bytecode: reading and writing."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NoReturn

from hlo.errors import TextError
from hlo.ir.computation import counted

ALIGNED = 0x80


def fail(
    message: str, offset: int, code: str = "bad-bytecode", hint: str | None = None
) -> NoReturn:
    """Raise TextError at an offset in bytes."""
    raise TextError(message, offset, code=code, hint=hint)


class Stream:
    """A position in a range of bytes. All methods raise TextError where the range ends."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int, end: int) -> None:
        self.data = data
        self.pos = pos
        self.end = end

    @property
    def at_end(self) -> bool:
        return self.pos >= self.end

    def take(self, size: int) -> bytes:
        start = self.pos
        if size > self.end - start:
            fail(f"expected {counted(size, 'byte')}, found {self.end - start}", start)
        self.pos = start + size
        return self.data[start : start + size]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        """Return an unsigned integer of 64 bits: the low zeros of the first byte count the bytes
        that follow."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        return (first | int.from_bytes(self.take(more), "little") << 8) >> (more + 1)

    def flagged(self) -> tuple[int, bool]:
        """Return an unsigned integer and the flag in its low bit."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def signed(self) -> int:
        """Return a signed integer of 64 bits."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def signed_list(self) -> list[int]:
        return [self.signed() for _ in range(self.count())]

    def count(self) -> int:
        """Return the number of elements that follow, each of which takes at least one byte."""
        start, count = self.pos, self.varint()
        if count > self.end - self.pos:
            fail(f"{count} elements cannot fit in the {self.end - self.pos} bytes left", start)
        return count

    def wide(self, bits: int) -> int:
        """Return an integer of a known width, which may be negative."""
        if bits <= 8:
            return self.byte()
        if bits <= 64:
            return self.signed()
        words = [self.signed() & (1 << 64) - 1 for _ in range(self.count())]
        return sum(word << 64 * i for i, word in enumerate(words))

    def double(self) -> float:
        """Return a number of type f64."""
        value: float = struct.unpack("<d", struct.pack("<Q", self.wide(64) & (1 << 64) - 1))[0]
        return value

    def blob(self) -> bytes:
        return self.take(self.varint())

    def until_null(self) -> bytes:
        """Return the bytes before a null, which is consumed."""
        null = self.data.find(b"\0", self.pos, self.end)
        if null < 0:
            fail("a string is not terminated", self.pos)
        start, self.pos = self.pos, null + 1
        return self.data[start:null]

    def section(self) -> tuple[int, Stream]:
        """Return the number of the section here and its content."""
        start, number = self.pos, self.byte()
        size = self.varint()
        if number & ALIGNED:
            alignment = self.varint()
            if not alignment or alignment & (alignment - 1) or alignment > 1 << 31:
                fail(f"an alignment of {alignment} bytes is not a power of 2", start)
            self.take(-self.pos % alignment)
        content = self.pos
        self.take(size)
        return number & ~ALIGNED, Stream(self.data, content, self.pos)


class Output:
    """Bytes that are written; the counterpart of `Stream`."""

    __slots__ = ("_pieces", "_tail")

    # Longer pieces are kept, not copied.
    _COPIED = 1 << 12

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._tail = bytearray()

    def pieces(self) -> list[bytes]:
        """Return what was written, in pieces."""
        if self._tail:
            self._pieces.append(bytes(self._tail))
            self._tail = bytearray()
        return self._pieces

    @property
    def size(self) -> int:
        return sum(map(len, self._pieces)) + len(self._tail)

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        if len(data) <= self._COPIED:
            self._tail += data
        else:
            self.pieces().append(data)

    def byte(self, value: int) -> None:
        self._tail.append(value)

    def varint(self, value: int) -> None:
        """Write an unsigned integer of 64 bits."""
        if value < 128:  # most are
            self._tail.append(value << 1 | 1)
            return
        size = max(-(-value.bit_length() // 7), 1)
        if size > 8:
            self._tail += b"\0" + value.to_bytes(8, "little")
        else:
            self._tail += (value << size | 1 << (size - 1)).to_bytes(size, "little")

    def flagged(self, value: int, flag: bool) -> None:
        """Write an unsigned integer with a flag in its low bit."""
        self.varint(value << 1 | flag)

    def signed(self, value: int) -> None:
        """Write a signed integer of 64 bits."""
        self.varint((value << 1) ^ (value >> 63))

    def signed_list(self, values: Sequence[int]) -> None:
        self.varint(len(values))
        for value in values:
            self.signed(value)

    def wide(self, value: int, bits: int) -> None:
        """Write an integer of a known width, at most 64 bits: without its sign."""
        value &= (1 << bits) - 1
        if bits <= 8:
            self.byte(value)
        else:
            self.signed(value - (value >> 63 << 64))

    def double(self, value: float) -> None:
        """Write a number of type f64."""
        self.wide(struct.unpack("<Q", struct.pack("<d", value))[0], 64)

    def blob(self, data: bytes) -> None:
        self.varint(len(data))
        self.raw(data)

    def section(self, number: int, content: Output) -> None:
        """Write a section with its number."""
        self.byte(number)
        self.varint(content.size)
        for piece in content.pieces():
            self.raw(piece)
