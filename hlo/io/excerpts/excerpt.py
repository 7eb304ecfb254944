"""A text that is taken out of another one."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate

from hlo.errors import Source

# The offset of a piece of text in the file, and the text that it stands for.
Piece = tuple[int, str]


class Excerpt(Source):
    """Pieces of a file in order, as one text whose positions are those in the file.

    outer: the file. The text of a piece is that of the file, or what an escape sequence there
    stands for.
    """

    __slots__ = ("_in_file", "_in_text", "_sizes", "outer")

    def __init__(self, outer: Source, pieces: Sequence[Piece]) -> None:
        super().__init__(outer.name, "".join(text for _, text in pieces))
        self.outer = outer
        self._sizes = [len(text) for _, text in pieces]
        self._in_text = [0, *accumulate(self._sizes)][:-1]
        self._in_file = [offset for offset, _ in pieces]

    def to_file(self, offset: int) -> int:
        """Return the offset in the file of a character of the text."""
        at = max(0, bisect.bisect_right(self._in_text, offset) - 1)
        inside = min(max(0, offset - self._in_text[at]), self._sizes[at])
        whole = self._in_file[at] + inside
        return self.outer.to_file(whole) if isinstance(self.outer, Excerpt) else whole

    def from_file(self, offset: int) -> int:
        """Return the character of the text at an offset of the file, or the last one before it."""
        if isinstance(self.outer, Excerpt):
            offset = self.outer.from_file(offset)
        at = max(0, bisect.bisect_right(self._in_file, offset) - 1)
        return self._in_text[at] + min(max(0, offset - self._in_file[at]), self._sizes[at])

    @property
    def file(self) -> Source:
        """The file itself."""
        return self.outer.file if isinstance(self.outer, Excerpt) else self.outer

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column in the file of a character of the text."""
        return self.file.line_column(self.to_file(offset))

    def line_start(self, number: int) -> int:
        """Return the character offset in the file of a 1-based line."""
        return self.file.line_start(number)

    def line(self, number: int) -> str:
        """Return the text of a 1-based line of the file."""
        return self.file.line(number)
