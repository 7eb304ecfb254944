"""Modules in strings of programs: C++, Python, JavaScript, Go, Rust and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hlo.io.excerpts.braces import depth_of
from hlo.io.excerpts.excerpt import Piece
from hlo.io.excerpts.lines import BETWEEN_COMPUTATIONS

_STRING = re.compile(
    r"""(?:(?<!\w)(?P<prefix>[A-Za-z]{1,2}8?))?(?P<quote>"{3}|'{3}|"|'|(?<!`)`(?!`))"""
)
_RAW = re.compile(r"""R"(?P<cpp>[^()\\\s]{0,16})\(|(?<!\w)b?r(?P<rust>#{1,9})\"""")
_ESCAPE = re.compile(
    r"\\(?:(?P<code>u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2})|(?P<break>\n)"
    r"""|(?P<one>[nrtvfab0"'`\\/$?]))"""
)
# In an f-string, a brace is written twice.
_FORMAT_ESCAPE = re.compile(rf"{_ESCAPE.pattern}|\{{\{{|\}}\}}")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b", "0": "\0"}
# Between two strings of which the second continues the first.
_BETWEEN = re.compile(r"(?>(?:\s++|\\\n|//[^\n]*+|#[^\n]*+)*)(?P<join>[+,]?)(?>(?:\s++|\\\n)*)")


class Literal(NamedTuple):
    """A string of a program: where it begins and ends, and what it says."""

    start: int
    end: int
    pieces: list[Piece]


def string_around(text: str, at: int) -> Literal | None:
    """Return the string whose content begins at an offset, None if there is none.

    White space and comments of the module may precede the offset.
    """
    begin = _content_start(text, at)
    line = text.rfind("\n", 0, begin) + 1
    for pattern, read in ((_RAW, _raw), (_STRING, _quoted)):
        for m in pattern.finditer(text, line, begin):
            if m.end() == begin:
                return read(text, m)
    return None


def _content_start(text: str, at: int) -> int:
    """Return where the white space, comments and escaped line breaks before an offset begin."""
    while at:
        line = text.rfind("\n", 0, at) + 1
        if text[at - 1].isspace() or text.startswith("\\\n", at - 1):
            at -= 1
        elif text.endswith(("\\n", "\\t"), 0, at):
            at -= 2
        elif text[line:at].lstrip().startswith("//"):
            at = line
        else:
            break
    return at


def _raw(text: str, opener: re.Match[str]) -> Literal | None:
    closing = f'){opener["cpp"]}"' if opener["rust"] is None else f'"{opener["rust"]}'
    start, end = opener.end(), text.find(closing, opener.end())
    return (
        Literal(opener.start(), end + len(closing), [(start, text[start:end])]) if end > 0 else None
    )


def _quoted(text: str, opener: re.Match[str]) -> Literal | None:
    """Read a string with escape sequences, and those that continue it."""
    quote, pieces, at = opener["quote"], list[Piece](), opener
    while (end := _end(text, at.end(), quote)) is not None:
        pieces += _meant(text, at.end(), end, (at["prefix"] or "").lower())
        end += len(quote)
        following, is_list = _next(text, end, quote)
        if following is None or (is_list and not _goes_on(text, following, pieces)):
            return Literal(opener.start(), end, pieces)
        if is_list:
            pieces.append((end, "\n"))
        at = following
    return None


def _goes_on(text: str, following: re.Match[str], pieces: list[Piece]) -> bool:
    """Tell whether the next string of a list is a line of the module, and no other value."""
    said = "".join(piece for _, piece in pieces)
    start = following.end()
    is_blank = text.startswith(following["quote"], start)
    return depth_of(said) > 0 or is_blank or BETWEEN_COMPUTATIONS.match(text, start) is not None


def _end(text: str, start: int, quote: str) -> int | None:
    """Return where a string ends, None if it does not."""
    is_long = len(quote) == 3 or quote == "`"
    for m in re.compile(rf"\\.|{quote}" + "|\n" * (not is_long), re.S).finditer(text, start):
        if m[0] == quote:
            return m.start()
        if m[0] == "\n":
            break
    return None


def _meant(text: str, start: int, end: int, prefix: str) -> Iterator[Piece]:
    """Yield what the content of a string stands for, piece by piece."""
    if "r" not in prefix:
        for m in (_FORMAT_ESCAPE if "f" in prefix else _ESCAPE).finditer(text, start, end):
            if m.start() > start:
                yield start, text[start : m.start()]
            yield m.start(), _character(m)
            start = m.end()
    if end > start:
        yield start, text[start:end]


def _character(escape: re.Match[str]) -> str:
    """Return what an escape sequence stands for."""
    if escape["code"]:
        return chr(min(int(escape["code"][1:], 16), 0x10FFFF))
    if escape["break"]:
        return ""
    one = escape["one"]
    return _CONTROLS.get(one, one) if one else escape[0][0]


def _next(text: str, end: int, quote: str) -> tuple[re.Match[str] | None, bool]:
    """Return the opening of the string behind one, and whether a comma is between the two."""
    gap = _BETWEEN.match(text, end)
    assert gap is not None
    following = _STRING.match(text, gap.end())
    if following is not None and following["quote"] != quote:
        following = None
    return following, gap["join"] == ","
