"""A text that is being edited, as statements: what changes is read again, the rest is kept.

A statement is an instruction of a computation, the head of a computation, or what precedes the
first one. The parser is that of `recovery.read`, stopped and continued between statements: where
one begins, the parser's stack of states says all that what follows depends on. So reading starts a
little before a change, with that stack, and ends where a statement begins at the place and with
the stack of one from before. Offsets in tokens and spans count from the start of their statement,
so that nothing has to be moved when text in front of it grows.
"""

from __future__ import annotations

import bisect
from typing import Any

from lark.exceptions import UnexpectedInput

from hlo.errors import Source
from hlo.frontends.text.reading import Piece, Reading, Statement
from hlo.frontends.text.recovery import (
    leaves_a_string_open,
)
from hlo.support.memory import collector_paused

# How many statements before a change are read again: their last tokens may look ahead into it.
_LOOKAHEAD = 2


class Statements:
    """The statements of a text, kept up to date through edits."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        # Whether strings may contain line breaks.
        self.long_strings = False
        self._removed: list[Statement] = []
        self.statements = self._all()
        self._settle_strings()

    # --- edits ----------------------------------------------------------------------------------

    def edit(self, start: int, end: int, new: str) -> None:
        """Replace the characters `[start, end)`; after the last of several edits call `update`."""
        self.text = self.text[:start] + new + self.text[end:]
        statements = self.statements
        first = max(0, self.index(start) - _LOOKAHEAD)
        rest = self.index(end) + 1
        moved = len(new) - (end - start)
        for statement in statements[rest:]:
            statement.source.base += moved
        begin = statements[first].start
        until = statements[rest].start if rest < len(statements) else len(self.text)
        old = statements[first]
        piece = Piece(self.name, self.text[begin:until], begin)
        stale = Statement(piece, old.state, old.resumed, is_stale=True)
        self._removed += [s for s in statements[first:rest] if not s.is_stale]
        statements[first:rest] = [stale]

    def update(self) -> list[Statement]:
        """Read what has been edited; returns the statements that are no longer there."""
        with collector_paused():
            self._read_stale()
            self._settle_strings()
        removed, self._removed = self._removed, []
        return removed

    def index(self, offset: int) -> int:
        """Return the number of the statement that contains an offset."""
        at = bisect.bisect_right(self.statements, offset, key=lambda s: s.source.base) - 1
        return max(0, at)

    def _read_stale(self, *, strict: bool = False) -> None:
        """Read statements again. strict: raise UnexpectedInput at the first error."""
        old, new, done = self.statements, [], 0
        # What is wrong with a statement may depend on text far behind it.
        again = [i for i, s in enumerate(old) if s.is_stale or s.is_uncertain]
        for wrong in again:
            at = wrong if old[wrong].is_stale else max(done, wrong - _LOOKAHEAD)
            if wrong < done:
                continue
            new += old[done:at]
            made, done = self._reading(old[at], new, strict=strict).read(old, wrong)
            gone = [s for s in old[at:done] if not s.is_stale]
            if len(gone) == len(made) == done - at and all(map(_alike, gone, made)):
                made = gone
            else:
                self._removed += gone
            new += made
        self.statements = new + old[done:]

    def _reading(self, first: Statement, before: list[Statement], *, strict: bool) -> Reading:
        source = Source(self.name, self.text)
        return Reading(source, first, before, long_strings=self.long_strings, strict=strict)

    def _all(self) -> list[Statement]:
        start = Statement(Piece(self.name, self.text, 0), None)
        with collector_paused():
            return self._reading(start, [], strict=False).read([start], 0)[0]

    def _settle_strings(self) -> None:
        """Let strings have several lines if that makes the text valid, and only then."""
        if not any(s.errors for s in self.statements):
            return
        if self.long_strings:
            self.long_strings = False
            for statement in self.statements:
                statement.is_stale = _leaves_strings_open(statement)
            self._removed += [s for s in self.statements if s.is_stale]
            self._read_stale()
        elif not any(s.errors and _leaves_strings_open(s) for s in self.statements):
            return
        before, removed = list(self.statements), len(self._removed)
        self.long_strings = True
        try:
            self._read_stale(strict=True)
        except UnexpectedInput:
            self.long_strings = False
            self.statements = before
            del self._removed[removed:]


def _leaves_strings_open(statement: Statement) -> bool:
    text = statement.source.text
    return ('"' in text or "'" in text) and any(map(leaves_a_string_open, text.split("\n")))


def _alike(a: Statement, b: Statement) -> bool:
    """True for statements of one text with the same errors at the same place."""

    def facts(s: Statement) -> Any:
        spans = [(d.code, d.message, d.span and (d.span.start, d.span.end)) for d in s.errors]
        return s.source.base, s.source.text, s.state, s.resumed, spans, s.dropped

    return facts(a) == facts(b)
