"""Files with modules inside of other text: a document for each, where it is in the file."""

from __future__ import annotations

import random
import re

import pytest

from hlo.editor.files import OpenFile
from hlo.editor.outline import folds, joined_tokens, semantic_tokens
from hlo.editor.positions import Lines, Place
from tests.harness.edited import difference

MODULE = """HloModule m

f {
  a = f32[2] parameter(0)
  ROOT n = f32[2] negate(a)
}

ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] call(x), to_apply=f
}
"""
LOG = "".join(f"I0000 00:00:1.{n} 9 a.cc:1] {line}\n" for n, line in enumerate(MODULE.splitlines()))
FILE = f"# Two\n\n```hlo\n{MODULE}```\n\n{LOG}\nthe end\n"


def _change(file: OpenFile, old: str, new: str) -> None:
    lines, start = Lines(file.text), file.text.index(old)
    file.change(lines.place(start), lines.place(start + len(old)), new)
    file.update()


def test_each_module_is_a_document() -> None:
    file = OpenFile("x", FILE)
    first, second = file.documents
    assert not file.is_module and first.module is not None and second.module is not None
    assert file.at(Place(0, 0)) is file.at(Place(5, 0)) is first
    assert file.at(Place(18, 40)) is file.at(Place(99, 0)) is second
    _change(file, "] call(", "] cal(")
    assert [d.code for d in first.diagnostics] == ["unknown-opcode"] and not second.diagnostics
    _change(file, "] call(", "] cal(")
    [wrong] = second.diagnostics
    line = FILE[: FILE.rindex("call")].count("\n")
    start = second.lines.place(second.offsets(wrong.span)[0])
    assert start == (line, len("I0000 00:00:1.9 9 a.cc:1]   ROOT y = f32[2] "))
    assert second.text[second.lines.offset(start) :].startswith("cal(x)")


def test_lines_of_all_features_are_those_of_the_file() -> None:
    file = OpenFile("x", FILE)
    text = FILE.split("\n")
    for document in file.documents:
        for first, last in folds(document):
            assert "{" in text[first] and "}" in text[last]
    data = joined_tokens([semantic_tokens(d) for d in file.documents])
    line = character = 0
    words = []
    for at in range(0, len(data), 5):
        step, move, length = data[at : at + 3]
        line, character = line + step, move + (0 if step else character)
        words.append(text[line][character : character + length])
    assert words.count("negate") == words.count("call") == 2
    assert all(re.fullmatch(r"[\w.-]+", word) for word in words), words


def test_modules_come_and_go() -> None:
    file = OpenFile("x", "")
    assert file.is_module
    file.replace(FILE)
    file.update()
    assert len(file.documents) == 2 and file.text == FILE
    _change(file, LOG, "")
    assert len(file.documents) == 1 and not file.documents[0].diagnostics
    file.replace(MODULE)
    file.update()
    assert file.is_module and file.documents[0].module is not None
    _change(file, MODULE, "words\n")
    assert file.is_module and file.documents[0].module is None


@pytest.mark.parametrize("seed", range(4))
def test_any_edit_leaves_what_a_new_reading_has(seed: int) -> None:
    rng = random.Random(seed)
    file = OpenFile("x", FILE)
    for _ in range(40):
        text, lines = file.text, Lines(file.text)
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 9, 60)))
        piece = rng.choice(
            ("", "}", "{", "```\n", "I0000 00:00:1.7 9 a.cc:1] ", '"', "x", "\n", MODULE)
        )
        file.change(lines.place(start), lines.place(end), piece)
        file.update()
        again = OpenFile("x", file.text)
        assert file.text == text[:start] + piece + text[end:]
        assert [d.text for d in file.documents] == [d.text for d in again.documents]
        for document in file.documents:
            assert not difference(document)
        if rng.random() < 0.3:
            file.replace(FILE)
            file.update()
