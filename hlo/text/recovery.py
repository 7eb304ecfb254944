"""Reading text that may not follow the grammar: what is said about it, and where reading goes on.

After an error the text is skipped up to a line on which an instruction or a computation begins or
ends, and the parser is taken back to where it can go on with that (panic mode).
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from hlo.errors import HloError, Span
from hlo.text import terminals
from hlo.text.report import Report, TooManyErrors
from hlo.text.syntax import ModuleRecord, grammar


def read(report: Report) -> ModuleRecord:
    """Return the records of a file; what does not follow the grammar is reported and left out.

    Raises HloError when no record can be made of the rest.
    """
    text = report.source.text
    parser = grammar().parse_interactive(text)
    state, lexer = parser.parser_state, parser.lexer_thread
    dropped: set[str] = set()
    while True:
        token: Token | None = None
        try:
            for token in lexer.lex(state):
                state.feed_token(token)
            end = Token("$END", "", len(text))
            record: ModuleRecord = state.feed_token(end, True)
        except UnexpectedInput as e:
            raise HloError.at("syntax", f"unexpected text {e}", Span(report.source, e.pos_in_stream or 0, len(text)))
        record.dropped = dropped
        return record
