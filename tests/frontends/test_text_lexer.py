"""The short patterns that the lexer tries first change nothing."""

from __future__ import annotations

import re

import pytest

from hlo.errors import HloError
from hlo.frontends.text import parse, terminals
from hlo.frontends.text.syntax import grammar
from tests.harness.paths import FILETESTS

FILES = sorted(FILETESTS.rglob("*.hlo"))
CASES = [case for file in FILES for case in re.split(r"// -----.*\n", file.read_text())]


def read(text: str) -> str:
    try:
        return str(parse(text))
    except HloError as e:
        return str(e)


def test_usual_patterns_take_what_the_terminals_take(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = CASES[:: max(1, len(CASES) // 150)]
    with_usual = [read(case) for case in cases]
    assert sum(text.startswith("HloModule") for text in with_usual) > 50
    monkeypatch.setattr(terminals, "USUAL", {})
    monkeypatch.setattr(terminals, "FIRST", {})
    grammar.cache_clear()
    try:
        assert [read(case) for case in cases] == with_usual
    finally:
        grammar.cache_clear()
