"""The binary form of messages: reading and writing of protocol buffers' wire format.

Source: https://protobuf.dev/programming-guides/encoding. Fields that are not in the schema are kept
as bytes, as usual for protocol buffers. Allocations are bounded by the size of the input.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from hlo.errors import TextError
from hlo.frontends.proto.schema import FIXED, EnumType, Field, Message, MessageType
from hlo.values.scan import from_bytes, to_bytes

# The usual limit of protocol buffers.
MAX_NESTING = 100
_MASK = (1 << 64) - 1
_LONGEST_VARINT = 10
# Numbers of one byte, as most are.
_SHORT = [bytes((n,)) for n in range(0x80)]
_BULK_TYPES = {"float": "<f4", "double": "<f8", "bool": "?"}


def _fail(message: str, offset: int, code: str = "bad-proto") -> NoReturn:
    raise TextError(message, offset, code=code)


# --- reading ------------------------------------------------------------------------------------


def decode(data: bytes, kind: MessageType, start: int = 0, end: int | None = None) -> Message:
    """Decode the message in `data[start:end]`. Raises TextError at an offset in `data`."""
    return _Decoder(data).message(kind, Message(), start, len(data) if end is None else end, 0)


def first_field(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Return the extent of the content of field 1, if it has a length and comes first."""
    if data[start : start + 1] != b"\n":
        return None
    return _Decoder(data).content(start + 1, end, start)


def with_length(data: bytes) -> tuple[int, int] | None:
    """Return the extent of a message that is preceded by its length, if it is complete."""
    try:
        return _Decoder(data).content(0, len(data), 0)
    except TextError:
        return None


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def message(self, kind: MessageType, into: Message, pos: int, end: int, depth: int) -> Message:
        """Read the fields in `[pos, end)` into a message and return it."""
        if depth > MAX_NESTING:
            _fail(f"messages are nested more than {MAX_NESTING} deep", pos, "nesting-too-deep")
        chunks: dict[str, list[np.ndarray]] = {}
        unknown = [into.unknown]
        while pos < end:
            start = pos
            tag, pos = self._varint(pos, end)
            entry, wire = kind.by_number.get(tag >> 3), tag & 7
            if tag >> 3 == 0:
                _fail(f"a field of {kind.name} has the number 0", start)
            if wire == 2:
                pos, stop = self.content(pos, end, start)
            elif wire == 0:
                stop = self._varint(pos, end)[1]
            elif wire in (1, 5):
                stop = self._checked_end(pos, end, 8 if wire == 1 else 4, start)
            else:
                _fail(f"invalid wire type {wire}", start)
            if entry is not None:
                self._field(entry, wire, into, chunks, pos, stop, depth)
            else:
                unknown.append(self._data[start:stop])
            pos = stop
        into.unknown = b"".join(unknown)
        for name, parts in chunks.items():
            into[name] = np.concatenate([into[name], *parts] if name in into else parts)
        return into

    def content(self, pos: int, end: int, start: int) -> tuple[int, int]:
        """Return the extent of a value whose length is at `pos`, of a field at `start`."""
        size, pos = self._varint(pos, end)
        return pos, self._checked_end(pos, end, size, start)

    def _checked_end(self, pos: int, end: int, size: int, start: int) -> int:
        if size > end - pos:
            _fail(f"a value of {size} bytes where {end - pos} are left", start)
        return pos + size

    def _field(
        self, entry: Field, wire: int, into: Message, chunks: dict[str, list[np.ndarray]],
        pos: int, end: int, depth: int,
    ) -> None:  # fmt: skip
        kind, name = entry.kind, entry.name
        packed = wire == 2 and entry.repeated and entry.wire_type != 2
        if wire != entry.wire_type and not packed:
            _fail(f"field {name} has wire type {wire}, not {entry.wire_type}", pos)
        if entry.bulk:
            chunks.setdefault(name, []).append(self._bulk(entry, pos, end))
            return
        value: Any
        if packed:
            values = into.setdefault(name, [])
            while pos < end:
                value, pos = self._scalar(entry, pos, end)
                values.append(value)
            return
        if isinstance(kind, MessageType):
            old = None if entry.repeated else into.get(name)
            value = Message() if old is None else old
            value.offset = pos
            self.message(kind, value, pos, end, depth + 1)
        elif entry.wire_type == 2:
            value = self._data[pos:end]
            if kind == "string":
                value = from_bytes(value)
        else:
            value, _ = self._scalar(entry, pos, end)
        if entry.repeated:
            into.setdefault(name, []).append(value)
        else:
            into[name] = value

    def _varint(self, pos: int, end: int) -> tuple[int, int]:
        value, shift, start = 0, 0, pos
        data = self._data
        while pos < end:
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK, pos
            shift += 7
            if pos - start == _LONGEST_VARINT:
                _fail(f"a number of more than {_LONGEST_VARINT} bytes", start)
        _fail("the input ends inside a number", start)

    def _scalar(self, entry: Field, pos: int, end: int) -> tuple[Any, int]:
        kind = entry.kind
        if isinstance(kind, str) and kind in FIXED:
            size = FIXED[kind]
            if end - pos < size:
                _fail(f"field {entry.name} ends inside a number", pos)
            return struct.unpack_from("<f" if size == 4 else "<d", self._data, pos)[0], pos + size
        raw, after = self._varint(pos, end)
        if kind == "bool":
            return raw != 0, after
        if kind == "uint64":
            return raw, after
        bits = 64 if kind == "int64" else 32
        raw &= (1 << bits) - 1
        if kind != "uint32" and raw >> (bits - 1):
            raw -= 1 << bits
        return (kind.words.get(raw, raw) if isinstance(kind, EnumType) else raw), after

    def _bulk(self, entry: Field, pos: int, end: int) -> np.ndarray:
        """Read the numbers in `[pos, end)`, packed or a single one."""
        raw = np.frombuffer(self._data, np.uint8, end - pos, pos)
        assert isinstance(entry.kind, str)
        if entry.kind in FIXED:
            if len(raw) % FIXED[entry.kind]:
                _fail(f"field {entry.name} ends inside a number", pos)
            return raw.view(_BULK_TYPES[entry.kind])
        last = np.flatnonzero(raw < 0x80)
        if len(raw) and (not len(last) or last[-1] != len(raw) - 1):
            _fail(f"field {entry.name} ends inside a number", pos)
        starts = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
        lengths = last - starts + 1
        values = np.zeros(len(last), np.uint64)
        for k in range(int(lengths.max(initial=0))):
            if k == _LONGEST_VARINT:
                _fail(f"field {entry.name} has a number of more than {k} bytes", pos)
            longer = lengths > k
            septets = (raw[starts[longer] + k] & 0x7F).astype(np.uint64)
            values[longer] |= septets << np.uint64(7 * k)
        return values != 0 if entry.kind == "bool" else values.astype(entry.kind)


# --- writing ------------------------------------------------------------------------------------


def encode(message: Message, kind: MessageType) -> bytes:
    """Return the bytes of a message: fields in the order of their numbers, unknown ones last."""
    parts: list[bytes] = []
    for entry, value in kind.fields_of(message):
        if entry.repeated and entry.wire_type != 2:
            if len(value):
                parts.append(_with_length(entry, _packed(entry, value)))
            continue
        for one in value if entry.repeated else (value,):
            if isinstance(entry.kind, MessageType):
                parts.append(_with_length(entry, encode(one, entry.kind)))
            elif entry.wire_type == 2:
                if one or entry.repeated or entry.explicit:
                    text = to_bytes(one) if isinstance(one, str) else one
                    parts.append(_with_length(entry, text))
            elif entry.explicit or _scalar_number(entry, one) != 0:
                parts.append(_varint(entry.number << 3 | entry.wire_type))
                parts.append(_packed(entry, (one,)))
    parts.append(message.unknown)
    return b"".join(parts)


def _with_length(entry: Field, data: bytes) -> bytes:
    return _varint(entry.number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _scalar_number(entry: Field, value: Any) -> Any:
    """Return a scalar as a number; enumerations are words in messages."""
    kind = entry.kind
    return kind.numbers[value] if isinstance(kind, EnumType) and isinstance(value, str) else value


def _packed(entry: Field, values: Iterable[Any]) -> bytes:
    kind = entry.kind
    if isinstance(kind, str) and kind in FIXED:
        return np.asarray(values, _BULK_TYPES[kind]).tobytes()
    if entry.bulk and isinstance(values, np.ndarray):
        return _bulk_varints(values)
    return b"".join(_varint(int(_scalar_number(entry, v)) & _MASK) for v in values)


def _bulk_varints(values: np.ndarray) -> bytes:
    wide = values if values.dtype == np.uint64 else values.astype(np.int64).view(np.uint64)
    lengths = np.ones(len(wide), np.int64)
    for k in range(1, _LONGEST_VARINT):
        lengths += wide >= np.uint64(1 << (7 * k))
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for k in range(int(lengths.max(initial=0))):
        longer = lengths > k
        septets = ((wide[longer] >> np.uint64(7 * k)) & np.uint64(0x7F)).astype(np.uint8)
        out[starts[longer] + k] = septets | ((lengths[longer] > k + 1).astype(np.uint8) << 7)
    return out.tobytes()
