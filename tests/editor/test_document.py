"""A document after each edit says what the parser and the verifier say of its text."""

from __future__ import annotations

import random

import pytest

from hlo.editor.document import Document, Edit
from hlo.editor.positions import Lines, Place
from tests.harness.edited import difference
from tests.harness.paths import ROOT
from tests.sweeps.edit_texts import some_edit

_FILES = ("stages.hlo", "resnet20.hlo")


@pytest.mark.parametrize("seed", range(3))
def test_a_document_says_what_the_verifier_says(seed: int) -> None:
    rng = random.Random(seed)
    text = (ROOT / "examples/stages.hlo").read_text()
    document = Document("x", text)
    for step in range(120):
        for _ in range(rng.choice((1, 1, 2))):
            document.edit(some_edit(rng, document.text))
        document.update()
        assert not difference(document), document.text
        if step % 2:
            document.replace(text)
            document.update()
            assert document.module is not None and not document.diagnostics


@pytest.mark.parametrize("file", _FILES)
def test_a_document_comes_back_from_an_error(file: str) -> None:
    text = (ROOT / "examples" / file).read_text()
    document = Document("x", text)
    assert document.module is not None and not document.diagnostics
    before = str(document.module)
    first = text.index(" = ", text.index("ENTRY"))
    document.edit(Edit(first, first + 3, " @ "))
    document.update()
    assert document.module is None
    document.edit(Edit(first, first + 3, " = "))
    document.update()
    assert document.module is not None and str(document.module) == before
    assert not difference(document), document.text


def test_a_name_that_is_known_again_is_missed_where_it_is_used() -> None:
    broken = """HloModule m
    f { b = f32[] parameter(0
      ROOT r = f32[] constant(1) }
    ENTRY e { x = f32[] parameter(0)
      ROOT s = f32[] add(x, b) }"""
    document = Document("x", broken)
    assert [d.code for d in document.diagnostics] == ["syntax"]
    document.replace(broken.replace("(0\n", "(0)\n"))
    document.update()
    assert [d.code for d in document.diagnostics] == ["undefined-operand"]


_CALLS = """HloModule m
f {
  t = f32[2] parameter(0)
  ROOT r = f32[2] negate(t)
}
g {
  a = f32[2] parameter(0)
  t = f32[2] negate(a)
  c = f32[2] call(t), to_apply=f
  ROOT s = f32[2] add(c, t)
}
ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] call(x), to_apply=g
}
"""


@pytest.mark.parametrize(
    "edits",
    [
        [("}\ng {\n", "")],  # merged; names are defined twice
        [("}\ng {\n", ""), ("  t = f32[2] negate(a)", "}\ng {\n  t = f32[2] negate(a)")],
        [("g {\n", "")],  # without its head
        [("}\ng", "g")],  # without the brace in front of it
        [("  c =", "}\nh {\n  c =")],  # split
        [("  c =", "}\nf {\n  c ="), ("}\nf {\n  c =", "  c =")],  # into one of a known name
        [("ENTRY e {\n", "e {\nfoo {\n")],
        [("g {", "gg {"), ("a = f32[2] parameter(0)", "a = f32[2] parameter(0"), ("(0\n", "(0)\n")],
        [("  ROOT r = f32[2] negate(t)\n", ""), ("  t = f32[2] parameter(0)\n", "  x = f32] a\n"),
         ("  x = f32] a\n", "")],
    ],
)  # fmt: skip
def test_computations_that_are_merged_and_split(edits: list[tuple[str, str]]) -> None:
    document = Document("x", _CALLS)
    for old, new in edits:
        start = document.text.index(old)
        document.edit(Edit(start, start + len(old), new))
        document.update()
        assert not difference(document), document.text
    document.replace(_CALLS)
    document.update()
    assert not document.diagnostics and not difference(document)


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
