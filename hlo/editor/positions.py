"""Places in a text as the language server protocol counts them: lines, and UTF-16 code units."""

from __future__ import annotations

import bisect
import re
from typing import NamedTuple

from hlo.errors import line_starts
from hlo.io.excerpts import Excerpt

_WIDE = re.compile("[\U00010000-\U0010ffff]")


class Place(NamedTuple):
    """A place in a text: line and UTF-16 code unit in it, both from 0 on."""

    line: int
    character: int


class Lines:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_plain = text.isascii()
        self._starts = line_starts(text)

    def __len__(self) -> int:
        return len(self._starts)

    def offset(self, place: Place) -> int:
        """Return the character of a place; one beyond the end of its line is the end of that."""
        line, wanted = place
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self._text)
        start, end = self._starts[line], self.end(line)
        if self._is_plain:
            return start + max(0, min(wanted, end - start))
        at = start
        while wanted > 0 and at < end:
            wanted -= 2 if self._text[at] > "\uffff" else 1
            at += 1
        # A place in the middle of a character is in front of it.
        return at if wanted >= 0 else at - 1

    def place(self, offset: int) -> Place:
        """Return the place of a character."""
        offset = max(0, min(offset, len(self._text)))
        line = bisect.bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        count = offset - start
        if not self._is_plain:
            count += len(_WIDE.findall(self._text, start, offset))
        return Place(line, count)

    def start(self, line: int) -> int:
        """Return the first character of a line."""
        return self._starts[line]

    def end(self, line: int) -> int:
        """Return the character behind the last one of a line, its line break left out."""
        start = self._starts[line]
        if line + 1 == len(self._starts):
            return len(self._text)
        end = self._starts[line + 1] - 1
        if end > start and self._text[end] == "\n" and self._text[end - 1] == "\r":
            end -= 1
        return end


class ExcerptLines:
    """Where the characters of a module are in the file that it is inside of."""

    def __init__(self, lines: Lines, excerpt: Excerpt) -> None:
        self._lines, self._excerpt = lines, excerpt

    def offset(self, place: Place) -> int:
        """Return the character of the module at a place in the file, or the last one before it."""
        return self._excerpt.from_file(self._lines.offset(place))

    def place(self, offset: int) -> Place:
        """Return the place in the file of a character of the module."""
        return self._lines.place(self._excerpt.to_file(offset))
