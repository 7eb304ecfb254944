"""Statements of a text that is edited: after each edit they are those of a text read anew."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hlo.frontends.text.statements import Statements

_TEXT = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

FileNames
1 "a.py"

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b), metadata={op_name="x/y" source_line=3}
}, execution_thread="main"

cond {
  p = (s32[], f32[2]) parameter(0)
  ROOT c = pred[] constant(true)
}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %k = f32[2]{0} constant({1, 2})
  %deep = ((((((f32[2]{0})))))) tuple(%x)
  %n = f32[2]{0} map(%x), dimensions={0}, to_apply={
    %v = f32[] parameter(0)
    ROOT %w = f32[] negate(%v)
  }
  %y = f32[2] add(f32[2] multiply(%x, %n), %k) /* comment */
  ROOT %z = f32[2]{0} custom-call(%y), custom_call_target="t"
}
"""
_PIECES = (
    "%", "}", "{", "(", ")", ",", "\n", '"', "'", "/*", "*/", "//", "ROOT ", "ENTRY ", " = ", "[",
    "f32[2]{0}", "add(", "%q.1 = f32[] constant(1)\n", "\n}\n\n%foo {\n", "HloModule z\n",
    "foo (p: f32[]) -> f32[] {\n", "calls={\n %q = f32[] constant(1)\n}", "\U0001f600",
    "\r\n", "\t",
)  # fmt: skip


def _facts(read: Statements) -> list[Any]:
    return [
        (
            s.start, s.source.text, s.state, s.resumed, repr(s.record), repr(s.heading),
            repr(s.closing), repr(s.prologue), s.dropped,
            [(t.type, str(t), t.start_pos, t.end_pos) for t in s.tokens],
            [(d.code, d.message, d.span and (d.span.start, d.span.end)) for d in s.errors],
        )
        for s in read.statements
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_edited_statements_are_those_of_the_text(seed: int) -> None:
    rng = random.Random(seed)
    read = Statements("x", _TEXT)
    for _ in range(150):
        for _ in range(rng.choice((1, 1, 2, 3))):
            size = len(read.text)
            start = rng.randrange(size + 1)
            end = min(size, start + rng.choice((0, 0, 1, 2, 5, 30, 300)))
            at = rng.randrange(len(_TEXT))
            pasted = _TEXT[at : at + rng.randrange(200)]
            read.edit(start, end, rng.choice((rng.choice(_PIECES), pasted)))
        read.update()
        assert _facts(read) == _facts(Statements("x", read.text)), read.text
        if rng.random() < 0.3:
            read.edit(0, len(read.text), _TEXT)
            read.update()


def test_what_is_not_edited_is_kept() -> None:
    read = Statements("x", _TEXT)
    before = list(read.statements)
    at = _TEXT.index("%k = ")
    read.edit(at + 1, at + 2, "longer_name")
    removed = read.update()
    kept = [s for s in read.statements if s in before]
    assert len(removed) <= 4
    assert len(kept) == len(before) - len(removed)
    last = read.statements[-1]
    assert last is before[-1]
    assert read.text[last.start : last.end] == last.source.text


def test_a_string_of_several_lines_comes_and_goes() -> None:
    read = Statements("x", _TEXT)
    at = _TEXT.index('"t"') + 2
    read.edit(at, at, "\nsecond line")
    read.update()
    assert not any(s.errors for s in read.statements)
    read.edit(read.text.index("%k"), read.text.index("%k") + 1, "@")
    read.update()
    assert any(s.errors for s in read.statements)
    assert _facts(read) == _facts(Statements("x", read.text))


@pytest.mark.parametrize("text", ["", " ", "}", "{", "HloModule m", "f32[] add(f32[] a, f32[] b)"])
def test_any_text_has_statements(text: str) -> None:
    read = Statements("x", text)
    assert "".join(s.source.text for s in read.statements) == text
