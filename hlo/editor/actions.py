"""Changes that an editor offers: what hints propose, shapes that are left out or wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hlo.editor.document import Document, Edit
from hlo.errors import Diagnostic, InferError
from hlo.frontends.text.reading import Statement
from hlo.frontends.text.syntax import Token

_DID_YOU_MEAN = re.compile(r"did you mean '([^']+)'\?")
_WRITE = re.compile(r"write (%[\w.-]+)")
_WORD = re.compile(r"%?[\w.-]+")
_SHAPE_CODES = frozenset({"shape-mismatch", "type-mismatch", "layout-mismatch"})


@dataclass(frozen=True)
class Action:
    """A change: its title, the diagnostic that it mends, if any, and its edits."""

    title: str
    edits: tuple[Edit, ...]
    mends: Diagnostic | None = None


def actions(document: Document, start: int, end: int) -> Iterator[Action]:
    """Yield the changes that are offered for the characters `[start, end)`."""
    for diagnostic in document.diagnostics:
        if diagnostic.span is None:
            continue
        first, last = document.offsets(diagnostic.span)
        if first <= end and start <= last:
            yield from _from_hint(document, diagnostic, first)
            yield from _right_shape(document, diagnostic, first)
    text = document.parsed.text
    for statement in text.statements[text.index(start) : text.index(end) + 1]:
        yield from _inferred_shape(statement)


def _from_hint(document: Document, diagnostic: Diagnostic, start: int) -> Iterator[Action]:
    hint = diagnostic.hint or ""
    m = _DID_YOU_MEAN.search(hint) or _WRITE.search(hint)
    word = _WORD.match(document.text, start)
    if m is None or word is None:
        return
    mark = "%" if word[0].startswith("%") and not m[1].startswith("%") else ""
    edit = Edit(word.start(), word.end(), mark + m[1])
    yield Action(f"Change to {m[1]}", (edit,), diagnostic)


def _right_shape(document: Document, diagnostic: Diagnostic, start: int) -> Iterator[Action]:
    """Yield the declared shape made the one that operands and attributes give."""
    if diagnostic.code not in _SHAPE_CODES:
        return
    statement = document.parsed.text.statements[document.parsed.text.index(start)]
    record, built = statement.record, statement.built
    if record is None or built is None or built.inst is None or not built.rule:
        return
    if diagnostic not in built.rule or not isinstance(record.shape, Token):
        return
    inst = built.inst
    try:
        shape = inst.spec.infer(inst)
    except InferError:
        return
    if shape == inst.shape:
        return
    base, written = statement.start, record.shape
    end = base + written.start_pos + len(written.value.rstrip())
    edit = Edit(base + written.start_pos, end, str(shape))
    yield Action(f"Change the shape to {shape}", (edit,), diagnostic)


def _inferred_shape(statement: Statement) -> Iterator[Action]:
    """Yield the insertion of a shape that the text leaves out."""
    record, built = statement.record, statement.built
    if record is None or built is None or built.inst is None or not built.is_valid:
        return
    if record.shape is None and record.definition is not None:
        at = statement.start + record.opcode.start_pos
        shape = str(built.inst.shape)
        yield Action(f"Insert the shape {shape}", (Edit(at, at, shape + " "),))
