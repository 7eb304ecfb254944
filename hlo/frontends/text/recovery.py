"""Error recovery of the parser.

After an error the text is skipped up to a line on which an instruction or a computation begins or
ends, and the parser's stack is unwound to a state that accepts that line (panic mode).
"""

from __future__ import annotations

import re
import sys
from typing import Any

from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_parser_state import ParserState

from hlo.errors import HloError, Span
from hlo.frontends.text import terminals
from hlo.frontends.text.explain import TRUNCATED, explain
from hlo.frontends.text.lines import read_lines
from hlo.frontends.text.report import Report, TooManyErrors
from hlo.frontends.text.syntax import ModuleRecord, Token, grammar

_BRACE_AT_END = re.compile(r"\{[ \t]*+(?://[^\n]*+)?$", re.M)
# What opens something with instructions, or stands before it.
_BODIES = frozenset({"COMPUTATION", "OPEN", "DEFINITION", "INLINE", "INLINE_LIST"})
# Synchronization points. The groups are named after the terminals there.
_RESUME = re.compile(
    rf"^[ \t]*+(?:(?P<END>\}})"
    rf"|(?P<DEFINITION>(?>(?:{terminals.ROOT}[ \t]*+)?){terminals.NAME}[ \t]*+=)"
    rf"|(?P<COMPUTATION>(?>(?:{terminals.ENTRY}[ \t]*+)?){terminals.NAME}[ \t]*+[({{]))",
    re.M,
)
_DEFINITION = re.compile(
    rf"^[ \t]*+(?>(?:{terminals.ROOT}[ \t]*+)?)({terminals.NAME})[ \t]*+=", re.M
)
# The header of a computation, on one line.
_HEAD = re.compile(rf"(?:{terminals.ENTRY}|{terminals.NAME}[ \t]*+[({{])[^\n=]*\{{[ \t]*+$", re.M)
# A line up to the last closed string or comment.
_CLOSED = re.compile(rf"""(?>(?:[^"'/]++|{terminals.STRING}|{terminals.COMMENT}|/(?!\*))*)""", re.S)
# A word may also be the name itself: `ROOT(` begins a computation of that name.
_NAME = re.compile(
    rf"(?>(?:(?:{terminals.ROOT}|{terminals.ENTRY}){terminals.GAP}(?=[%\w]))?)({terminals.NAME})",
    re.S,
)


def read(report: Report) -> ModuleRecord:
    """Return the records of a file; text with syntax errors is reported and left out.

    Raises HloError if too little is left.
    """
    text = report.source.text
    parser = grammar().parse_interactive(text)
    state, lexer = parser.parser_state, parser.lexer_thread
    assert lexer.state is not None
    dropped: set[str] = set()
    resume: int | None = -1
    while True:
        try:
            for token in lexer.lex(state):
                state.feed_token(token)
                if token.type == "DEFINITION" and (at := read_lines(text, state)) is not None:
                    lexer.state.line_ctr.char_pos = at
            record: ModuleRecord = state.feed_token(Token("$END", "", len(text)), True)
            record.dropped = dropped
            return record
        except UnexpectedInput as e:
            if not len(report) and (whole := _read_with_long_strings(text)) is not None:
                return whole
            try:
                expected = parser.accepts()
                at = place(e, text)
                # Make progress if parsing fails right at the synchronization point.
                beyond = next_line(text, at) if at == resume else line_of(text, at)
                again = resume == len(text)
                resume = recover(report, state, expected, at, beyond, dropped)
                resume = None if again else resume
            except TooManyErrors:
                resume = None
            if resume is None:
                raise HloError(report.diagnostics) from None
            lexer.state.line_ctr.char_pos = resume


def _read_with_long_strings(text: str) -> ModuleRecord | None:
    """Return the records of a text if it is valid with multi-line strings, or None."""
    if not any(map(leaves_a_string_open, text.split("\n"))):
        return None
    try:
        record: ModuleRecord = grammar(long_strings=True).parse(text)  # type: ignore[assignment]
    except UnexpectedInput:
        return None
    return record


def leaves_a_string_open(line: str) -> bool:
    m = _CLOSED.match(line)
    assert m is not None
    return '"' in line[m.end() :] or "'" in line[m.end() :]


def place(e: UnexpectedInput, text: str) -> int:
    """Return the offset of a syntax error."""
    if isinstance(e, UnexpectedToken) and e.token.type == "$END":
        return len(text)
    assert e.pos_in_stream is not None
    return e.pos_in_stream


def recover(
    report: Report,
    state: ParserState[Any],
    expected: set[str],
    at: int,
    beyond: int,
    dropped: set[str],
) -> int | None:
    """Report an error, and return where to continue with the parser in a suitable state, or None.

    That offset is not before `beyond`.
    """
    text = report.source.text
    in_body = {"END", "DEFINITION"} <= expected
    if in_body and (at >= len(text) or _HEAD.match(text, at)):
        _close_computation(report, state, at)
        return at
    if at >= len(text):
        at = len(text.rstrip())
    explain(report, at, expected, _opener(state))
    if (opened := _open_body(state, text, at)) is not None:
        return opened
    resume = _RESUME.search(text, beyond)
    while resume is not None:
        kind = resume.lastgroup
        assert kind is not None
        depth = _depth_for(state, kind, expected)
        if depth is not None:
            begin = min(_forget(state, depth, dropped), at)
            for m in _DEFINITION.finditer(text, begin, resume.start()):
                dropped.add(m[1].removeprefix("%"))
            return resume.start(kind)
        resume = _RESUME.search(text, next_line(text, resume.start(kind)))
    return _end(state, expected, len(text), dropped)


def _open_body(state: ParserState[Any], text: str, at: int) -> int | None:
    """Begin the body of a computation whose signature has an error; return where it begins.

    None if the error is not in a signature, or its line does not end with the body's brace.
    """
    for place in range(len(state.value_stack) - 1, -1, -1):
        value = state.value_stack[place]
        if isinstance(value, Token) and value.type in _BODIES:
            break
    else:
        return None
    brace = _BRACE_AT_END.search(text, at, next_line(text, at))
    if value.type != "COMPUTATION" or brace is None:
        return None
    # The signature alone is left out.
    del state.state_stack[place + 2 :], state.value_stack[place + 1 :]
    start = brace.start()
    state.feed_token(Token("OPEN", "{", start, end_pos=start + 1))
    return start + 1


def _end(state: ParserState[Any], expected: set[str], end: int, dropped: set[str]) -> int | None:
    """Leave out the rest of a text, which ends at `end`; returns that, or None if it cannot be."""
    if "$END" not in expected:
        depth = _depth_for(state, "END", expected)
        if depth is None:
            return None
        _forget(state, depth, dropped)
        state.feed_token(Token("END", "}", end, end_pos=end))
    return end


def _close_computation(report: Report, state: ParserState[Any], at: int) -> None:
    """Report that a computation is not closed, and close it."""
    note = None
    for value in reversed(state.value_stack):
        if isinstance(value, Token) and value.type in ("COMPUTATION", "INLINE", "INLINE_LIST"):
            m = _NAME.match(value.value)
            end = m.end() if m else len(value)
            place = Span(report.source, value.start_pos, value.start_pos + end)
            note = ("the computation begins here", place)
            break
    at = min(at, len(report.source.text.rstrip()))
    hint = None if report.source.text[at:].strip() else TRUNCATED
    report.error("syntax", "'}' is missing at the end of a computation", at, hint=hint, note=note)
    state.feed_token(Token("END", "}", at, end_pos=at))


def _opener(state: ParserState[Any]) -> int | None:
    """Return where the innermost parentheses or braces open, unless they contain instructions."""
    for value in reversed(state.value_stack):
        if isinstance(value, Token):
            if value.type in ("LPAR", "DEEP_ATTRIBUTE"):
                return value.start_pos if value.type == "LPAR" else value.end_pos - 1
            if value.type in ("COMPUTATION", "DEFINITION", "INLINE", "INLINE_LIST"):
                return None
    return None


def line_of(text: str, at: int) -> int:
    """Return where the line of `at` begins if only blanks precede it, else the next line."""
    begin = text.rfind("\n", 0, at) + 1
    return next_line(text, at) if text[begin:at].strip() else begin


def next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _depth_for(state: ParserState[Any], kind: str, expected: set[str]) -> int | None:
    """Return how many states to keep so that the parser accepts a terminal.

    expected: what it accepts if all are kept.
    """
    if kind == "COMPUTATION" and kind in expected:
        return len(state.state_stack)
    table = state.parse_conf.states
    for depth in range(len(state.state_stack), 0, -1):
        actions = table[state.state_stack[depth - 1]]
        # Instructions and the ends of computations are accepted by the same states.
        wanted = (kind,) if kind == "COMPUTATION" else ("DEFINITION", "END")
        if all(actions.get(k, (None,))[0] is Shift for k in wanted):
            return depth
    return None


def _forget(state: ParserState[Any], depth: int, dropped: set[str]) -> int:
    """Drop the states above `depth` and record the names defined there; return where they begin."""
    values = state.value_stack[depth - 1 :]
    del state.state_stack[depth:]
    del state.value_stack[depth - 1 :]
    tokens = [value for value in values if isinstance(value, Token)]
    for token in tokens:
        if token.type in ("DEFINITION", "COMPUTATION"):
            m = _NAME.match(token.value)
            assert m is not None
            dropped.add(m[1].removeprefix("%"))
    return min((t.start_pos for t in tokens), default=sys.maxsize)
