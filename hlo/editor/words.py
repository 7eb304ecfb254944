"""The words of a statement with what each of them is: for colours, and for what is at a cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hlo.frontends.text import terminals
from hlo.frontends.text.reading import Statement
from hlo.frontends.text.syntax import Token
from hlo.ops import OPS
from hlo.values.types import TYPE_NAMES

KEYWORD, COMPUTATION, NAME, PARAMETER = "keyword", "computation", "name", "parameter"
OPCODE, TYPE, ATTRIBUTE, FIELD, VALUE = "opcode", "type", "attribute", "field", "value"
NUMBER, STRING, COMMENT, MODULE = "number", "string", "comment", "module"


class Word(NamedTuple):
    """A word: its kind, its characters `[start, end)` in its statement, and its text.

    is_definition: whether it is where a name is defined. key: the attribute whose value it is in.
    """

    kind: str
    start: int
    end: int
    text: str
    is_definition: bool = False
    key: str = ""

    @property
    def name(self) -> str:
        return self.text.removeprefix("%")


_PIECE = re.compile(
    rf"(?P<comment>{terminals.COMMENT})|(?P<string>{terminals.STRING})"
    r"|(?P<word>%?[A-Za-z_][A-Za-z0-9_.-]*)"
    r"|(?P<number>-?(?:\d[\w.]*(?:(?<=[eE])[+-]\d+)?|\.\d+))",
    re.S,
)
_AFTER = re.compile(r"\s*([=\[:(#]?)")
_KEY = re.compile(r",\s*(?:/\*.*?\*/\s*)*([A-Za-z_][A-Za-z0-9_.-]*)", re.S)
_KEYWORDS = frozenset(
    "HloModule ENTRY ROOT FileNames FunctionNames FileLocations StackFrames".split()
)
_CONSTANTS = frozenset({"true", "false", "inf", "nan"})
# Attributes of any operation that hold names of instructions.
_NAMES = frozenset({"control-predecessors"})
_CALLEES = frozenset(key for spec in OPS.values() for key in spec.computation_attrs)


def words(statement: Statement) -> list[Word]:
    """Return the words of a statement, in order."""
    text, at = statement.source.text, 0
    found: list[Word] = []
    key = ""
    for token in statement.tokens:
        start, end = token.start_pos, token.end_pos
        if start < at:
            continue
        if start > at:
            found += _split(text, at, start, "", key)
        if token.type == "ATTRIBUTE" or token.type in _WITH_KEY:
            m = _KEY.match(text, start)
            key = m[1] if m else ""
        elif token.type in ("DEFINITION", "COMPUTATION"):
            key = ""
        found += _split(text, start, end, token.type, key)
        at = end
    found += _split(text, at, len(text), "", key)
    return found


_WITH_KEY = frozenset({"INLINE", "INLINE_LIST", "DEEP_ATTRIBUTE"})


def _split(text: str, start: int, end: int, terminal: str, key: str) -> Iterator[Word]:
    """Yield the words in a part of a statement that is a token of a terminal, or between two."""
    is_first = True
    for m in _PIECE.finditer(text, start, end):
        kind = m.lastgroup
        assert kind is not None
        place = m.start(), m.end(), m[0]
        if kind != "word":
            yield Word(kind, *place, key=key)
            continue
        after = _AFTER.match(text, m.end())
        follows = after[1] if after else ""
        kind = _kind(m[0], follows, terminal, key, is_first)
        is_definition = terminal in _DEFINES and kind in (NAME, COMPUTATION, PARAMETER)
        yield Word(kind, *place, is_definition, key if kind != ATTRIBUTE else "")
        is_first = is_first and kind == KEYWORD


_DEFINES = frozenset({"DEFINITION", "COMPUTATION", "PARAMETER"})


def _kind(word: str, follows: str, terminal: str, key: str, is_first: bool) -> str:
    """Return what a word is, from the character that follows it and where it is."""
    if terminal == "DEFINITION":
        return KEYWORD if word == "ROOT" and follows != "=" else NAME
    if terminal == "COMPUTATION":
        return KEYWORD if word == "ENTRY" and is_first and follows == "" else COMPUTATION
    if terminal == "PARAMETER":
        return PARAMETER
    if terminal == "HEADER":
        return KEYWORD if is_first and word == "HloModule" else MODULE
    if terminal == "OPCODE":
        return OPCODE
    if terminal in ("TABLE", "PAYLOAD", "SHAPE"):
        if word in _KEYWORDS:
            return KEYWORD
        return TYPE if terminal == "SHAPE" and word in TYPE_NAMES else VALUE
    if terminal == "ATTRIBUTE" or terminal in _WITH_KEY:
        if is_first:
            return ATTRIBUTE
        if follows == "=":
            return FIELD
        if key in _CALLEES and "[" not in follows:
            return COMPUTATION
        if key in _NAMES:
            return NAME
        return TYPE if word in TYPE_NAMES and follows == "[" else VALUE
    if terminal in ("OPERANDS", "OPERAND"):
        if word in _CONSTANTS:
            return VALUE
        return TYPE if follows == "[" and word in TYPE_NAMES else NAME
    if terminal == "NAME":
        return COMPUTATION
    # Between tokens: where the text is broken.
    if word in _KEYWORDS:
        return KEYWORD
    if word in TYPE_NAMES:
        return TYPE
    if follows == "(" and word in OPS:
        return OPCODE
    if follows == "=":
        return NAME if word.startswith("%") else ATTRIBUTE
    return VALUE if word in _CONSTANTS else NAME


def word_at(statement: Statement, offset: int) -> Word | None:
    """Return the word that contains a character of a statement, or ends there."""
    last = None
    for word in words(statement):
        if word.start > offset:
            break
        if offset <= word.end:
            last = word
    return last


def token_at(statement: Statement, offset: int) -> Token | None:
    """Return the token that contains a character of a statement."""
    return next((t for t in statement.tokens if t.start_pos <= offset < t.end_pos), None)
