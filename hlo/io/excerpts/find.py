"""Which modules there are in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hlo.errors import HloError, Source
from hlo.io.excerpts.excerpt import Excerpt, Piece
from hlo.io.excerpts.lines import first_line, lines_from
from hlo.io.excerpts.strings import string_around
from hlo.io.formats import is_stablehlo

_IS_HLO = re.compile(r"(?>(?:\s++|//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)\*/)*)HloModule\b")
# The first line of a module. What follows the name tells it from a sentence about one.
_HLO = (
    r"(?<![\w.])HloModule[ \t]++(?P<name>%?[A-Za-z_][\w.-]*+):?"
    r"(?=,|[ \t]*+(?:$|\\n)|[ \t]++(?:ENTRY\b|%?[A-Za-z_][\w.-]*+[ \t]*+[({]))"
)
_MLIR = (
    r"(?<![\w.])module[ \t]++(?:@[\w.$-]++[ \t]++)?"
    r"(?:attributes[ \t]++\{|\{[ \t]*+(?:$|\\n|func\.))"
    r'|"builtin\.module"[ \t]*\(|func\.func[ \t]++(?:public[ \t]++|private[ \t]++)?@'
)
# A fence of Markdown that names its language.
_FENCE = (
    r"^(?P<lead>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*\{?\.?(?P<language>(?i:hlo|xla|stablehlo|mlir))"
    r"\b[^\n]*\n"
)
_START = re.compile(f"{_FENCE}|{_HLO}|{_MLIR}", re.M)
_ENTRY = re.compile(r"\bENTRY[ \t]++%?([A-Za-z_][\w.-]*+)")
_SYMBOL = re.compile(r"\bmodule[ \t]++@([\w.$-]++)")
_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
# A line that separates modules in one file, as `--split-input-file` of MLIR's tools takes them.
_SEPARATOR = re.compile(r"^// -{5,}[ \t]*\r?$\n?", re.M)


@dataclass(frozen=True)
class EmbeddedModule:
    """A module in a file.

    Attributes:
        name: of the module, or of its entry; nothing where the text has no name.
        source: its text.
        start, end: what it takes of the file, with what surrounds it: quotes, a fence.
    """

    name: str
    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the file that it begins on."""
        text = self.source.text
        return self.source.line_column(len(text) - len(text.lstrip()))[0]


def modules_in(source: Source) -> list[EmbeddedModule]:
    """Return the modules that are inside of other text, in order; none for a text that is one."""
    text = source.text
    if _IS_HLO.match(text) or is_stablehlo(text):
        return []
    if "\x1b" in text:
        source = _without_colours(source)
        if _IS_HLO.match(source.text) or is_stablehlo(source.text):
            return [EmbeddedModule(_name(source.text), source, 0, len(text))]
    return list(_modules(source))


def modules_of(source: Source) -> list[EmbeddedModule]:
    """Return all modules of a file: those inside of other text, or those between separators."""
    if inside := modules_in(source):
        return inside
    text, at, found = source.text, 0, []
    for m in [*_SEPARATOR.finditer(text), None]:
        end = m.start() if m else len(text)
        if text[at:end].strip():
            piece = Excerpt(source, [(at, text[at:end])])
            found.append(EmbeddedModule(_name(piece.text), piece, at, end))
        at = m.end() if m else end
    return found


def only(source: Source, wanted: EmbeddedModule) -> str:
    """Return the text of one module of a file, on the lines and columns that it has there."""
    line, column = source.line_column(wanted.start)
    return "\n" * (line - 1) + " " * (column - 1) + source.text[wanted.start : wanted.end]


def select(source: Source, wanted: str) -> EmbeddedModule:
    """Return the module of a name in a file, or of a number from 1 on. Raises HloError."""
    modules = modules_of(source)
    for found in modules:
        if found.name == wanted:
            return found
    if wanted.isdecimal() and 0 < int(wanted) <= len(modules):
        return modules[int(wanted) - 1]
    raise HloError.at(
        "unknown-module", f"{source.name} has no module {wanted!r}",
        hint=f"its modules are {listed(modules)}" if modules else "it has no module",
    )  # fmt: skip


def listed(modules: Sequence[EmbeddedModule]) -> str:
    """Return the modules of a file for a message: names, or numbers, and lines."""
    shown = [f"{m.name or n} (line {m.line})" for n, m in enumerate(modules[:8], 1)]
    return ", ".join(shown) + (", ..." if len(modules) > 8 else "")


def _without_colours(source: Source) -> Excerpt:
    """Return a text without the escape sequences that terminals take."""
    text, at, pieces = source.text, 0, []
    for m in [*_COLOUR.finditer(text), None]:
        end = m.start() if m else len(text)
        pieces.append((at, text[at:end]))
        at = m.end() if m else end
    return Excerpt(source, pieces)


def _modules(source: Source) -> Iterator[EmbeddedModule]:
    text, at = source.text, 0
    while start := _START.search(text, at):
        at = start.end()
        found = _fenced(text, start) if start["fence"] else _begun(text, start)
        if found is None:
            continue
        begin, end, pieces = found
        excerpt = Excerpt(source, pieces)
        if start["fence"] or _is_module(excerpt.text):
            at = max(at, end)
            if isinstance(source, Excerpt):
                begin, end = source.to_file(begin), source.to_file(end)
            yield EmbeddedModule(_name(excerpt.text), excerpt, begin, end)


def _begun(text: str, start: re.Match[str]) -> tuple[int, int, list[Piece]] | None:
    """Return what a module takes whose first words are known, and its pieces; None in a comment."""
    at = start.start()
    if (string := string_around(text, at)) is not None:
        return string
    if text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("//"):
        return None  # what a test expects
    is_mlir = start["name"] is None
    begin = first_line(text, at) if is_mlir else at
    end, pieces = lines_from(text, begin, is_mlir=is_mlir)
    return text.rfind("\n", 0, begin) + 1, end, pieces


def _fenced(text: str, opener: re.Match[str]) -> tuple[int, int, list[Piece]] | None:
    """Return what a fence takes, and the lines in it; None if no module can be in it."""
    lead, fence = opener["lead"], opener["fence"]
    closing = re.compile(rf"^[ \t>]*{fence}[{fence[0]}]*[ \t]*$", re.M).search(text, opener.end())
    at, stop = opener.end(), closing.start() if closing else len(text)
    end = closing.end() if closing else stop
    body = text[at:stop]
    is_mlir = opener["language"].lower() in ("stablehlo", "mlir")
    if not body.strip() or (is_mlir and not is_stablehlo(body)):
        return None
    pieces = []
    while at < stop:
        line = min(stop, text.find("\n", at, stop) + 1 or stop)
        skip = len(lead) if text.startswith(lead, at) else 0
        pieces.append((at + skip, text[at + skip : line]))
        at = line
    return opener.start(), end, pieces


def _is_module(text: str) -> bool:
    """Tell a module from a sentence that names one."""
    return "{" in text and ("=" if _IS_HLO.match(text) else "func") in text


def _name(text: str) -> str:
    """Return the name of a module, or of the entry where it has none; nothing if neither has."""
    for pattern in (re.compile(_HLO, re.M), _SYMBOL, _ENTRY):
        if (m := pattern.search(text)) is not None:
            return m[1].removeprefix("%")
    return ""
