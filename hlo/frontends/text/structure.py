"""HLO text as a sequence of atoms: its line breaks, blank lines and indentation.

One instruction is a line, whatever its length, as the printer has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark.exceptions import UnexpectedInput

from hlo.frontends.text import terminals
from hlo.frontends.text.atoms import (
    NAMES,
    SHAPES,
    TABLE,
    Atom,
    Blank,
    Line,
    Space,
    Style,
    literal_style,
    split,
    style_of,
)
from hlo.frontends.text.syntax import Token, grammar
from hlo.ops import OPS

_INDENT = 2
_KEY = re.compile(rf",{terminals.GAP}([A-Za-z_][A-Za-z0-9_.-]*+)", re.S)


def atoms_of(text: str) -> Iterator[Atom]:
    """Yield the atoms of a text that can be parsed. Between them are white space and comments."""
    return _Structure(text).atoms()


def _tokens_of(text: str) -> list[Token]:
    for long_strings in (False, True):
        parser = grammar(long_strings=long_strings).parse_interactive(text)
        state, found = parser.parser_state, []
        try:
            for token in parser.lexer_thread.lex(state):
                state.feed_token(token)
                found.append(token)
            state.feed_token(Token("$END", "", len(text)), True)
        except UnexpectedInput:
            continue
        return found  # type: ignore[return-value]
    raise ValueError("only a text that can be parsed has tokens")


def _line(indent: int, blank: Blank = Blank.NEVER) -> Line:
    return Line(indent, blank, indent)


class _Structure:
    """The tokens of a text in order, with what white space depends on.

    Each kind of token that can begin something has a method of its name; what belongs to that is
    taken from the tokens that follow.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens_of(text)
        self._at = 0
        # Of braces around instructions.
        self._depth = 0
        # True where an instruction may begin: behind an opening brace and behind another one.
        self._may_begin = True
        self._computations = 0
        self._behind_table = False
        # Of the latest opcode: what is in its parentheses are not operands.
        self._has_payload = False

    def atoms(self) -> Iterator[Atom]:
        while self._at < len(self._tokens):
            yield from self._item(self._next())

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _item(self, token: Token) -> Iterator[Atom]:
        found: Iterator[Atom] = getattr(self, f"_on_{token.type.lower()}")(token)
        return found

    def _peek(self) -> str:
        """Return the kind of the next token."""
        return self._tokens[self._at].type

    def _previous(self) -> str:
        """Return the kind of the token before the current one."""
        return self._tokens[self._at - 2].type if self._at > 1 else ""

    def _split(self, token: Token, before: Space | Line, style: Style) -> Iterator[Atom]:
        return split(self._text, token.start_pos, token.end_pos, before, style)

    def _sign(self, token: Token, before: Space | Line) -> Atom:
        return Atom(str(token), token.start_pos, token.end_pos, before)

    # --- the module -----------------------------------------------------------------------------

    def _on_header(self, token: Token) -> Iterator[Atom]:
        return self._split(token, _line(0), NAMES)

    def _on_table(self, token: Token) -> Iterator[Atom]:
        self._behind_table = True
        found = self._split(token, _line(0, Blank.ONE), TABLE)
        yield next(found)
        begins, depth = True, 0
        for atom in found:
            yield Atom(atom.text, atom.start, atom.end, _line(0)) if begins else atom
            depth += {"{": 1, "}": -1}.get(atom.text, 0)
            begins = not begins and depth == 0

    def _on_computation(self, token: Token) -> Iterator[Atom]:
        first = self._computations == 0 and self._at == 1
        blank = Blank.TWO if self._behind_table else Blank.NEVER if first else Blank.ONE
        self._behind_table = False
        self._computations += 1
        yield from self._split(token, _line(0, blank), NAMES)
        if self._peek() == "LPAR":
            yield self._sign(self._next(), Space.ONE)
            yield from self._signature()

    def _signature(self) -> Iterator[Atom]:
        """Yield from behind the parenthesis of a signature up to the body's opening brace."""
        before = Space.NONE
        while self._peek() != "OPEN":
            token = self._next()
            if token.type == "PARAMETER":
                yield from self._split(token, before, NAMES)
                before = Space.ONE
            elif token.type in ("SHAPE", "LPAR"):
                yield from self._shape_atoms(token, before)
                before = Space.NONE
            else:
                yield self._sign(token, Space.ONE if token.type == "ARROW" else Space.NONE)
                before = Space.ONE

    # --- bodies ---------------------------------------------------------------------------------

    def _on_open(self, token: Token) -> Iterator[Atom]:
        yield self._sign(token, Space.ONE)
        self._enter()

    def _enter(self) -> None:
        self._depth += 1
        self._may_begin = True

    def _on_end(self, token: Token) -> Iterator[Atom]:
        self._depth -= 1
        self._may_begin = True
        indent = _INDENT * self._depth
        yield self._sign(token, Line(indent, Blank.NEVER, indent + _INDENT))

    def _on_inline(self, token: Token) -> Iterator[Atom]:
        yield from self._opened(token, _line(_INDENT * self._depth))
        self._enter()

    def _on_inline_list(self, token: Token) -> Iterator[Atom]:
        yield from self._opened(token, Space.NONE)
        indent, outer = _INDENT * self._depth, self._depth
        while self._peek() != "END":
            token = self._next()
            yield self._sign(token, Space.NONE if token.type == "COMMA" else _line(indent))
            if token.type == "OPEN":
                self._enter()
                while self._depth > outer:
                    yield from self._item(self._next())
        self._may_begin = True
        # The printer has it here as well.
        yield self._sign(self._next(), Line(0, Blank.NEVER, indent))

    def _opened(self, token: Token, before: Space | Line) -> Iterator[Atom]:
        """Yield `, key={` with what is in front of the brace."""
        *key, brace = self._split(token, Space.NONE, style_of(""))
        yield from key
        yield Atom(brace.text, brace.start, brace.end, before)

    # --- instructions ---------------------------------------------------------------------------

    def _beginning(self) -> Space | Line:
        """Return what is in front of a token that may begin an instruction."""
        if not self._may_begin:
            return Space.ONE
        self._may_begin = False
        is_first = self._previous() in ("OPEN", "INLINE", "")
        return _line(_INDENT * self._depth, Blank.NEVER if is_first else Blank.KEEP)

    def _on_definition(self, token: Token) -> Iterator[Atom]:
        return self._split(token, self._beginning(), NAMES)

    def _on_shape(self, token: Token) -> Iterator[Atom]:
        return self._shape_atoms(token, self._beginning())

    def _shape_atoms(self, token: Token, before: Space | Line) -> Iterator[Atom]:
        """Yield a shape, which may be one that nests deeply: many tokens in parentheses."""
        end = token
        depth = 1 if token.type == "LPAR" else 0
        while depth:
            end = self._next()
            depth += {"LPAR": 1, "RPAR": -1}.get(end.type, 0)
        return split(self._text, token.start_pos, end.end_pos, before, SHAPES)

    def _on_opcode(self, token: Token) -> Iterator[Atom]:
        return self._opcode_atoms(token, Space.ONE)

    def _opcode_atoms(self, token: Token, before: Space) -> Iterator[Atom]:
        atoms = list(self._split(token, before, NAMES))
        spec = OPS.get(atoms[0].text)
        self._has_payload = spec is not None and spec.payload is not None
        yield from atoms

    def _on_operands(self, token: Token) -> Iterator[Atom]:
        self._may_begin = True
        if not self._has_payload:
            yield from self._split(token, Space.NONE, SHAPES)
            return
        # A literal may look like operands, with its words or as a tuple.
        start, end = token.start_pos, token.end_pos
        yield Atom("(", start, start + 1, Space.NONE)
        yield from split(self._text, start + 1, end - 1, Space.NONE, literal_style(token))
        yield Atom(")", end - 1, end, Space.NONE)

    _on_payload = _on_operands

    def _on_lpar(self, token: Token) -> Iterator[Atom]:
        if self._previous() == "OPCODE":
            yield self._sign(token, Space.NONE)
            yield from self._nested()
            self._may_begin = True
        else:
            yield from self._shape_atoms(token, self._beginning())

    def _nested(self) -> Iterator[Atom]:
        """Yield operands of which some are operations, from behind the opening parenthesis."""
        depth, before = 1, Space.NONE
        while depth:
            token = self._next()
            kind = token.type
            if kind == "LPAR" and self._previous() == "OPCODE":
                depth += 1
                yield self._sign(token, Space.NONE)
                before = Space.NONE
            elif kind in ("RPAR", "COMMA"):
                depth -= kind == "RPAR"
                yield self._sign(token, Space.NONE)
                before = Space.ONE
            elif kind in ("SHAPE", "LPAR"):
                yield from self._shape_atoms(token, before)
                before = Space.ONE
            elif kind == "OPCODE":
                yield from self._opcode_atoms(token, before)
            elif kind in ("OPERANDS", "PAYLOAD"):
                yield from self._on_operands(token)
            else:
                yield from self._split(token, before, SHAPES)

    # --- attributes -----------------------------------------------------------------------------

    def _on_attribute(self, token: Token) -> Iterator[Atom]:
        return self._attribute_atoms(token.start_pos, token.end_pos)

    def _on_deep_attribute(self, token: Token) -> Iterator[Atom]:
        end, depth = token, 1
        while depth:
            end = self._next()
            depth += {"OPEN": 1, "END": -1}.get(end.type, 0)
        return self._attribute_atoms(token.start_pos, end.end_pos)

    def _attribute_atoms(self, start: int, end: int) -> Iterator[Atom]:
        m = _KEY.match(self._text, start)
        assert m is not None
        return split(self._text, start, end, Space.NONE, style_of(m[1]))
