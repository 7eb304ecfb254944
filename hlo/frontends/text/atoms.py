"""Pieces of HLO text as atoms: words, strings and signs, with the white space between them.

The grammar's terminals are coarse, a whole attribute or all operands of an instruction. Here each
is taken apart, and every atom says what canonical text has in front of it. Comments are in the gaps
between atoms. A value that is kept verbatim, such as a backend_config, is one atom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from hlo.frontends.text import terminals
from hlo.frontends.text.annotations import CONTROL_PREDECESSORS, end_of_braces
from hlo.ops import OPS
from hlo.ops.attrs import COMPUTATIONS


class Space(Enum):
    """What canonical text has in front of an atom on its line. KEEP: a blank if one is there."""

    NONE = 0
    ONE = 1
    KEEP = 2


class Blank(Enum):
    """Blank lines in front of a line: none, one if there are any, or always so many."""

    NEVER = 0
    KEEP = 1
    ONE = 2
    TWO = 3


@dataclass(frozen=True, slots=True)
class Line:
    """An atom begins a line at column `indent`; comments in front of it are at `inner`."""

    indent: int
    blank: Blank
    inner: int


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece of text with what is in front of it."""

    text: str
    start: int
    end: int
    before: Space | Line

    @property
    def opens(self) -> bool:
        return self.text in _CLOSED_BY


_ATOM = re.compile(
    rf"(?:\s++|{terminals.COMMENT})"
    rf"|(?P<atom>{terminals.LONG_STRING}|->|<=|[{{}}()\[\],:=\"']"
    r"|(?>(?:[^\s{}()\[\],:=\"'/<-]++|-(?!>)|<(?!=)|/(?![*/]))+))",
    re.S,
)
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_CLOSED_BY.values())
_SIGNS = frozenset("([{}]),:=") | {"->", "<="}


@dataclass(slots=True)
class Place:
    """What the white space in front of an atom may depend on, all in the same piece of text.

    previous: the atom before, or nothing. before_that: the one before it. brackets: the open ones,
    each with what it came after.
    """

    previous: str = ""
    before_that: str = ""
    brackets: list[tuple[str, str]] = field(default_factory=list)

    @property
    def inside(self) -> str:
        """The innermost open bracket, or nothing."""
        return self.brackets[-1][0] if self.brackets else ""

    @property
    def in_tile(self) -> bool:
        """True in parentheses behind a word or other such ones: `T(8,128)(2,1)`."""
        bracket, after = self.brackets[-1] if self.brackets else ("", "")
        return bracket == "(" and (after == ")" or _is_word(after))


def _is_word(text: str) -> bool:
    return text != "" and text not in _SIGNS


def split(text: str, start: int, end: int, before: Space | Line, style: Style) -> Iterator[Atom]:
    """Yield the atoms of `text[start:end]`; `before` is what is in front of the first one."""
    place, at = Place(), start
    while at < end:
        m = _ATOM.match(text, at, end)
        assert m is not None
        at = m.end()
        piece = m["atom"]
        if piece is None:
            continue
        if place.previous:
            before = style.before(place, piece)
        if piece == "{" and style.is_verbatim(place):
            close = end_of_braces(text, m.start())
            assert close is not None
            piece, at = text[m.start() : close], close
        yield Atom(piece, m.start(), at, before)
        if piece in _CLOSED_BY:
            place.brackets.append((piece, place.previous))
        elif piece in _CLOSING and place.brackets:
            place.brackets.pop()
        place.before_that, place.previous = place.previous, piece


# --- styles -------------------------------------------------------------------------------------


class Style:
    """The white space of keywords and names: `ROOT x =`, `ENTRY main`, `p:`, rows of tables."""

    def before(self, place: Place, text: str) -> Space:
        """Return what is in front of an atom that is not the first one."""
        if text in (":", ","):
            return Space.NONE
        return Space.ONE

    def is_verbatim(self, place: Place) -> bool:
        """True where braces that open here are kept as they are."""
        return False


class TableStyle(Style):
    """The white space of a line of a table: `1 {file_name_id=1 line=2}`."""

    def before(self, place: Place, text: str) -> Space:
        tight = text in ("=", "}", ",") or place.previous in ("=", "{")
        return Space.NONE if tight else Space.ONE


class ShapeStyle(Style):
    """The white space of shapes and operands: `(f32[2,3]{1,0:T(8,128)} %x, %y)`."""

    def before(self, place: Place, text: str) -> Space:
        previous = place.previous
        if text in _SIGNS and text != "(":
            # A tuple in a tuple has a blank before it, as any element; a layout follows closely.
            return Space.NONE
        if previous == ",":
            return Space.ONE if place.inside == "(" and not place.in_tile else Space.NONE
        if text == "(" or place.inside == "{":
            return Space.NONE
        # A name stands behind its shape.
        return Space.ONE if previous in _CLOSING or _is_word(previous) else Space.NONE


@dataclass(frozen=True)
class LiteralStyle(Style):
    """The white space of an array: `{1, 2}`, `{ { 1, 2 }, { 3, 4 } }`, `{ {1}, {2} }`.

    padded: blanks inside the innermost braces.
    """

    padded: bool

    def before(self, place: Place, text: str) -> Space:
        previous = place.previous
        if previous == "," or (text == previous and text in ("{", "}")):
            return Space.ONE
        beside = (previous == "{" and text != "}") or (text == "}" and previous != "{")
        words = _is_word(text) and _is_word(previous)
        return Space.ONE if words or (beside and self.padded) else Space.NONE


class TupleLiteralStyle(Style):
    """The white space of a tuple: `( (1, 2), {3} )` of a complex number and an array."""

    def before(self, place: Place, text: str) -> Space:
        if place.previous in ("(", "{") or text in (")", "}"):
            return Space.KEEP
        words = _is_word(text) and _is_word(place.previous)
        return Space.ONE if words or place.previous == "," else Space.NONE


_COMMENTS = re.compile(terminals.COMMENT, re.S)
_ROW = re.compile(r"\{([^{}]*)\}")
_PAIR = re.compile(r"\([^()]*\)")


def literal_style(text: str) -> Style:
    """Return the style of the literal of a constant, in its parentheses."""
    text = _COMMENTS.sub("", text) if "/" in text else text
    inside = text[1:].lstrip()
    if not inside.startswith("{"):
        return _TUPLES
    row = _ROW.search(inside)
    is_nested = row is not None and row.start() > 0
    # Commas also separate the parts of complex numbers.
    return LiteralStyle(is_nested and row is not None and "," in _PAIR.sub("", row[1]))


class KeptStyle(Style):
    """The white space of values whose blanks say more than rules could, such as typed literals."""

    def before(self, place: Place, text: str) -> Space:
        if not place.brackets:
            return _between_attributes(place, text)
        return Space.KEEP


@dataclass(frozen=True)
class ValueStyle(Style):
    """The white space of an attribute: `, window={size=3x3 pad=1_1x1_1}`, `, dimensions={1,0}`.

    spaced: a blank follows the commas in braces, except in those in braces. padded: blanks inside
    the outer braces. verbatim: how deep in braces other braces are kept as they are.
    """

    spaced: bool = False
    padded: bool = False
    verbatim: int | None = None

    def is_verbatim(self, place: Place) -> bool:
        return place.previous == "=" and self.verbatim == len(place.brackets)

    def before(self, place: Place, text: str) -> Space:
        previous, depth = place.previous, len(place.brackets)
        if depth == 0:
            return _between_attributes(place, text)
        if self.padded and depth == 1 and (previous == "{") != (text == "}"):
            return Space.ONE
        if previous == ",":
            return self._behind_comma(place, text)
        if previous == ":":
            return Space.ONE if place.before_that == "}" else Space.NONE
        if text in _SIGNS and text not in _CLOSED_BY:
            return Space.NONE
        return Space.NONE if previous in _SIGNS and previous not in _CLOSING else Space.KEEP

    def _behind_comma(self, place: Place, text: str) -> Space:
        depth, inside = len(place.brackets), place.inside
        if inside == "(":
            return Space.NONE if place.in_tile else Space.ONE
        return Space.ONE if inside == "{" and self.spaced and depth == 1 else Space.NONE


@dataclass(frozen=True)
class ShardingStyle(ValueStyle):
    """The white space of a sharding, of one value or of the elements of a tuple, and of domains."""

    def is_verbatim(self, place: Place) -> bool:
        return place.previous == "=" and place.before_that == "metadata"

    def _behind_comma(self, place: Place, text: str) -> Space:
        if (text == "{" and place.inside == "{") or (self.spaced and len(place.brackets) == 1):
            return Space.ONE
        return Space.NONE if text[0].isdigit() or place.in_tile else Space.KEEP


class LayoutStyle(ShapeStyle):
    """The white space of an attribute that holds shapes: `, x={(f32[2]{0})->f32[2]{0}}`."""

    def before(self, place: Place, text: str) -> Space:
        if not place.brackets:
            return _between_attributes(place, text)
        return super().before(place, text)


def _between_attributes(place: Place, text: str) -> Space:
    """Return what is in front of an atom of `, key=value` outside of brackets."""
    if place.previous == "," and not place.before_that:
        return Space.ONE
    return Space.NONE if text in ("=", ",") or place.previous == "=" else Space.KEEP


NAMES, TABLE, SHAPES = Style(), TableStyle(), ShapeStyle()
_TUPLES = TupleLiteralStyle()
_VALUES, _NAME_LISTS = ValueStyle(), ValueStyle(spaced=True)
_ALIASES, _VERBATIM = ValueStyle(spaced=True, padded=True), ValueStyle(verbatim=0)
_STYLES: dict[str, Style] = {
    key: _NAME_LISTS
    for spec in OPS.values()
    for key, attr in spec.attrs.items()
    if attr.codec is COMPUTATIONS
} | {
    CONTROL_PREDECESSORS: _NAME_LISTS,
    "slice": _NAME_LISTS,
    "output_to_operand_aliasing": _NAME_LISTS,
    "input_output_alias": _ALIASES,
    "buffer_donor": _ALIASES,
    "entry_computation_layout": LayoutStyle(),
    "literal": KeptStyle(),
    "origin": KeptStyle(),
    "sharding": ShardingStyle(),
    "domain": ShardingStyle(spaced=True),
    "frontend_attributes": ValueStyle(verbatim=1),
    "backend_config": _VERBATIM,
    "debug_attributes": _VERBATIM,
    "origin_recovery_table": _VERBATIM,
}


def style_of(key: str) -> Style:
    """Return the style of an attribute."""
    return _STYLES.get(key, _VALUES)
