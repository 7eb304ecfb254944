"""A document after each edit says what the parser and the verifier say of its text."""

from __future__ import annotations

import random
import re

import pytest

from hlo.editor.document import Document, Edit
from hlo.editor.positions import Lines, Place
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.verifier import diagnose
from tests.harness.paths import ROOT

_PIECES = (
    "%", "}", "{", "(", ")", ",", "\n", '"', "ROOT ", "ENTRY ", "f32[2]{0}", " = ", "[", "]",
    "%a.1 = f32[] constant(1)\n", "\n}\n\n%foo {\n", "foo (p: f32[]) -> f32[] {\n", "\U0001f600",
    "calls={\n %q = f32[] constant(1)\n ROOT %z = f32[] negate(%q)\n}",
)  # fmt: skip
_FILES = ("stages.hlo", "resnet20.hlo")

Facts = tuple[bool, list[tuple[str, str, int]]]


def _fresh(text: str) -> Facts:
    try:
        found = diagnose(parse(text))
    except HloError as e:
        return False, sorted((d.code, d.message, d.span.start) for d in e.diagnostics if d.span)
    return True, sorted((d.code, d.message, d.span.start) for d in found if d.span)


def _facts(document: Document) -> Facts:
    found = [
        (d.code, d.message, document.offsets(d.span)[0]) for d in document.diagnostics if d.span
    ]
    return document.module is not None, sorted(found)


def _check(document: Document) -> None:
    ours, theirs = _facts(document), _fresh(document.text)
    assert ours[0] == theirs[0], document.text
    if all(code == "syntax" for code, _, _ in theirs[1]):
        # After an error that hides the rest of a file, the document still builds the beginning.
        assert set(theirs[1]) <= set(ours[1]) or (not theirs[1] and not ours[1]), document.text
    elif len(theirs[1]) < 20:  # where the parser stops
        assert ours == theirs, document.text
    if document.module is not None and not re.search(r"\b_\b", document.text):
        assert len(list(document.module.instructions())) == len(
            list(parse(document.text).instructions())
        )


def _mutated(rng: random.Random, text: str) -> Edit:
    words = list(re.finditer(r"[\w.-]+", text))
    lines = [0, *(m.end() for m in re.finditer("\n", text))]
    how, at = rng.random(), rng.randrange(len(text) + 1)
    if how < 0.4 and words:
        word = rng.choice(words)
        return Edit(word.start(), word.end(), rng.choice(words)[0])
    if how < 0.6:
        start = rng.choice(lines)
        end = text.find("\n", start) + 1 or len(text)
        if rng.random() < 0.5:
            return Edit(start, end, "")
        to = rng.choice(lines)
        return Edit(to, to, text[start:end])
    end = min(len(text), at + rng.choice((0, 1, 2, 40)))
    return Edit(at, end, rng.choice(_PIECES) if how < 0.9 else "")


@pytest.mark.parametrize("seed", range(3))
def test_a_document_says_what_the_verifier_says(seed: int) -> None:
    rng = random.Random(seed)
    text = (ROOT / "examples/stages.hlo").read_text()
    document = Document("x", text)
    for step in range(120):
        for _ in range(rng.choice((1, 1, 2))):
            document.edit(_mutated(rng, document.text))
        document.update()
        _check(document)
        if step % 2:
            document.replace(text)
            document.update()
            assert _facts(document) == (True, [])


@pytest.mark.parametrize("file", _FILES)
def test_a_document_comes_back_from_an_error(file: str) -> None:
    text = (ROOT / "examples" / file).read_text()
    document = Document("x", text)
    assert _facts(document) == (True, [])
    before = document.module and str(document.module)
    first = text.index(" = ", text.index("ENTRY"))
    document.edit(Edit(first, first + 3, " @ "))
    document.update()
    assert document.module is None
    document.edit(Edit(first, first + 3, " = "))
    document.update()
    assert document.module is not None and str(document.module) == before
    _check(document)


def test_results_of_computations_reach_their_callers() -> None:
    text = """HloModule m
    f { p = f32[2] parameter(0) ROOT r = negate(p) }
    g { p = f32[2] parameter(0) ROOT r = call(p), to_apply=f }
    ENTRY e { x = f32[2] parameter(0) ROOT y = call(x), to_apply=g }"""
    document = Document("x", text)
    assert document.module is not None and str(document.module.entry.root.shape) == "f32[2]{0}"
    at = text.index("ROOT r = negate(p)")
    document.edit(Edit(at, at + 18, "ROOT r = f32[1] slice(p), slice={[0:1]}"))
    document.update()
    assert document.module is not None and str(document.module.entry.root.shape) == "f32[1]{0}"


@pytest.mark.parametrize(
    ("text", "place", "offset"),
    [
        ("ab\ncd", (1, 1), 4),
        ("ab\r\ncd", (1, 0), 4),
        ("ab\r\ncd", (0, 9), 2),
        ("a\U0001f600b", (0, 3), 2),
        ("a\U0001f600b", (0, 2), 1),
        ("\tx", (0, 1), 1),
        ("", (3, 3), 0),
        ("a\rb", (1, 1), 3),
    ],
)
def test_places_count_utf16(text: str, place: tuple[int, int], offset: int) -> None:
    assert Lines(text).offset(Place(*place)) == offset
    assert Lines(text).offset(Lines(text).place(offset)) == offset
