"""Reading and writing of messages in text form (`.pbtxt`).

Source: https://protobuf.dev/reference/protobuf/textformat-spec, without extensions and `Any`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from hlo.errors import TextError, did_you_mean
from hlo.frontends.proto.schema import FIXED, EnumType, Field, Message, MessageType
from hlo.frontends.proto.wire import MAX_NESTING
from hlo.values.scan import from_bytes, to_bytes

_TOKEN = re.compile(
    r"""(?>(?:[ \t\r\n\f\v]++|\#[^\n]*+)*)(?:
    (?P<string>"(?>(?:[^"\\\n]++|\\.)*)"|'(?>(?:[^'\\\n]++|\\.)*)')
    |(?P<number>-?[ \t]*(?:0[xX][0-9a-fA-F]++|(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?[fF]?)(?!\w))
    |(?P<word>-?[A-Za-z_]\w*+)
    |(?P<mark>[][{}<>:,;])
    |(?P<end>\Z))""",
    re.X | re.S,
)
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.S
)
_CHARACTERS = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_LIMITS = {"int32": (31, True), "int64": (63, True), "uint32": (32, False), "uint64": (64, False)}
_DTYPES: dict[Any, Any] = {"float": "f4", "double": "f8"}
_FLOATS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}


# --- reading ------------------------------------------------------------------------------------


def parse(text: str, kind: MessageType) -> Message:
    """Parse a message. Raises TextError."""
    reader = _Reader(text)
    message = reader.message(kind, "", 0)
    return message


class _Reader:
    """A parser with one token of lookahead; `type`, `value` and `start` describe it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._advance()

    def _advance(self) -> None:
        m = _TOKEN.match(self._text, self._pos)
        if m is None:
            at = re.compile(r"(?>(?:\s++|#[^\n]*+)*)").match(self._text, self._pos).end()  # type: ignore[union-attr]
            raise TextError(f"unexpected {self._text[at : at + 20]!r}", at)
        self.type = m.lastgroup
        self.value = m[m.lastgroup or 0]
        self.start = m.start(m.lastgroup or 0)
        self._pos = m.end()

    def _fail(self, message: str, hint: str | None = None, code: str = "syntax") -> NoReturn:
        raise TextError(message, self.start, code=code, hint=hint)

    def _found(self) -> str:
        return repr(self.value) if self.type != "end" else "the end of the text"

    def _accept(self, marks: str) -> str:
        """Consume the next token if it is one of these characters; return it, or `""`."""
        value = self.value
        if self.type == "mark" and value in marks:
            self._advance()
            return value
        return ""

    def message(self, kind: MessageType, closing: str, depth: int) -> Message:
        """Read fields up to the closing bracket, or to the end of the text."""
        if depth > MAX_NESTING:
            self._fail(f"messages are nested more than {MAX_NESTING} deep", code="nesting-too-deep")
        into = Message()
        into.offset = self.start
        bulk: list[Field] = []
        while True:
            if closing and self._accept(closing):
                break
            if self.type == "end" and not closing:
                break
            if self.type != "word":
                what = f"a field of {kind.name}" + (f" or {closing!r}" if closing else "")
                self._fail(f"expected {what}, found {self._found()}")
            entry = kind.by_name.get(self.value)
            if entry is None:
                self._fail(
                    f"{kind.name} has no field {self.value!r}",
                    did_you_mean(self.value, kind.by_name), "unknown-attribute",
                )  # fmt: skip
            if entry.bulk and entry.name not in into:
                bulk.append(entry)
            elif not entry.repeated and entry.name in into:
                self._fail(f"{entry.name} is given twice", code="duplicate-attribute")
            self._advance()
            self._field(entry, into, depth)
            self._accept(",;")
        for entry in bulk:
            with np.errstate(over="ignore"):
                into[entry.name] = np.array(into[entry.name], _DTYPES.get(entry.kind, entry.kind))
        return into

    def _field(self, entry: Field, into: Message, depth: int) -> None:
        is_message = isinstance(entry.kind, MessageType)
        colon = self._accept(":")
        if not colon and not is_message:
            self._fail(f"expected ':' after {entry.name}, found {self._found()}")
        if not self._accept("["):
            value = self._value(entry, depth)
            if entry.repeated:
                into.setdefault(entry.name, []).append(value)
            else:
                into[entry.name] = value
            return
        if not entry.repeated:
            self._fail(f"{entry.name} is one value, not a list")
        values = into.setdefault(entry.name, [])
        more = not self._accept("]")
        while more:
            values.append(self._value(entry, depth))
            more = bool(self._accept(","))
            if not more and not self._accept("]"):
                self._fail(f"expected ',' or ']', found {self._found()}")

    def _value(self, entry: Field, depth: int) -> Any:
        kind = entry.kind
        if isinstance(kind, MessageType):
            opening = self._accept("{<")
            if not opening:
                self._fail(f"expected '{{' after {entry.name}, found {self._found()}")
            return self.message(kind, "}" if opening == "{" else ">", depth + 1)
        if isinstance(kind, EnumType):
            value: Any = self._enum(kind)
        elif kind in ("string", "bytes"):
            data = self._strings(entry)
            return data if kind == "bytes" else from_bytes(data)
        elif kind == "bool":
            words = {"true": True, "True": True, "t": True, "1": True,
                     "false": False, "False": False, "f": False, "0": False}  # fmt: skip
            if self.value not in words:
                self._fail(f"{entry.name} is true or false, not {self._found()}", code="bad-value")
            value = words[self.value]
        elif kind in FIXED:
            value = self._float(entry)
        else:
            value = self._integer(entry, *_LIMITS[kind])
        self._advance()
        return value

    def _enum(self, kind: EnumType) -> str | int:
        if self.type == "number" and re.fullmatch(r"-?\d{1,10}", self.value):
            return kind.words.get(int(self.value), int(self.value))
        if self.value not in kind.numbers:
            self._fail(f"{self._found()} is not one of {kind.name}",
                       did_you_mean(self.value, kind.numbers), "bad-value")  # fmt: skip
        return self.value

    def _integer(self, entry: Field, bits: int, signed: bool) -> int:
        text = self.value.replace(" ", "").replace("\t", "")
        if self.type != "number" or not re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", text):
            self._fail(f"{entry.name} is an integer, not {self._found()}", code="bad-value")
        digits = text.lstrip("-").lower()
        base = 16 if digits.startswith("0x") else 8 if digits[0] == "0" else 10
        if len(digits) > 24 or (base == 8 and not set(digits) <= set("01234567")):
            self._fail(f"{entry.name}: {text} is not a valid {entry.kind}", code="bad-value")
        value = int(digits, base) * (-1 if text[0] == "-" else 1)
        if not (-(1 << bits) if signed else 0) <= value < 1 << bits:
            self._fail(f"{entry.name}: {text} is not a valid {entry.kind}", code="bad-value")
        return value

    def _float(self, entry: Field) -> float:
        text = self.value.replace(" ", "").lower()
        word = _FLOATS.get(text.removeprefix("-"))
        if word is not None:
            return -word if text[0] == "-" else word
        if self.type != "number" or "x" in text:
            self._fail(f"{entry.name} is a number, not {self._found()}", code="bad-value")
        return float(text.removesuffix("f"))

    def _strings(self, entry: Field) -> bytes:
        """Read one string, or several adjacent ones as one."""
        if self.type != "string":
            self._fail(f"{entry.name} is a string, not {self._found()}", code="bad-value")
        parts = []
        while self.type == "string":
            parts.append(self._unescaped(self.value[1:-1]))
            self._advance()
        return b"".join(parts)

    def _unescaped(self, text: str) -> bytes:
        if "\\" not in text:
            return to_bytes(text)
        out, pos = bytearray(), 0
        for m in _ESCAPE.finditer(text):
            out += to_bytes(text[pos : m.start()])
            octal, byte, short, long, other = m.groups()
            if octal or byte:
                out += bytes([int(octal or byte, 8 if octal else 16) & 0xFF])
            elif short or long:
                code = int(short or long, 16)
                if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                    self._fail(f"{m[0]} is not a character", code="bad-value")
                out += chr(code).encode()
            elif other in _CHARACTERS:
                out += _CHARACTERS[other].encode()
            else:
                self._fail(f"unknown escape {m[0]}", code="bad-value")
            pos = m.end()
        return bytes(out + to_bytes(text[pos:]))


# --- writing ------------------------------------------------------------------------------------


def write(message: Message, kind: MessageType, *, has_lists: bool = True) -> str:
    """Return the text of a message, fields in the order of their numbers.

    has_lists: repeated numbers are printed as a list; else one a line, as in `DebugString`.
    """
    return "".join(f"{line}\n" for line in _lines(message, kind, "", has_lists))


def _lines(message: Message, kind: MessageType, indent: str, has_lists: bool) -> Iterator[str]:
    for entry, value in kind.fields_of(message):
        if entry.repeated and entry.wire_type != 2 and has_lists:
            if len(value):
                yield f"{indent}{entry.name}: [{', '.join(_scalar(entry, v) for v in value)}]"
            continue
        for one in value if entry.repeated else (value,):
            if isinstance(entry.kind, MessageType):
                yield f"{indent}{entry.name} {{"
                yield from _lines(one, entry.kind, indent + "  ", has_lists)
                yield indent + "}"
            elif entry.repeated or entry.explicit or not _is_default(entry, one):
                yield f"{indent}{entry.name}: {_scalar(entry, one)}"


def _is_default(entry: Field, value: Any) -> bool:
    return not value or (isinstance(entry.kind, EnumType) and entry.kind.numbers.get(value) == 0)


def _scalar(entry: Field, value: Any) -> str:
    if entry.kind in ("string", "bytes"):
        data = to_bytes(value) if isinstance(value, str) else value
        return '"' + "".join(map(_escaped, data)) + '"'
    if entry.kind == "bool":
        return "true" if value else "false"
    if entry.kind == "float":
        # As many digits as distinguish it from other numbers of its type.
        return str(np.float32(value))
    return str(value)


def _escaped(byte: int) -> str:
    if 32 <= byte < 127:
        return "\\" + chr(byte) if byte in b'"\\' else chr(byte)
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(byte, f"\\{byte:03o}")
