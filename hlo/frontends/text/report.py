"""Collects the errors of one file."""

from __future__ import annotations

import re

from hlo.errors import Diagnostic, InferError, InstructionSpan, Source, Span, TextError
from hlo.frontends.text.syntax import Token

MAX_ERRORS = 20
_WORD = re.compile(r"[A-Za-z0-9_.%#-]+|.|\n", re.S)


class TooManyErrors(Exception):
    """There are too many errors to report; the rest of the file is skipped."""


class Report:
    """Collects diagnostics with their locations. limit: how many, at most; None for all."""

    def __init__(self, source: Source, *, limit: int | None = MAX_ERRORS) -> None:
        self.source = source
        self._limit = limit
        # Whether there are errors that are not collected here.
        self.elsewhere = False
        self.diagnostics: list[Diagnostic] = []

    def __len__(self) -> int:
        return len(self.diagnostics)

    @property
    def has_errors(self) -> bool:
        """True if the text has errors, as far as is known."""
        return self.elsewhere or bool(self.diagnostics)

    def error(
        self,
        code: str,
        message: str,
        start: int,
        end: int | None = None,
        *,
        hint: str | None = None,
        note: tuple[str, Span | None] | None = None,
    ) -> None:
        """Add an error at `[start, end)`, by default the word at `start`."""
        if end is None or end <= start:
            word = _WORD.match(self.source.text, start)
            end = word.end() if word else start + 1
        self.error_at(code, message, Span(self.source, start, end), hint=hint, note=note)

    def error_at(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        hint: str | None = None,
        note: tuple[str, Span | None] | None = None,
    ) -> None:
        """Add an error at a span, which may be of another source."""
        notes = (note,) if note else ()
        self.add(Diagnostic(code, message, span, hint, notes))

    def add(self, diagnostic: Diagnostic) -> None:
        """Add an error. Raises TooManyErrors."""
        self.diagnostics.append(diagnostic)
        if self._limit is not None and len(self.diagnostics) >= self._limit:
            raise TooManyErrors

    def text_error(self, e: TextError, start: int, what: str = "") -> None:
        """Add an error of a reader whose piece of text begins at `start`."""
        message = f"{what}: {e.message}" if what else e.message
        self.error(e.code, message, start + e.offset, hint=e.hint)

    def infer_error(self, e: InferError, span: InstructionSpan) -> None:
        """Add the violation of a rule of the op table."""
        place: Span = span
        if e.operand is not None:
            place = span.operand(e.operand)
        elif e.attr is not None:
            place = span.attr(e.attr)
        self.error(e.code, e.message, place.start, place.end, hint=e.hint)

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start_pos, token.end_pos)
