"""Reads statements: the parser of `recovery.read`, stopped and continued between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lark.exceptions import UnexpectedInput

from hlo.errors import Diagnostic, Source, Span
from hlo.frontends.text.recovery import (
    line_of,
    next_line,
    place,
    recover,
)
from hlo.frontends.text.report import Report
from hlo.frontends.text.syntax import (
    ComputationRecord,
    Deep,
    InlineRecord,
    InstructionRecord,
    ModuleRecord,
    Token,
    grammar,
)

# What may begin an instruction.
_IN_BODY = frozenset({"DEFINITION", "SHAPE", "LPAR"})
# Where these are, records have pieces of text between two tokens.
_DEEP = frozenset({"LPAR", "DEEP_ATTRIBUTE"})
# The symbols of the grammar that a head may be of, by their number.
_HEADS = {
    len(symbols): symbols
    for symbols in (
        ("COMPUTATION", "OPEN"),
        ("COMPUTATION", "LPAR", "RPAR", "ARROW", "shape", "OPEN"),
        ("COMPUTATION", "LPAR", "parameters", "RPAR", "ARROW", "shape", "OPEN"),
    )
}


class Piece(Source):
    """The text of one statement. base: its offset in the document, which edits before it move."""

    __slots__ = ("base",)

    def __init__(self, name: str, text: str, base: int) -> None:
        super().__init__(name, text)
        self.base = base


class Closing(NamedTuple):
    """The end of a computation, and its attributes."""

    end: Token
    attributes: list[Any]


@dataclass(eq=False, slots=True)
class Statement:
    """One statement and what was read of it.

    Attributes:
        source: its text, up to the next statement.
        state: the parser's where it begins: whether computations precede it, and of an instruction
            how many values the head of its computation has. None of the first statement, which has
            nothing before it.
        is_head: whether it is the head of a computation, with what follows up to an instruction.
        is_uncertain: whether what is read here may depend on text far behind it.
        resumed: whether reading went on here after an error.
        is_stale: whether its text is another by now.
        tokens: what the lexer made of it.
        head: of the head of a computation: its values on the parser's stack, name to brace.
        record: of an instruction without syntax errors.
        heading: the same as a record.
        closing: of the last one of a computation: its end and attributes.
        prologue: of the first one: header and tables, or the text of a single instruction.
        errors: the syntax errors.
        dropped: names that are defined where the syntax errors are.
        built: what is made of it, by `hlo.editor`.
    """

    source: Piece
    state: tuple[bool, int] | None
    resumed: bool = False
    is_stale: bool = False
    is_head: bool = False
    is_uncertain: bool = False
    tokens: list[Token] = field(default_factory=list)
    head: list[Any] | None = None
    heading: ComputationRecord | None = None
    record: InstructionRecord | None = None
    closing: Closing | None = None
    prologue: ModuleRecord | None = None
    errors: list[Diagnostic] = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)
    built: Any = None

    @property
    def is_prologue(self) -> bool:
        """True for what precedes the first computation."""
        return self.state is None

    @property
    def start(self) -> int:
        return self.source.base

    @property
    def end(self) -> int:
        return self.source.base + len(self.source.text)


class Reading:
    """One run of the parser, from the start of a statement on.

    before: the statements in front of it. long_strings: strings may have several lines. strict: a
    syntax error is raised, not reported.
    """

    def __init__(
        self,
        source: Source,
        first: Statement,
        before: list[Statement],
        *,
        long_strings: bool,
        strict: bool,
    ) -> None:
        self._name, self._text = source.name, source.text
        self._parser = grammar(long_strings=long_strings).parse_interactive(source.text)
        self._state = self._parser.parser_state
        lexer = self._parser.lexer_thread
        assert lexer.state is not None
        self._lexer, self._place = lexer, lexer.state.line_ctr
        self._report = Report(source, limit=None)
        self._strict = strict
        self._made: list[Statement] = []
        self._resume: int | None = first.start if first.resumed else -1
        self._place.char_pos = first.start
        # How many states there are in the body of the present computation, and around that.
        self._depth, self._outside = 0, 1
        self._current = Statement(Piece(self._name, "", first.start), first.state, first.resumed)
        if first.state is not None:
            self._restore(first.state, before)

    def _restore(self, state: tuple[bool, int], before: list[Statement]) -> None:
        """Give the parser the stacks that it had where a statement begins.

        What has been read is with the statements, so that lists of it are empty.
        """
        has_computations, size = state
        prologue = before[0].prologue if before else None
        around = ["header", "tables"] if prologue is not None and prologue.header else []
        around += ["computations"] * has_computations
        for symbol in around:
            self._push(symbol, [None, []] if symbol == "header" else [])
        self._outside = len(self._state.state_stack)
        if size:
            for symbol, value in zip(_HEADS[size], _head_before(before), strict=True):
                self._push(symbol, value)
            self._push("body", [])
            self._depth = len(self._state.state_stack)

    def _push(self, symbol: str, value: Any) -> None:
        state = self._state
        state.state_stack.append(state.parse_conf.states[state.position][symbol][1])
        state.value_stack.append(value)

    def read(self, old: list[Statement], at: int) -> tuple[list[Statement], int]:
        """Read until a statement of `old`, after `at`, begins as it did.

        Returns the new statements and the number of that one.
        """
        state, size = self._state, len(old)
        stack = state.state_stack
        at += 1
        while True:
            try:
                for token in self._lexer.lex(state):
                    state.feed_token(token)
                    kind = token.type
                    if kind == "COMPUTATION" or (
                        kind in _IN_BODY and len(stack) == self._depth + 1
                    ):
                        self._begin(token)
                        start = token.start_pos
                        while at < size and (old[at].start < start or old[at].is_stale):
                            at += 1
                        if at < size and self._meets(old[at]):
                            return self._made, at
                    elif kind == "OPEN" and not self._depth:
                        self._depth = len(stack) + 1
                    self._current.tokens.append(token)
                self._end()
                return self._made, size
            except UnexpectedInput as e:
                if not self._recover(e):
                    self._finish(len(self._text))
                    return self._made, size

    def _meets(self, old: Statement) -> bool:
        new = self._current
        return (
            old.start == new.start
            and old.state == new.state
            and old.resumed == new.resumed
            and not old.is_uncertain
        )

    def _begin(self, token: Token) -> None:
        """Begin a statement with a token that has been shifted; the one before it is complete."""
        before, values = self._current, self._state.value_stack
        stack, start = self._state.state_stack, token.start_pos
        if token.type == "COMPUTATION":
            self._depth, self._outside = 0, len(stack) - 1
        # The header has two values; the head is between those around it and the body.
        size = self._depth and self._depth - self._outside - 1
        below = (self._outside % 2 == 0, size)
        if not before.tokens and (before.start, before.state) == (start, below):
            before.is_head = token.type == "COMPUTATION"
            return  # where this reading started
        if token.type == "COMPUTATION":
            if before.is_prologue:
                before.prologue = ModuleRecord()
                if len(values) > 1:
                    (header, attributes), tables = values[:2]
                    before.prologue = ModuleRecord(header, attributes, list(tables))
            elif len(values) > 1 and values[-2]:
                # Of the computations; those without one before have only tables below.
                if isinstance(values[-2][-1], ComputationRecord):
                    self._close(before, values[-2].pop())
        else:
            if before.is_head:
                at = next(i for i, v in enumerate(values) if v is before.tokens[0])
                before.head = values[at:-2]
                before.heading = _heading(before.head)
            if values[-2]:
                before.record = values[-2].pop()
        self._finish(start)
        self._current = Statement(Piece(self._name, "", start), below, start == self._resume)
        self._current.is_head = token.type == "COMPUTATION"

    def _end(self) -> None:
        """Complete the last statement, and with it the module."""
        end = len(self._text)
        record: ModuleRecord = self._state.feed_token(Token("$END", "", end), True)
        if record.computations:
            self._close(self._current, record.computations[-1])
        if record.single is not None:
            self._current.prologue = record
        self._finish(end)

    @staticmethod
    def _close(statement: Statement, record: ComputationRecord) -> None:
        """Give the last statement of a computation what it has of its record."""
        if record.body:
            statement.record = record.body[-1]
        if statement.is_head:
            statement.heading = record._replace(body=[], attributes=[])
        statement.closing = Closing(record.end, record.attributes)

    def _finish(self, until: int) -> None:
        """Complete the current statement, which ends at an offset."""
        statement, errors = self._current, self._report.diagnostics
        base, closing = statement.start, statement.closing
        source = statement.source = Piece(self._name, self._text[base:until], base)
        statement.errors = [_from_statement(d, source) for d in errors]
        errors.clear()
        if statement.is_head:
            # The parser goes on with its tokens, and needs them as they are.
            statement.head = _moved(statement.head, -base)
            statement.heading = _moved(statement.heading, -base)
            statement.closing = _moved(closing, -base)
            statement.record = _moved(statement.record, -base)
            statement.tokens = _moved(statement.tokens, -base)
        elif base:
            if statement.errors and closing is not None:
                statement.closing = _moved(closing, -base)
            for token in statement.tokens:
                token.start_pos -= base
                token.end_pos -= base
            if any(token.type in _DEEP for token in statement.tokens):
                statement.record = _moved(statement.record, -base, tokens=False)
                if not statement.errors:
                    statement.closing = _moved(statement.closing, -base, tokens=False)
        statement.is_uncertain = bool(statement.errors) or (
            "/" in source.text and any(token.type in _DEEP for token in statement.tokens)
        )
        self._made.append(statement)

    def _recover(self, e: UnexpectedInput) -> bool:
        """Report an error and continue behind it; False if the rest cannot be read."""
        if self._strict:
            raise e
        text = self._text
        expected = self._parser.accepts()
        at = place(e, text)
        # Make progress if parsing fails right where it was resumed.
        beyond = next_line(text, at) if at == self._resume else line_of(text, at)
        dropped = self._current.dropped
        self._resume = recover(self._report, self._state, expected, at, beyond, dropped)
        if self._resume is None:
            return False
        self._place.char_pos = self._resume
        top = self._state.value_stack[-1:]
        if not self._depth and isinstance(top[0] if top else None, Token) and top[0].type == "OPEN":
            self._depth = len(self._state.state_stack) + 1  # it began a body
        return True


def _heading(head: list[Any]) -> ComputationRecord:
    """Return the record of a head, `name (parameters) -> result {` or `name {`."""
    end = head[-1]
    if len(head) == 2:
        return ComputationRecord(head[0], [], None, [], end, [])
    parameters = head[2] if isinstance(head[2], list) else []
    return ComputationRecord(head[0], parameters, head[-2], [], end, [])


def _head_before(statements: list[Statement]) -> list[Any]:
    """Return the last head of a computation, with offsets from the start of the text."""
    last = next(s for s in reversed(statements) if s.head is not None)
    head: list[Any] = _moved(last.head, last.start)
    return head


def _moved(value: Any, by: int, *, tokens: bool = True) -> Any:
    """Return a copy of records with all their offsets moved, or those of `Deep` pieces alone."""
    if isinstance(value, str):
        if not tokens or not isinstance(value, Token):
            return value
        return Token(value.type, value.value, value.start_pos + by, end_pos=value.end_pos + by)
    if isinstance(value, Deep):
        return Deep(value.start + by, value.end + by)
    if isinstance(value, list):
        return [_moved(v, by, tokens=tokens) for v in value]
    if isinstance(value, (InstructionRecord, InlineRecord, ComputationRecord, Closing)):
        return type(value)(*(_moved(v, by, tokens=tokens) for v in value))
    return value


def _from_statement(diagnostic: Diagnostic, source: Piece) -> Diagnostic:
    """Return a diagnostic with offsets from the start of the statement that it is of."""

    def moved(span: Span | None) -> Span | None:
        return span and Span(source, span.start - source.base, span.end - source.base)

    notes = tuple((text, moved(span)) for text, span in diagnostic.notes)
    return replace(diagnostic, span=moved(diagnostic.span), notes=notes)
