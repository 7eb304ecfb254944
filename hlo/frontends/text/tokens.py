"""The tokens of HLO text."""

from __future__ import annotations

import lark


class Token(lark.Token):
    """A piece of text with its kind and its place, `[start_pos, end_pos)`.

    Lark's own tokens have lines and columns, and take three times as long to make.
    """

    __slots__ = ()

    start_pos: int
    end_pos: int
    # What nobody asks for but lark, which copies it.
    line = column = end_line = end_column = None

    def __new__(cls, type: str, value: str, start_pos: int, end_pos: int | None = None) -> Token:
        token = str.__new__(cls, value)
        token.type = type
        token.value = value
        token.start_pos = start_pos
        token.end_pos = start_pos + len(value) if end_pos is None else end_pos
        return token
