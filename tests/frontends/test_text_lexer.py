"""The short patterns that the lexer tries first change nothing."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from hlo.errors import HloError, Source
from hlo.frontends.text import parse, recovery, terminals
from hlo.frontends.text.report import Report
from hlo.frontends.text.syntax import ModuleRecord, Token, grammar
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
    monkeypatch.setattr(recovery, "read_lines", lambda text, state: None)
    grammar.cache_clear()
    try:
        assert [read(case) for case in cases] == with_usual
    finally:
        grammar.cache_clear()


# Lines of the usual form, and what is nearly one.
LINES = """HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b), metadata={op_name="x/y" source_line=3}
}

cond {
  p = (s32[], /*index=1*/f32[2]{0:T(8,128)}) parameter(0)
  ROOT c = pred[] constant(true)
}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0), sharding={replicated}
  %k = f32[2]{0} constant({1, 2})
  i = s32[] constant(-1) // comment
  %t = (f32[2]{0}, s32[]) tuple(%x, /*index=1*/i), frontend_attributes={a="}",b="\\""}
  %n = f32[2]{0} map(%x), dimensions={0}, to_apply={ v = f32[] parameter(0)
    ROOT w = f32[] negate(v) }
  %m = f32[2] map(f32[2]{0} %n), dimensions={0}, to_apply=%sum
  f = add(%m, %k), backend_config="{\\"a\\": 1}"
  ROOT %z = f32[2]{0} custom-call(%n), custom_call_target="t"
}
"""
PIECES = (
    *"(){}[],=%/ \n\t\"'#R0", "/*", "*/", "//", "ROOT ", " = ", "\n}\n", "x = f32[] add(a, b)\n",
    ", to_apply={", "(f32[], ", "f32[]{0} ", "\nENTRY e {\n",
)  # fmt: skip


def facts(value: Any) -> Any:
    """Return a record with the places of its tokens."""
    if isinstance(value, Token):
        return value.type, str(value), value.start_pos, value.end_pos
    if isinstance(value, ModuleRecord):
        return [facts(v) for v in vars(value).values()]
    if isinstance(value, (list, tuple)):
        return [facts(v) for v in value]
    return value


def records(text: str) -> tuple[Any, list[Any]]:
    report = Report(Source("-", text))
    try:
        found = facts(recovery.read(report))
    except HloError:
        found = None
    spans = [(d.code, d.message, d.span and (d.span.start, d.span.end)) for d in report.diagnostics]
    return found, spans


def test_lines_read_at_once_are_what_the_parser_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    texts = [LINES]
    for _ in range(300):
        at = rng.randrange(len(LINES))
        end = at + rng.choice([0, 0, 1, 5])
        texts.append(LINES[:at] + rng.choice(["", *PIECES]) + LINES[end:])
    at_once = [records(text) for text in texts]
    monkeypatch.setattr(recovery, "read_lines", lambda text, state: None)
    assert [records(text) for text in texts] == at_once
    assert sum(not errors for _, errors in at_once) > 50
    assert sum(bool(errors) for _, errors in at_once) > 50
