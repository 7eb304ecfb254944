"""Instructions as XLA prints them, one a line: read by a few patterns, without the parser.

Nearly all of a large file are such lines. The patterns are those of `terminals.USUAL`, which the
lexer tries first and shares, so that records and tokens are the same as the parser's. Whatever else
is left to the parser, and all errors.
"""

from __future__ import annotations

import re
from typing import Any

from lark.parsers.lalr_parser_state import ParserState

from hlo.frontends.text import terminals
from hlo.frontends.text.lexer import Pattern
from hlo.frontends.text.syntax import InstructionRecord, Token


def _usual(terminal: str) -> list[Pattern]:
    """Return the patterns of the usual forms of a terminal."""
    return [Pattern(t, p, _FLAGS) for t, p in terminals.USUAL if t == terminal]


_FLAGS = re.S | re.A
(_GAP,), (_DEFINITION,), (_SHAPE,) = map(_usual, ("GAP", "DEFINITION", "SHAPE"))
(_OPCODE,), (_OPERANDS,), (_PAYLOAD,) = map(_usual, ("OPCODE", "OPERANDS", "PAYLOAD"))
_TUPLE = Pattern("SHAPE", terminals.PLAIN_TUPLE_SHAPE, _FLAGS)
_ATTRIBUTE, _OTHER_ATTRIBUTE = _usual("ATTRIBUTE")


def read_lines(text: str, state: ParserState[Any]) -> int | None:
    """Read instructions as long as they are of the usual form, if the parser is where one begins.

    Its last token is the definition that the first of them begins with. Returns where it has to
    go on, in the body of the computation, or None if nothing was read.
    """
    values = state.value_stack
    if len(values) < 2 or type(values[-2]) is not list:
        return None  # there is no computation around it, or a shape in front
    start = at = values[-1].start_pos
    body = values[-2]
    # Token by token without calls: nearly all of a large file is read here.
    following = _DEFINITION.match(text, at)
    while following:
        definition = Token("DEFINITION", following[0], at, end := following.end())
        if (m := _SHAPE.match(text, end) or _TUPLE.match(text, end)) is None:
            break
        shape = Token("SHAPE", m[0], end, end := m.end())
        if (m := _OPCODE.match(text, end)) is None:
            break
        opcode = Token("OPCODE", m[0], end, end := m.end())
        if m := _OPERANDS.match(text, end):
            arguments = Token("OPERANDS", m[0], end, end := m.end())
        elif m := _PAYLOAD.match(text, end):
            arguments = Token("PAYLOAD", m[0], end, end := m.end())
        else:
            break
        attributes = []
        while text.startswith(",", end) and (
            m := _ATTRIBUTE.match(text, end) or _OTHER_ATTRIBUTE.match(text, end)
        ):
            attributes.append(Token("ATTRIBUTE", m[0], end, end := m.end()))
        # What follows has to be there too: another one begins, or the computation ends.
        if (m := _GAP.match(text, end)) is None:
            break
        following = _DEFINITION.match(text, end := m.end())
        if following is None and not text.startswith("}", end):
            break
        body.append(InstructionRecord(definition, shape, opcode, arguments, attributes))
        at = end
    if at == start:
        return None
    # The body has them now; the parser expects another instruction, or the end.
    state.state_stack.pop()
    values.pop()
    return at
