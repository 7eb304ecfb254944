"""Whatever the text and the place, every question of an editor has an answer."""

from __future__ import annotations

import random

import pytest

from hlo.editor.actions import actions
from hlo.editor.completion import completions
from hlo.editor.document import Document, Edit
from hlo.editor.hover import hover
from hlo.editor.names import definition, occurrences, symbol_at
from hlo.editor.outline import folds, hints, outline, semantic_tokens
from hlo.editor.words import words
from tests.harness.paths import ROOT

_PIECES = (
    "%", "}", "{", "(", ")", ",", "\n", '"', "'", "/*", "//", "ROOT ", "ENTRY ", "f32[2]{0}", " = ",
    "[", "]", "#0", "metadata={", "to_apply=", "\U0001f600", "\r\n", "\r", "\t", "\0", "\u2028",
    "HloModule ", "add-start(", "é",
)  # fmt: skip


def ask(document: Document, offset: int) -> None:
    """Ask everything about a place."""
    hover(document, offset)
    completions(document, offset)
    symbol = symbol_at(document, offset)
    if symbol is not None:
        assert definition(document, symbol) is None or list(occurrences(document, symbol))
    list(actions(document, max(0, offset - 20), offset))
    list(hints(document, offset, offset + 500))
    outline(document)
    list(folds(document))
    data = semantic_tokens(document, max(0, offset - 200), offset + 200)
    assert len(data) % 5 == 0 and all(n >= 0 for n in data)
    for diagnostic in document.diagnostics:
        if diagnostic.span is not None:
            start, end = document.offsets(diagnostic.span)
            assert 0 <= start <= end <= len(document.text) + 1
    for statement in document.parsed.text.statements[:20]:
        at = 0
        for word in words(statement):
            assert at <= word.start < word.end <= len(statement.source.text)
            assert statement.source.text[word.start : word.end] == word.text
            at = word.end


@pytest.mark.parametrize("file", ["stages.hlo", "resnet20.hlo"])
def test_every_place_of_a_broken_text_is_answered(file: str) -> None:
    rng = random.Random(file)
    text = (ROOT / "examples" / file).read_text()
    document = Document("x", text)
    for step in range(30):
        size = len(document.text)
        start = rng.randrange(size + 1)
        end = min(size, start + rng.choice((0, 0, 1, 5, 60)))
        document.edit(Edit(start, end, rng.choice(_PIECES)))
        document.update()
        ask(document, start)
        ask(document, rng.randrange(len(document.text) + 1))
        if step % 10 == 9:
            document.replace(text)
            document.update()
            assert not document.diagnostics


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "}", "HloModule", "HloModule m", "f32[2] add(f32[2] a, f32[2] b)", "%a = ",
        "ENTRY e {", "e { ROOT r = f32[] constant(1) }", "\U0001f600" * 9, '"', "/*", "(" * 3000,
        "HloModule m\n" * 50, "e {\n" * 50, "x = " * 2000,
    ],
)  # fmt: skip
def test_any_text_is_answered(text: str) -> None:
    document = Document("x", text)
    for offset in {0, len(text) // 2, len(text)}:
        ask(document, offset)
    document.edit(Edit(0, len(text), "HloModule m\ne { ROOT r = f32[] constant(1) }"))
    document.update()
    assert not document.diagnostics and document.module is not None
