"""A reader for short pieces of HLO text: shapes, layouts, attribute values.

The grammar treats these as single tokens; each is read by a few calls on a `Scanner`. White
space and comments between words are skipped. Errors are `TextError`s with an offset into the piece.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import ClassVar, NoReturn

from hlo.errors import TextError, did_you_mean

_SKIP = re.compile(r"(?>(?:\s++|/\*.*?\*/|//[^\r\n]*+)*)", re.S)
_INT = re.compile(r"-?\d++")
_IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*+")
_NUMBER = re.compile(
    r"-?(?:inf(?![A-Za-z_])|nan(?:\(0x[0-9a-fA-F]+\))?(?![A-Za-z_])"
    r"|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)"
)
_STRING = re.compile(r'"((?>(?:[^"\\]++|\\.)*))"' + r"|'((?>(?:[^'\\]++|\\.)*))'", re.S)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_MAX_INT_DIGITS = 20


# Bytes that are not valid UTF-8 become these surrogates, as in Python's surrogateescape.
_LONE_BYTE = 0xDC00


def to_bytes(value: str) -> bytes:
    """Return the bytes of a quoted string, which need not be UTF-8."""
    try:
        return value.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which a Python string may contain
        return value.encode(errors="surrogatepass")


def from_bytes(data: bytes) -> str:
    """Return bytes as a string: the inverse of `to_bytes`."""
    return data.decode(errors="surrogateescape")


def unescape(body: str) -> str:
    """Return the value of a quoted string's body, with C escapes resolved: each is a byte."""
    if "\\" not in body:
        return body

    def one(m: re.Match[str]) -> str:
        e = m[1]
        if e[0] == "x" and len(e) > 1:
            return _byte(int(e[1:], 16))
        if e[0] in "01234567":
            return _byte(int(e, 8) & 0xFF)
        return _ESCAPES.get(e, e)

    value = _ESCAPE.sub(one, body)
    # Several escaped bytes may form one character.
    return value if value.isascii() else from_bytes(to_bytes(value))


def _byte(code: int) -> str:
    return chr(code if code < 128 else _LONE_BYTE + code)


def escape(value: str) -> str:
    """Return a string with quotes, backslashes and control characters as C escapes."""
    return _TO_ESCAPE.sub(_escaped, value)


_TO_ESCAPE = re.compile(rf"[\"\\'\x00-\x1f\x7f{chr(_LONE_BYTE)}-{chr(_LONE_BYTE + 0xFF)}]")
_LETTERS = {c: f"\\{c}" for c in "\"\\'"} | {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def _escaped(m: re.Match[str]) -> str:
    return _LETTERS.get(m[0]) or f"\\{ord(m[0]) & 0xFF:03o}"


class Scanner:
    """A cursor over a piece of text."""

    __slots__ = ("pos", "text")
    # White space and comments.
    gap: ClassVar[re.Pattern[str]] = _SKIP

    def __init__(self, text: str, pos: int = 0) -> None:
        self.text = text
        self.pos = pos
        self.skip()

    def skip(self) -> None:
        """Move past white space and comments."""
        text, pos = self.text, self.pos
        if text[pos : pos + 1] == " ":
            pos += 1
        # Most gaps are empty or one space, which takes no pattern.
        if " " < text[pos : pos + 1] < "\x7f" and text[pos] != "/":
            self.pos = pos
            return
        m = self.gap.match(text, pos)
        assert m
        self.pos = m.end()

    def fail(
        self, message: str, start: int | None = None, *, code: str = "syntax",
        hint: str | None = None,
    ) -> NoReturn:  # fmt: skip
        """Raise TextError, at the cursor unless a start is given."""
        raise TextError(message, self.pos if start is None else start, code=code, hint=hint)

    def found(self) -> str:
        """Describe the text at the cursor, for an error message."""
        rest = self.text[self.pos : self.pos + 20]
        return repr(rest.split("\n")[0]) if rest else "the end of the value"

    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def end(self) -> None:
        """Fail unless everything has been read."""
        if not self.at_end():
            self.fail(f"unexpected {self.found()}")

    def peek(self, word: str) -> bool:
        return self.text.startswith(word, self.pos)

    def accept(self, word: str) -> bool:
        """Move past `word` if it is at the cursor."""
        if not self.text.startswith(word, self.pos):
            return False
        self.pos += len(word)
        self.skip()
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(f"expected {word!r}, found {self.found()}")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Move past a match of a pattern; `what` names it in the error if there is none."""
        m = pattern.match(self.text, self.pos)
        if m is None:
            self.fail(f"expected {what}, found {self.found()}")
        self.pos = m.end()
        self.skip()
        return m

    def integer(self, lo: int = -(2**63), hi: int = 2**63 - 1) -> int:
        """Read an integer in `[lo, hi]`."""
        at = self.pos
        m = self.match(_INT, "an integer")
        value = int(m[0]) if len(m[0]) <= _MAX_INT_DIGITS else None
        if value is None or not lo <= value <= hi:
            raise TextError(f"{m[0][:24]} is not in the range [{lo}, {hi}]", at, code="bad-value")
        return value

    def ident(self, what: str = "a name") -> str:
        return self.match(_IDENT, what)[0]

    def number(self) -> float:
        """Read a decimal, `inf` or `nan`."""
        m = self.match(_NUMBER, "a number")
        text = m[0].split("(")[0]
        return float(text)

    def boolean(self) -> bool:
        for word, value in (("true", True), ("false", False), ("1", True), ("0", False)):
            if self.accept(word):
                return value
        self.fail(f"expected true or false, found {self.found()}")

    def string(self) -> str:
        m = self.match(_STRING, "a quoted string")
        return unescape(m[1] if m[1] is not None else m[2])

    def fields(self, what: str, known: Collection[str]) -> Iterator[str]:
        """Read `{name=value name=value}`, with or without commas; yield each name.

        The caller reads the value. what: kind of the fields, for error messages. Raises
        TextError for a name that is not `known`, or occurs twice.
        """
        seen: set[str] = set()
        self.expect("{")
        while not self.accept("}"):
            at = self.pos
            name = self.ident(f"a {what} field")
            if name not in known:
                raise TextError(
                    f"unknown {what} field {name!r}", at, code="unknown-attribute",
                    hint=did_you_mean(name, known) or "one of " + ", ".join(known),
                )  # fmt: skip
            if name in seen:
                message = f"{what} field {name!r} is given twice"
                raise TextError(message, at, code="duplicate-attribute")
            seen.add(name)
            self.expect("=")
            yield name
            self.accept(",")

    def items(self, open_: str = "{", close: str = "}") -> Iterator[None]:
        """Read `{a,b,c}`, possibly empty; the caller reads each item."""
        self.expect(open_)
        is_first = True
        while not self.accept(close):
            if not is_first:
                self.expect(",")
            is_first = False
            yield

    def integers(self, open_: str = "{", close: str = "}") -> tuple[int, ...]:
        """Read `{1,2,3}`, possibly empty."""
        self.expect(open_)
        values: list[int] = []
        if self.accept(close):
            return ()
        while True:
            values.append(self.integer())
            if self.accept(close):
                return tuple(values)
            self.expect(",")
