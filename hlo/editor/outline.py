"""What an editor shows of a whole document: symbols, folds, colours, shapes that are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hlo.editor.document import Document
from hlo.editor.words import (
    ATTRIBUTE,
    COMMENT,
    COMPUTATION,
    FIELD,
    KEYWORD,
    MODULE,
    NAME,
    NUMBER,
    OPCODE,
    PARAMETER,
    STRING,
    TYPE,
    VALUE,
    words,
)
from hlo.frontends.text.units import name_span

# Of each kind of word, what the protocol calls it.
TOKEN_TYPES = {
    KEYWORD: "keyword", COMPUTATION: "function", NAME: "variable", PARAMETER: "parameter",
    OPCODE: "method", TYPE: "type", ATTRIBUTE: "property", FIELD: "property",
    VALUE: "enumMember", NUMBER: "number", STRING: "string", COMMENT: "comment",
    MODULE: "namespace",
}  # fmt: skip
LEGEND = list(dict.fromkeys(TOKEN_TYPES.values()))
_NUMBERS = {kind: LEGEND.index(name) for kind, name in TOKEN_TYPES.items()}


@dataclass
class Outline:
    """A computation or an instruction: its characters, and those of its name."""

    name: str
    detail: str
    start: int
    end: int
    name_start: int
    name_end: int
    is_computation: bool
    children: list[Outline] = field(default_factory=list)


@dataclass(frozen=True)
class Hint:
    """A shape that the text leaves out, to be shown at a character."""

    offset: int
    text: str


def outline(document: Document) -> list[Outline]:
    """Return the computations, and in each its instructions."""
    found = []
    for unit in document.parsed.units:
        head, last = unit.head, (unit.statements or [unit.head])[-1]
        assert head.heading is not None
        token = head.heading.head
        end = last.end if last.closing is None else last.start + last.closing.end.end_pos
        signature = unit.comp.signature if unit.comp.has_root else ""
        item = Outline(
            unit.comp.name, signature, head.start, end, head.start + token.start_pos,
            head.start + token.start_pos + len(token.value.rstrip()), is_computation=True,
        )  # fmt: skip
        for statement in unit.statements:
            if statement.record is None or statement.built is None:
                continue
            span, base = name_span(statement), statement.start
            inst = statement.built.inst
            item.children.append(
                Outline(
                    statement.built.name, f"{inst.shape} {inst.opcode}" if inst else "", base,
                    base + len(statement.source.text.rstrip()), base + span.start,
                    base + span.end, is_computation=False,
                )
            )  # fmt: skip
        found.append(item)
    return found


def folds(document: Document) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of what can be folded: computations, tables."""
    lines = document.lines
    for unit in document.parsed.units:
        last = (unit.statements or [unit.head])[-1]
        assert last.closing is not None
        first = lines.place(unit.head.start).line
        end = lines.place(last.start + last.closing.end.start_pos).line
        if end > first:
            yield first, end
    for token in document.parsed.text.statements[0].tokens:
        if token.type == "TABLE":
            first = lines.place(token.start_pos).line
            end = lines.place(token.start_pos + len(token.value.rstrip())).line
            if end > first:
                yield first, end


def semantic_tokens(document: Document, start: int = 0, end: int | None = None) -> list[int]:
    """Return the colours of a range of characters, as the protocol encodes them."""
    text, lines = document.parsed.text, document.lines
    limit = len(document.text) if end is None else end
    data: list[int] = []
    line, character = 0, 0
    for at in range(text.index(start), len(text.statements)):
        statement = text.statements[at]
        if statement.start >= limit:
            break
        for word in words(statement):
            first, last = statement.start + word.start, statement.start + word.end
            if last <= start or first >= limit:
                continue
            for begin, until in _on_lines(document.text, first, last):
                place, behind = lines.place(begin), lines.place(until)
                if behind.line != place.line:
                    continue  # a line break that a string of a program leaves out
                if place.line != line:
                    line, character, step = place.line, 0, place.line - line
                else:
                    step = 0
                data += (
                    step, place.character - character, behind.character - place.character,
                    _NUMBERS[word.kind], int(word.is_definition),
                )  # fmt: skip
                character = place.character
    return data


def joined_tokens(documents: list[list[int]]) -> list[int]:
    """Return the colours of several documents, one behind the other, as those of one file."""
    data: list[int] = []
    line = character = 0
    for colours in documents:
        at_line = at_character = 0
        for start in range(0, len(colours), 5):
            step, move, *rest = colours[start : start + 5]
            at_line, at_character = at_line + step, move + (0 if step else at_character)
            between = at_line - line
            data += (between, at_character - (0 if between else character), *rest)
            line, character = at_line, at_character
    return data


def _on_lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range on each of its lines."""
    for piece in re.compile(r"[^\r\n]+").finditer(text, start, end):
        yield piece.span()


def hints(document: Document, start: int, end: int) -> Iterator[Hint]:
    """Yield the result shapes that are left out in a range of characters."""
    text = document.parsed.text
    for at in range(text.index(start), len(text.statements)):
        statement = text.statements[at]
        if statement.start > end:
            break
        record, built = statement.record, statement.built
        if record is None or built is None or built.inst is None or not built.is_valid:
            continue
        if record.shape is None:
            yield Hint(statement.start + record.opcode.start_pos, str(built.inst.shape))
