"""Source positions, diagnostics, and the one exception type that users see.

Everything a user can get wrong ends in an `HloError`: a list of `Diagnostic`s, each with a stable
code, a message, and, wherever there is a text to point at, a `Span`. Rendering is lazy: a span is
three references, and lines and columns are computed only when an error is shown.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

# A caret line longer than this helps nobody: a window around the column is shown instead.
_MAX_SNIPPET = 160


# What ends a line, as in the language server protocol. Form feeds and Unicode's line separators,
# at which `str.splitlines` splits too, are white space in a line.
_LINE_END = re.compile(r"\r\n?|\n")


def line_starts(text: str) -> list[int]:
    """Return where each line of a text begins."""
    if "\r" in text:
        return [0, *(m.end() for m in _LINE_END.finditer(text))]
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


class Source:
    """A named text. Line starts are found on first use: a source costs nothing until an error."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._starts: list[int] | None = None

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        if self._starts is None:
            self._starts = line_starts(self.text)
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line_start(self, number: int) -> int:
        """Return the character offset of a 1-based line."""
        self.line_column(0)
        assert self._starts is not None
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """Return the text of a 1-based line, without its line break."""
        start = self.line_start(number)
        end = _LINE_END.search(self.text, start)
        return self.text[start : end.start() if end else len(self.text)]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters `[start, end)` of a source."""

    source: Source
    start: int
    end: int

    def sub(self, start: int, end: int | None = None) -> Span:
        """Return a range inside this one, given in offsets from its start."""
        limit = self.end if end is None else min(self.start + end, self.end)
        return Span(self.source, min(self.start + start, self.end), limit)

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"

    def snippet(self) -> str:
        """Return the source line and a caret line below it."""
        line, column = self.source.line_column(self.start)
        text = self.source.line(line)
        width = max(1, min(self.end - self.start, len(text) - column + 1))
        left = 0
        if len(text) > _MAX_SNIPPET:
            left = max(0, column - 1 - _MAX_SNIPPET // 2)
            text = text[left : left + _MAX_SNIPPET]
            width = min(width, len(text) - (column - 1 - left)) or 1
        # A tab keeps its width in the caret line, or the caret lands in the wrong place.
        lead = "".join("\t" if c == "\t" else " " for c in text[: column - 1 - left])
        shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
        return f"  {shown}\n  {lead}{'^' * max(1, width)}"


@dataclass(frozen=True)
class Diagnostic:
    """One error: a stable code, what is wrong, where, and what may help.

    `code` is kebab-case and never changes meaning once released; scripts may match on it.

    >>> try:
    ...     hlo.parse("HloModule m ENTRY e { ROOT c = s32[] konstant(7) }")
    ... except hlo.HloError as error:
    ...     [found] = error.diagnostics
    >>> found.code, found.message, found.hint, str(found.span)
    ('unknown-opcode', "unknown opcode 'konstant'", "did you mean 'constant'?", '<string>:1:38')
    """

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[tuple[str, Span | None], ...] = field(default=())

    def render(self) -> str:
        """Return `file:line:col: error: message [code]`, with snippet, hint and notes."""
        where = f"{self.span}: " if self.span else ""
        lines = [f"{where}error: {self.message} [{self.code}]"]
        if self.span:
            lines.append(self.span.snippet())
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        for text, span in self.notes:
            lines.append(f"{span}: note: {text}" if span else f"  note: {text}")
            if span:
                lines.append(span.snippet())
        return "\n".join(lines)


class HloError(Exception):
    """The error of every bad input: one or more diagnostics. `str()` is what a user reads.

    >>> try:
    ...     hlo.parse_shape("f31[2]")
    ... except hlo.HloError as error:
    ...     print(error.code)
    ...     print(error)
    unknown-type
    <shape>:1:1: error: unknown element type 'f31' [unknown-type]
      f31[2]
      ^
      hint: did you mean 'f32'?
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        assert self.diagnostics, "an HloError says what is wrong"
        super().__init__(self.diagnostics)

    @classmethod
    def at(cls, code: str, message: str, span: Span | None = None, hint: str | None = None) -> Self:
        """Return an error of one diagnostic."""
        return cls([Diagnostic(code, message, span, hint)])

    @property
    def code(self) -> str:
        """The code of the first diagnostic."""
        return self.diagnostics[0].code

    def __str__(self) -> str:
        return "\n".join(d.render() for d in self.diagnostics)


class ElidedConstantsWarning(UserWarning):
    """What is run depends on constants whose values a printer left out, `{...}`.

    >>> import warnings
    >>> module = hlo.parse("HloModule m ENTRY e { ROOT c = f32[3] constant({...}) }")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = hlo.interpret(module)
    >>> print(caught[0].message)
    1 constant is elided, {...}: c; placeholders are used, hlo.fill_constants sets them
    """


class InferError(Exception):
    """A rule of an operation is broken; raised by the op table, which knows no positions.

    The parser and the verifier turn it into a `Diagnostic` at the instruction, with the span of the
    operand or attribute that is named here. xla: what XLA does, where it takes what the rule does
    not; a lenient verifier then takes it too, so only an operation's `verify` may say so.
    """

    def __init__(
        self,
        message: str,
        *,
        operand: int | None = None,
        attr: str | None = None,
        code: str = "shape-mismatch",
        hint: str | None = None,
        xla: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.xla = xla
        self.operand = operand
        self.attr = attr
        self.code = code
        self.hint = hint


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the closest known word, or None when nothing is close."""
    options: Sequence[str] = list(known)
    if len(options) > _MANY_WORDS:
        options = _similar(word, options)
    close = difflib.get_close_matches(word, options, n=8, cutoff=0.6)
    if not close:
        return None

    def likeness(option: str) -> tuple[float, int]:
        # Of words that are as close, the one that starts alike: the end is mistyped more often.
        matcher = difflib.SequenceMatcher(None, option, word)
        start = matcher.find_longest_match()
        return matcher.ratio(), start.size if start.a == start.b == 0 else 0

    return f"did you mean {max(close, key=likeness)!r}?"


def _similar(word: str, options: Sequence[str]) -> list[str]:
    """Return the words that may be meant, out of so many that comparing all takes too long."""
    if len(word) <= _LONG_WORD:
        known = frozenset(options)
        letters = {c for option in options[-_MANY_WORDS:] for c in option}
        parts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        found = {a + b[1:] for a, b in parts if b}
        found |= {a + b[1] + b[0] + b[2:] for a, b in parts if len(b) > 1}
        found |= {a + c + b[skip:] for a, b in parts for c in letters for skip in (0, 1)}
        if near := found & known:
            return sorted(near)
    return [o for o in options if o[:2] == word[:2] and abs(len(o) - len(word)) < 3][-_MANY_WORDS:]


# Of more words, those that differ by one letter are looked for first.
_MANY_WORDS = 500
_LONG_WORD = 200


class TextError(Exception):
    """Text does not follow its syntax, at an offset from the start of that text.

    Raised by the small readers (shapes, literals, attribute values), which see only their own
    piece; the parser adds the piece's place in the file.
    """

    def __init__(
        self, message: str, offset: int = 0, *, code: str = "syntax", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.code = code
        self.hint = hint


class InstructionSpan(Span):
    """The range of an instruction, with the starts of its operands and attributes in the source."""

    __slots__ = ("attr_starts", "operand_starts")
    # A file has one for each instruction: assignments take a fifth of the time that those of a
    # frozen class take.
    __setattr__ = object.__setattr__

    def __init__(
        self,
        source: Source,
        start: int,
        end: int,
        operand_starts: Sequence[int] = (),
        attr_starts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.source, self.start, self.end = source, start, end  # type: ignore[misc]
        self.operand_starts = operand_starts
        self.attr_starts = attr_starts

    def operand(self, index: int) -> Span:
        """Return the place of an operand, or of the whole instruction when it is not known."""
        if index < len(self.operand_starts):
            start = self.operand_starts[index]
            return Span(self.source, start, self._word_end(start))
        return self

    def attr(self, name: str) -> Span:
        """Return the place of an attribute, or of the whole instruction when it is absent."""
        start = self.attr_starts.get(name)
        return self if start is None else Span(self.source, start, self._word_end(start))

    def _word_end(self, start: int) -> int:
        end, text = start, self.source.text
        while end < self.end and (text[end].isalnum() or text[end] in "_.-%#"):
            end += 1
        return max(end, start + 1)

    @property
    def original(self) -> InstructionSpan:
        """The span of the instruction as it was read, of which inlining made a copy."""
        return self

    @property
    def call_sites(self) -> tuple[InstructionSpan, ...]:
        """The spans of the calls that the instruction was inlined at, the innermost first."""
        return ()

    def inlined_at(self, site: InstructionSpan) -> InstructionSpan:
        """Return the span of a copy of the instruction that is inlined at a call."""
        return _InlinedSpan(self.original, (*self.call_sites, site.original, *site.call_sites))


class _InlinedSpan(InstructionSpan):
    """The span of a copy that was inlined."""

    __slots__ = ("_call_sites", "_original")

    def __init__(self, original: InstructionSpan, call_sites: tuple[InstructionSpan, ...]) -> None:
        super().__init__(
            original.source, original.start, original.end,
            original.operand_starts, original.attr_starts,
        )  # fmt: skip
        self._original, self._call_sites = original, call_sites

    @property
    def original(self) -> InstructionSpan:
        return self._original

    @property
    def call_sites(self) -> tuple[InstructionSpan, ...]:
        return self._call_sites
