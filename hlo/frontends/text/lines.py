"""Instructions as XLA prints them, one a line: read by a single pattern, without the parser.

Nearly all of a large file are such lines. The pattern is a sequence of those of `terminals.USUAL`,
which the lexer tries first, so that records and tokens are the same as the parser's. Whatever else
is left to the parser, and all errors.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from lark.parsers.lalr_parser_state import ParserState

from hlo.frontends.text import terminals
from hlo.frontends.text.syntax import InstructionRecord, Token

_FLAGS = re.S | re.A


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of an instruction, and of an attribute.

    What follows an instruction has to be there too: another one begins, or the computation ends.
    """
    usual = {name: rf"(?>{pattern})" for name, pattern in terminals.USUAL.items()}
    shape = rf"(?>{terminals.USUAL['SHAPE']}|{terminals.PLAIN_TUPLE_SHAPE})"
    line = (
        rf"({usual['DEFINITION']})({shape})({usual['OPCODE']})"
        rf"(?:({usual['OPERANDS']})|({usual['PAYLOAD']}))((?>(?:{usual['ATTRIBUTE']})*))"
        rf"\s++(?={usual['END']}|{usual['DEFINITION']})"
    )
    return re.compile(line, _FLAGS), re.compile(terminals.USUAL["ATTRIBUTE"], _FLAGS)


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
    instruction, attribute = _patterns()
    while m := instruction.match(text, at):
        definition, shape, opcode, operands, payload, rest = m.groups()
        shape_at, opcode_at, begin, end = m.start(2), m.start(3), m.end(3), m.start(6)
        attributes = []
        if rest:
            pos, stop = end, m.end(6)
            while pos < stop:
                found = attribute.match(text, pos)
                assert found is not None
                attributes.append(Token("ATTRIBUTE", found[0], pos, found.end()))
                pos = found.end()
        arguments = (
            Token("PAYLOAD", payload, begin, end)
            if operands is None
            else Token("OPERANDS", operands, begin, end)
        )
        body.append(
            InstructionRecord(
                Token("DEFINITION", definition, at, shape_at),
                Token("SHAPE", shape, shape_at, opcode_at),
                Token("OPCODE", opcode, opcode_at, begin),
                arguments,
                attributes,
            )
        )
        at = m.end()
    if at == start:
        return None
    # The body has them now; the parser expects another instruction, or the end.
    state.state_stack.pop()
    values.pop()
    return at
